"""Draws of ragged leaves in graphs from Python, on the simulated driver."""

import itertools
import re

import numpy as np
import pytest

import echobuf
from echobuf import Packed
from echobuf.transforms import TokenMask
from graphs import Graph, captured, draws
from helpers import WAIT_S, Worker
from ragged_graph_memory import SPEC, example, longest, memory, plain

KWARGS = {"window": 12, "factor": 3, "seed": 7, "payload_bytes": 1500}
PAD = {"id": None, "tokens": -7, "points": 9}
FORMS = {
    "packed": {"batch_size": 4, "pad_value": PAD, "pad_to": 2},
    "padded": {"batch_size": 4, "ragged": "padded", "pad_value": PAD},
    "auto": {"batch_size": 5, "factor": "auto", "max_factor": 2},
    "one": {"batch_size": 1, "factor": 2.5},
}
ROWS = {"batch_size": 3, "window": 12, "factor": 2, "pack_to": 13}


def put(buffer, n, lengths=None, packs=False):
    for number in range(n):
        length = None if lengths is None else lengths(number)
        buffer.put(example(number, length, packs=packs), timeout=WAIT_S)
    buffer.close()


def expected(n, kwargs, spec=SPEC):
    """The batches of the CPU, padded like memory for the longest of them."""
    with echobuf.EchoBuffer(spec, **kwargs) as buffer:
        worker = Worker(put, buffer, n, None, "pack_to" in kwargs)
        batches = [plain(batch) for batch in buffer]
        worker.result()
    return batches


def same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        np.testing.assert_array_equal(array, other[name], name)


@pytest.mark.parametrize("form", ["packed", "padded", "one"])
def test_replays_serve_the_batches_of_eager_draws(simulation, form):
    kwargs = {**KWARGS, **FORMS[form]}
    n, served = 45, []
    wanted = expected(n, kwargs)

    def copied(batch):
        served.append(plain(batch, like=wanted[len(served)]))

    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        streams = [simulation.stream()]
        out = memory(longest(wanted, kwargs), kwargs, streams[0])
        worker = Worker(put, buffer, n)
        draws(buffer, out, streams, copied)
        worker.result()
    del out
    for one, other in itertools.zip_longest(served, wanted):
        same(one, other)


@pytest.mark.parametrize("form", ["packed", "padded", "auto"])
def test_replays_and_eager_draws_take_turns_on_two_streams(simulation, form):
    kwargs = {**KWARGS, **FORMS[form]}
    streams, n = [simulation.stream(), simulation.stream()], 40
    auto = kwargs["factor"] == "auto"
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        out = memory({"tokens": 40, "points": 40}, kwargs, streams[0])
        worker = Worker(put, buffer, n)
        served = draws(buffer, out, streams, lambda batch: plain(batch, cut=True), 3)
        worker.result()
    del out
    for batch in served:
        ids = batch["id"].tolist()
        for name in ("tokens", "points"):
            want = [example(number)[name] for number in ids]
            np.testing.assert_array_equal(batch[name], np.concatenate(want))
    uses = np.bincount(np.concatenate([batch["id"] for batch in served]), minlength=n)
    assert uses.min() >= 1
    assert uses.max() <= (2 if auto else 3)
    if not auto:
        whole = expected(
            n, {**kwargs, "ragged": "packed", "pad_to": None, "pad_value": 0}
        )
        for one, other in itertools.zip_longest(served, whole):
            np.testing.assert_array_equal(one["id"], other["id"])


@pytest.mark.parametrize("chains", [None, {"tokens": [TokenMask(1, 200, p=0.4)]}])
@pytest.mark.parametrize("eager", [0, 3])
def test_packed_rows_are_replayed(simulation, eager, chains):
    streams = [simulation.stream(), simulation.stream()]
    spec = {name: SPEC[name] for name in ("tokens", "points")}
    n, kwargs = 50, {**ROWS, "transform": chains, "seed": 3}
    wanted = expected(n, kwargs, spec)
    with echobuf.EchoBuffer(spec, device="cuda", **kwargs) as buffer:
        out = memory(None, kwargs, streams[0])
        worker = Worker(put, buffer, n, None, True)
        served = draws(buffer, out, streams, plain, eager)
        worker.result()
    del out
    assert len(wanted) > 5
    for one, other in itertools.zip_longest(served, wanted):
        same(one, other)


def test_a_batch_that_does_not_fit_the_graph_is_refused_and_comes_next(simulation):
    kwargs = {"batch_size": 2, "window": 4, "factor": 1, "payload_bytes": 800}
    stream = simulation.stream()

    def lengths(number):
        return 9 if number >= 6 else 2

    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        out = memory({"tokens": 4, "points": 40}, kwargs, stream)
        graph = captured(buffer, stream, out)
        worker = Worker(put, buffer, 8, lengths)
        replayed, drawn = [], []
        while True:
            try:
                buffer.before_replay(stream=stream, timeout=WAIT_S)
            except StopIteration:
                break
            except echobuf.SpecError as error:
                said = str(error)
                before = plain(out)
                graph.launch(stream)  # which draws nothing now
                same(plain(out), before)
                drawn.append(buffer.next_batch(timeout=WAIT_S)["id"].tolist())
                continue
            graph.launch(stream)
            graph.launch(stream)  # the same again
            replayed.append(out["id"].tolist())
        worker.result()
        assert re.search(
            r"`out\['tokens'\]\.values` had, as it was captured, 4 rows on axis 0; "
            r"the next batch has (11|18)\. Nothing is lost",
            said,
        )
        assert sorted(itertools.chain(*replayed, *drawn)) == list(range(8))
        assert all(max(ids) >= 6 for ids in drawn)
        assert all(max(ids) < 6 for ids in replayed)
        assert replayed
        graph.close()
    del out


