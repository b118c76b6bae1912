"""Losses that a device computes; CuPy and torch are stand-ins over its simulation."""

import contextlib
import itertools

import numpy as np
import pytest

import echobuf
import fake_cuda
from echobuf.testing import simulated_cuda
from helpers import WAIT_S
from opened_states import opened
from reported_losses import (
    KWARGS,
    SPEC,
    N,
    expected,
    host,
    losses,
    put,
    served,
    torch,
    torch_losses,
)
from test_cuda_graphs import Graph, context

__all__ = ["torch"]  # a fixture
CALLS = ["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_losses_of_cupy_count_from_the_second_batch_on(cupy, dtype):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:

        def report(info, index):
            before = [fake_cuda.calls(name) for name in CALLS]
            buffer.report(info, cupy.asarray(losses(index).astype(dtype)))
            assert [fake_cuda.calls(name) for name in CALLS] == before

        assert served(buffer, report) == expected()


def test_a_report_waits_for_nothing(cupy):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        put(buffer)
        _, info = buffer.next_batch(timeout=WAIT_S)
        loss = cupy.asarray(losses(info.index.get()))
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.get_current_stream().synchronize()
        with stream, fake_cuda.held(stream):
            for _ in range(5):
                buffer.report(info, loss)
        stream.synchronize()


def test_parts_of_a_batch_with_gaps_are_copied_without(cupy):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:

        def report(info, index):
            both = np.repeat(losses(index), 2)
            loss = cupy.asarray(both)[::2]
            buffer.report(info._replace(index=info.index[::2]), loss[::2])
            buffer.report(info._replace(index=info.index[1::2]), loss[1::2])

        assert served(buffer, report) == expected()


def test_losses_on_the_host_count_at_once(cupy):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:

        def report(info, index):
            buffer.report(info, losses(index))

        assert served(buffer, report) == expected(lag=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("with_gaps", [False, True])
def test_losses_of_torch_count_too(cupy, torch, dtype, with_gaps):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:

        def report(info, index):
            if not with_gaps:
                buffer.report(info, torch_losses(cupy, torch, index, dtype))
                return
            pairs = torch_losses(cupy, torch, np.repeat(index, 2), dtype)
            buffer.report(info, pairs[::2])

        assert served(buffer, report) == expected()


def test_one_loss_is_enough_for_a_whole_batch(cupy):
    spec = echobuf.Field((2,), np.float32)
    kwargs = {"window": 5, "factor": 5, "seed": 3, "unit": "batch"}
    kwargs |= {"with_info": True, "reuse": "loss", "thin": 0.6}

    def run(device, on_device):
        batches, late = [], []
        with echobuf.EchoBuffer(spec, device=device, **kwargs) as buffer:
            for number in range(5):
                values = np.full(1 + number % 2, number, np.float32)
                buffer.put(values, timeout=WAIT_S)
            buffer.close()
            for _, info in buffer:
                index = host(info.index)
                batches.append((index.tolist(), host(info.weight).tolist()))
                loss = np.float32(index[0] % 3)
                if on_device:
                    buffer.report(info, cupy.asarray(np.array(loss)))
                    continue
                late.append((info, loss))
                if len(late) > 1:
                    buffer.report(*late.pop(0))
        return batches

    assert run("cuda", True) == run("cpu", False)


def test_a_state_keeps_losses_that_do_not_count_yet(cupy):
    whole = expected()
    for at in (0, 3, 7, 12):
        with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
            put(buffer)
            for _ in range(at + 1):
                _, info = buffer.next_batch(timeout=WAIT_S)
                buffer.report(info, cupy.asarray(losses(info.index.get())))
            state = buffer.state_dict()
            assert buffer.state_dict() == state
        late = opened(state)["position"]["late_losses"]
        assert len(late) == min(at + 1, 2) - (at > 0)
        for device in ("cuda", "cpu"):
            with echobuf.EchoBuffer(SPEC, device=device, **KWARGS) as buffer:
                buffer.load_state_dict(state)
                assert buffer.state_dict() == state
                first = state["fresh_offset"]
                buffer.put_batch(np.arange(first, N, dtype=np.float32), timeout=0)
                buffer.close()
                late, batches = [], []
                for _, info in buffer:
                    index = host(info.index)
                    batches.append((index.tolist(), host(info.weight).tolist()))
                    if device == "cuda":
                        buffer.report(info, cupy.asarray(losses(index)))
                        continue
                    late.append((info, losses(index)))
                    if len(late) > 1:
                        buffer.report(*late.pop(0))
                assert batches == whole[at + 1 :]


@contextlib.contextmanager
def first_batch(cupy, **more):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS | more) as buffer:
        put(buffer)
        _, info = buffer.next_batch(timeout=WAIT_S)
        yield buffer, info, cupy.asarray(losses(info.index.get()))


def test_losses_of_another_device_are_refused(cupy):
    with first_batch(cupy) as (buffer, info, loss):
        with fake_cuda.Device(1):
            other = cupy.asarray(losses(np.arange(4)))
        with pytest.raises(echobuf.SpecError, match=r"`loss` is on cuda:1; .*cuda:0"):
            buffer.report(info, other)
        with fake_cuda.Device(1):
            index = cupy.asarray(np.arange(4))
        with pytest.raises(echobuf.SpecError, match=r"`info\.index` is on cuda:1"):
            buffer.report(info._replace(index=index), loss)


def test_losses_of_a_wrong_kind_are_refused(cupy):
    with first_batch(cupy) as (buffer, info, loss):
        integers = cupy.asarray(np.arange(4))
        with pytest.raises(
            echobuf.SpecError, match=r"`loss` is of dtype int64 .*float"
        ):
            buffer.report(info, integers)
        with pytest.raises(echobuf.SpecError, match=r"`loss` has shape \[3\].*4 ex"):
            buffer.report(info, loss[:3])
        with pytest.raises(echobuf.SpecError, match=r"`loss` has shape \[\]"):
            buffer.report(info, cupy.asarray(np.array(1, np.float32)))
        with pytest.raises(echobuf.SpecError, match=r"`info\.index` is of float32"):
            buffer.report(info._replace(index=loss), loss)
        pairs = cupy.asarray(np.zeros((2, 2), np.int64))
        with pytest.raises(
            echobuf.SpecError, match=r"`info\.index` has shape \[2, 2\]"
        ):
            buffer.report(info._replace(index=pairs), loss)


def test_losses_that_are_not_finite_and_of_others_are_passed_over(cupy):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:

        def report(info, index):
            buffer.report(info, cupy.asarray(losses(index)))
            wrong = cupy.asarray(np.float32([np.nan, np.inf, 5, 5]))
            numbers = cupy.asarray(np.int64([0, 1, -3, 10**9]))
            buffer.report(info._replace(index=numbers), wrong)

        assert served(buffer, report) == expected()


def test_reports_of_an_epoch_that_is_over_do_not_count(cupy):
    with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
        put(buffer)
        _, info = buffer.next_batch(timeout=WAIT_S)
        for _ in range(3):
            buffer.report(info, cupy.asarray(np.float32([99, 0, 0, 0])))
        buffer.reset(0)

        def report(info, index):
            buffer.report(info, cupy.asarray(losses(index)))

        assert served(buffer, report) == expected()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays_of_the_simulation_are_on_its_device(seed, dtype):
    with (
        simulated_cuda(seed),
        echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer,
    ):

        def report(info, index):
            buffer.report(info, on_device(losses(index).astype(dtype)))

        assert served(buffer, report) == expected()


def on_device(values, device="cuda"):
    with echobuf.EchoBuffer(
        values, batch_size=1, window=1, factor=1, device=device
    ) as buffer:
        buffer.put(values)
        buffer.close()
        return buffer.next_batch()[0]


def test_arrays_of_the_simulation_are_checked():
    with (
        simulated_cuda(1),
        echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer,
    ):
        put(buffer)
        _, info = buffer.next_batch(timeout=WAIT_S)
        other = on_device(losses(np.arange(4)), "cuda:1")
        with pytest.raises(echobuf.SpecError, match=r"`loss` is on cuda:1"):
            buffer.report(info, other)
        with pytest.raises(echobuf.SpecError, match="`loss` is strided"):
            buffer.report(info, on_device(losses(np.arange(8)))[::2])
        with pytest.raises(echobuf.SpecError, match=r"`loss` has shape \[3\]"):
            buffer.report(info, on_device(losses(np.arange(3))))
        with pytest.raises(echobuf.SpecError, match="`loss` is of dtype int64"):
            buffer.report(info, on_device(np.arange(4)))


def test_a_report_cannot_be_captured():
    with simulated_cuda(1) as simulation:
        stream = simulation.stream()
        loss = on_device(losses(np.arange(4)))
        with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
            put(buffer)
            _, info = buffer.next_batch(timeout=WAIT_S)
            graph = Graph(stream)
            with (
                stream,
                graph,
                pytest.raises(echobuf.OptionError, match="being captured"),
            ):
                buffer.report(info, loss)
            graph.close()
            del info


def test_reports_follow_replays(monkeypatch):
    with simulated_cuda(2) as simulation:
        stream = simulation.stream()
        with echobuf.EchoBuffer(SPEC, device="cuda", **KWARGS) as buffer:
            buffer.put_batch(np.arange(16, dtype=np.float32), timeout=WAIT_S)
            out = buffer.next_batch(stream=stream)
            buffer.reset(0)
            graph = Graph(stream)
            with graph:
                buffer.next_batch(out=out, stream=stream)
            put(buffer)
            batches = []
            with contextlib.suppress(StopIteration):
                for _ in itertools.count():
                    buffer.before_replay(stream=stream, timeout=WAIT_S)
                    graph.launch(stream)
                    index = np.array(out[1].index)
                    weight = np.array(out[1].weight)
                    batches.append((index.tolist(), weight.tolist()))
                    with stream:
                        buffer.report(out[1], on_device(losses(index)))
            batches += [
                (info.index.tolist(), info.weight.tolist()) for _, info in buffer
            ]
            graph.close()
            with context() as calls:
                assert calls.cuCtxSynchronize() == 0
            del out
    assert batches == expected()
