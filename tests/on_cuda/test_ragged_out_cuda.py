"""`out=` of ragged leaves on a device: arrays of CuPy's stand-in, and of torch's."""

import itertools

import numpy as np
import pytest

pytest.importorskip("torch")

import echobuf
import fake_torch
from echobuf import Packed, Padded, Ragged
from graphs import Graph
from helpers import WAIT_S, Worker
from ragged_graph_memory import SPEC, example
from test_cuda_cupy import unchanged
from test_cuda_out import MADE
from test_cuda_torch import DEVICE, torch

__all__ = ["torch", "unchanged"]  # fixtures

KWARGS = {"batch_size": 4, "window": 12, "factor": 2, "payload_bytes": 1500}
PAD = {"id": None, "tokens": -7, "points": 9}
N = 13  # of which the last batch is short
ROOM = 40


def fill(buffer, n=N, packs=False):
    for number in range(n):
        buffer.put(example(number, packs=packs), timeout=WAIT_S)
    buffer.close()


def memory(kwargs, make):
    """Memory of a batch; `make` takes a shape and a dtype."""
    padded = kwargs.get("ragged") == "padded"
    size = kwargs["batch_size"]
    out = {"id": make((size,), np.int64)}
    for name in ("tokens", "points"):
        field = SPEC[name]
        lead = (size, 16) if padded else (ROOM,)
        values = make((*lead, *field.shape[1:]), field.dtype)
        index = make((size + (not padded),), np.int64)
        out[name] = Padded(values, index) if padded else Ragged(values, index)
    return out


def host(array):
    return array.get() if hasattr(array, "get") else np.array(array)


def check(batch, wanted, kwargs):
    """`batch`, in memory with room, holds what the CPU has drawn."""
    np.testing.assert_array_equal(host(batch["id"]), wanted["id"])
    padded = kwargs.get("ragged") == "padded"
    for name in ("tokens", "points"):
        values, index = (host(part) for part in batch[name])
        np.testing.assert_array_equal(index, wanted[name][1])
        rows = wanted[name].values.shape[1 if padded else 0]
        kept, more = np.split(values, [rows], axis=1 if padded else 0)
        np.testing.assert_array_equal(kept, wanted[name].values)
        assert (more == PAD[name]).all()


FORMS = {
    "packed": {**KWARGS, "pad_to": 1, "pad_value": PAD},
    "padded": {**KWARGS, "ragged": "padded", "pad_value": PAD},
}


def on_the_cpu(kwargs, spec=SPEC, packs=False):
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        worker = Worker(fill, buffer, N, packs)
        batches = list(buffer)
        worker.result()
    return batches


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("made", [None, *MADE])
def test_batches_are_drawn_into_arrays_of_every_layout(cupy, unchanged, form, made):
    kwargs = FORMS[form]
    make = cupy.empty if made is None else lambda *of: made(cupy, *of)
    out = memory(kwargs, make)
    wanted = on_the_cpu(kwargs)
    assert len(wanted[-1]["id"]) < 4
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        feeder = Worker(fill, buffer)
        for each in wanted:
            batch = buffer.next_batch(out=out, timeout=WAIT_S)
            assert (batch is out) == (len(each["id"]) == 4)
            check(batch, each, kwargs)
        feeder.result()


def test_with_max_rows_batches_are_views(cupy, unchanged):
    kwargs = {"max_rows": 30, "window": 12, "factor": 2, "payload_bytes": 1500}
    kwargs |= {"pad_to": 1, "pad_value": PAD}
    out = memory({**kwargs, "batch_size": 12}, cupy.empty)
    small = memory({**kwargs, "batch_size": 1}, cupy.empty)
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        feeder = Worker(fill, buffer)
        with pytest.raises(echobuf.SpecError, match="`out` has room for 1 examples"):
            buffer.next_batch(out=small, timeout=WAIT_S)
        for each in on_the_cpu(kwargs):
            check(buffer.next_batch(out=out, timeout=WAIT_S), each, kwargs)
        feeder.result()