def test_of_several_graphs_any_may_be_replayed(simulation):
    kwargs = {"batch_size": 2, "window": 4, "factor": 1, "payload_bytes": 800}
    stream = simulation.stream()
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        outs = [
            memory({"tokens": rows, "points": 40}, kwargs, stream) for rows in (30, 7)
        ]
        graphs = [captured(buffer, stream, out) for out in outs]
        worker = Worker(put, buffer, 8, lambda number: 3 if number < 4 else 5)
        for _ in range(2):
            buffer.before_replay(stream=stream, timeout=WAIT_S)
            for graph in graphs:
                graph.launch(stream)
            first, second = (plain(out, cut=True) for out in outs)
            same(first, second)
            assert len(first["tokens"]) == 6
        with pytest.raises(echobuf.SpecError, match=r"captured, 7 rows .* has 10"):
            buffer.before_replay(stream=stream, timeout=WAIT_S)
        worker.result()
        for graph in graphs:
            graph.close()
    del outs


def test_what_cannot_be_captured_is_refused(simulation):
    stream = simulation.stream()
    kwargs = {**KWARGS, "batch_size": 4}
    rows = {"tokens": 40, "points": 40}
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        out = memory(rows, kwargs, stream)
        graph = Graph(stream)
        with graph:
            with pytest.raises(echobuf.OptionError, match="`out` is None, and the"):
                buffer.next_batch(stream=stream)
            assert buffer.next_batch(out=out, stream=stream) is out
            with pytest.raises(echobuf.OptionError, match="the same batch twice"):
                buffer.next_batch(out=out, stream=stream)
            with pytest.raises(echobuf.OptionError, match="`stream` is being captured"):
                buffer.before_replay(stream=stream)
        with pytest.raises(TimeoutError):
            buffer.before_replay(stream=stream, timeout=0)
        graph.launch(stream)  # before any `before_replay` it draws nothing
        worker = Worker(put, buffer, 12)
        buffer.before_replay(stream=stream, timeout=WAIT_S)
        graph.launch(stream)
        assert len(set(out["id"].tolist())) == 4
        worker.result()
        graph.close()
    with pytest.raises(echobuf.ClosedError):
        buffer.before_replay(stream=stream)
    by_rows = {"max_rows": 40, "window": 12, "payload_bytes": 1500}
    with echobuf.EchoBuffer(SPEC, device="cuda", **by_rows) as buffer:
        graph = Graph(stream)
        with graph, pytest.raises(echobuf.OptionError, match="`batch_size` in its"):
            buffer.next_batch(out=out, stream=stream)
        with pytest.raises(echobuf.OptionError, match="`batch_size` in its place"):
            buffer.before_replay(stream=stream)
        graph.close()
    del out


def test_resets_end_replays(simulation):
    kwargs = {**KWARGS, "batch_size": 4}
    stream = simulation.stream()
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as buffer:
        out = memory({"tokens": 40, "points": 40}, kwargs, stream)
        graph = captured(buffer, stream, out)
        orders = []
        for epoch in (0, 1, 0):
            buffer.reset(epoch)
            graph.launch(stream)  # which draws nothing
            worker = Worker(put, buffer, 12)
            ids = []
            for _ in range(9):
                buffer.before_replay(stream=stream, timeout=WAIT_S)
                graph.launch(stream)
                ids += out["id"].tolist()
            worker.result()
            orders.append(ids)
        assert orders[0] == orders[2]
        assert orders[0] != orders[1]
        graph.close()
    del out


def test_leaves_of_packed_rows_that_are_captured_share_their_ids(simulation):
    spec = {name: SPEC[name] for name in ("tokens", "points")}
    stream = simulation.stream()
    with echobuf.EchoBuffer(spec, device="cuda", **ROWS) as buffer:
        one, other = (memory(None, ROWS, stream) for _ in range(2))
        apart = {**one, "points": Packed(one["points"].values, *other["points"][1:])}
        graph = Graph(stream)
        with graph, pytest.raises(echobuf.SpecError, match="give the same array"):
            buffer.next_batch(out=apart, stream=stream)
        graph.close()
    del one, other, apart


def test_chains_without_packed_rows_are_not_captured(simulation):
    kwargs = {"batch_size": 4, "window": 12, "payload_bytes": 1500}
    stream = simulation.stream()
    with echobuf.EchoBuffer(
        SPEC, transform={"tokens": [TokenMask(1, 200)]}, device="cuda", **kwargs
    ) as buffer:
        out = memory({"tokens": 40, "points": 40}, kwargs, stream)
        said = "`transform` has chains, which graphs of ragged leaves"
        graph = Graph(stream)
        with graph, pytest.raises(echobuf.OptionError, match=said):
            buffer.next_batch(out=out, stream=stream)
        with pytest.raises(echobuf.OptionError, match=said):
            buffer.before_replay(stream=stream)
        graph.close()
    del out
