"""Chains on ragged leaves in graphs: with packed rows, and refused without."""

import contextlib
import itertools

import numpy as np
import pytest

import echobuf
from echobuf import transforms as T
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker
from ragged_graph_memory import SPEC, example, memory, plain
from test_cuda_graphs import Graph

ROWS = {"batch_size": 3, "window": 12, "factor": 2, "pack_to": 13, "seed": 3}
PACKED = {name: SPEC[name] for name in ("tokens", "points")}
CHAINS = {"tokens": [T.TokenMask(1, 200, p=0.4)]}


def put(buffer, n):
    for number in range(n):
        buffer.put(example(number, packs=True), timeout=WAIT_S)
    buffer.close()


def test_packed_rows_that_stages_make_are_replayed():
    n = 50
    with echobuf.EchoBuffer(PACKED, transform=CHAINS, **ROWS) as buffer:
        worker = Worker(put, buffer, n)
        wanted = [plain(batch) for batch in buffer]
        worker.result()
    assert len(wanted) > 5
    with simulated_cuda(4) as simulation:
        stream = simulation.stream()
        with echobuf.EchoBuffer(
            PACKED, transform=CHAINS, device="cuda", **ROWS
        ) as buffer:
            out = memory(None, ROWS, stream)
            graph = Graph(stream)
            with graph:
                assert buffer.next_batch(out=out, stream=stream) is out
            worker = Worker(put, buffer, n)
            served = []
            with contextlib.suppress(StopIteration):
                while True:
                    buffer.before_replay(stream=stream, timeout=WAIT_S)
                    graph.launch(stream)
                    served.append(plain(out))
            assert len(served) > 5
            served += [plain(batch) for batch in buffer]
            worker.result()
            graph.close()
        del out
    for one, other in itertools.zip_longest(served, wanted):
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], name)


def test_other_chains_are_not_captured():
    kwargs = {"batch_size": 4, "window": 12, "payload_bytes": 1500}
    with simulated_cuda(4) as simulation:
        stream = simulation.stream()
        with echobuf.EchoBuffer(
            SPEC, transform=CHAINS, device="cuda", **kwargs
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