def test_too_few_rows_lose_nothing(cupy, unchanged):
    out = memory(FORMS["packed"], cupy.empty)
    few = {**out, "tokens": Ragged(out["tokens"].values[:5], out["tokens"].offsets)}
    with echobuf.EchoBuffer(SPEC, device="cuda", **FORMS["packed"]) as buffer:
        feeder = Worker(fill, buffer)
        for each in on_the_cpu(FORMS["packed"]):
            if len(each["tokens"].values) > 5:
                with pytest.raises(
                    echobuf.SpecError, match="has 5 rows on axis 0; the"
                ):
                    buffer.next_batch(out=few, timeout=WAIT_S)
            check(buffer.next_batch(out=out, timeout=WAIT_S), each, FORMS["packed"])
        feeder.result()


@pytest.mark.parametrize("strided", [False, True])
def test_packed_rows_are_drawn_into_arrays(cupy, unchanged, strided):
    kwargs = {"batch_size": 3, "window": 12, "factor": 2, "pack_to": 13}
    spec = {name: SPEC[name] for name in ("tokens", "points")}
    step = 2 if strided else 1
    ids = [cupy.empty((3 * step, 13), np.int32)[::step] for _ in range(2)]
    ids.append(cupy.empty((3,), np.int64))
    out = {
        "tokens": Packed(cupy.empty((3, 13), np.int32), *ids),
        "points": Packed(cupy.empty((3 * step, 13, 3), np.uint8)[::step], *ids),
    }
    wanted = on_the_cpu(kwargs, spec, True)
    with echobuf.EchoBuffer(spec, device="cuda", **kwargs) as buffer:
        feeder = Worker(fill, buffer, N, True)
        for each in wanted:
            batch = buffer.next_batch(out=out, timeout=WAIT_S)
            assert (batch is out) == (len(each["tokens"].lengths) == 3)
            for name in spec:
                for one, other in zip(batch[name], each[name], strict=True):
                    np.testing.assert_array_equal(host(one), other)
        feeder.result()


def test_arrays_elsewhere_are_refused(cupy, unchanged):
    out = memory(FORMS["packed"], cupy.empty)
    in_host_memory = {**out, "id": np.empty(4, np.int64)}
    with echobuf.EchoBuffer(SPEC, device="cuda", **FORMS["packed"]) as buffer:
        feeder = Worker(fill, buffer)
        with pytest.raises(echobuf.SpecError, match=r"`out\['id'\]` is a ndarray in"):
            buffer.next_batch(out=in_host_memory, timeout=WAIT_S)
        both = {**out, "points": Ragged(out["points"].values, out["tokens"].offsets)}
        with pytest.raises(echobuf.SpecError, match=r"offsets` overlaps `out"):
            buffer.next_batch(out=both, timeout=WAIT_S)
        assert buffer.stats().served == 0
        feeder.result()


def tensor(shape, dtype):
    named = getattr(fake_torch, np.dtype(dtype).name)
    return fake_torch.empty(shape, dtype=named, device=DEVICE)


@pytest.mark.parametrize("form", FORMS)
def test_tensors_are_drawn_into_on_torchs_current_stream(torch, form):
    kwargs = FORMS[form]
    out = memory(kwargs, tensor)
    with (
        echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer,
        torch.cuda.stream(torch.cuda.new_stream(DEVICE)),
    ):
        feeder = Worker(fill, buffer)
        for each in on_the_cpu(kwargs):
            check(buffer.next_batch(out=out, timeout=WAIT_S), each, kwargs)
        feeder.result()


@pytest.mark.parametrize("form", FORMS)
def test_graphs_draw_into_tensors(torch, cupy, form):
    """As `torch.cuda.graph` captures: what is on torch's current stream."""
    kwargs = FORMS[form]
    own = cupy.cuda.Stream(non_blocking=True)
    out, graph = memory(kwargs, tensor), Graph(own)
    with (
        echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer,
        torch.cuda.stream(torch.Stream(DEVICE, own.ptr)),
    ):
        wide = {**out, "id": tensor((8,), np.int64)[::2]}
        with graph:
            for refused in (None, wide):
                with pytest.raises(echobuf.OptionError, match="`out` is None"):
                    buffer.next_batch(out=refused)
            assert buffer.next_batch(out=out) is out
        feeder = Worker(fill, buffer)
        wanted = on_the_cpu(kwargs)
        for count in itertools.count():
            try:
                buffer.before_replay(stream=own, timeout=WAIT_S)
            except StopIteration:
                break
            graph.launch(own)
            check(out, wanted[count], kwargs)
        assert count == len(wanted) - 1
        check(buffer.next_batch(out=out, timeout=WAIT_S), wanted[-1], kwargs)
        feeder.result()
        graph.close()
