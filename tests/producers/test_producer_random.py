"""Random operations, whose batches a slow reference foretells."""

import json

import numpy as np
from device_examples import on_device, rows, some
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.testing import simulated_cuda
from helpers import (
    SPEC,
    WAIT_S,
    expected_batches,
    ids_of,
    options,
    stack,
)

KINDS = ["device", "host", "mixed", "strided"]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put_batch", "draw", "draw", "resume"]),
        st.sampled_from(KINDS),
        st.integers(0, 30),
    ),
    min_size=5,
    max_size=40,
)


class Run:
    """A buffer that a list of moves puts to and draws from, in one thread."""

    def __init__(self, simulation, kwargs, n, epoch, chance):
        self._simulation, self._kwargs, self._chance = simulation, kwargs, chance
        self._n, self._epoch = n, epoch
        self._streams = [simulation.stream() for _ in range(3)]
        self._expected = expected_batches(kwargs, n, epoch)
        self._done = self._served = 0
        self._closed = False
        self._buffer = self._make()
        self._buffer.reset(epoch)

    def _make(self):
        return echobuf.EchoBuffer(SPEC, device="cuda", **self._kwargs)

    def go(self, moves):
        for call, kind, size in moves:
            if call == "draw":
                self._draw(0)
            elif call == "resume":
                self._resume()
            elif not self._closed:
                self._put(kind, 1 if call == "put" else size, call == "put")
        while self._served < len(self._expected):
            if not self._closed:
                self._put("device", 20, False)
            self._draw(WAIT_S if self._closed else 0.01)
        self._buffer.__exit__(None, None, None)

    def _put(self, kind, size, single):
        ids = np.arange(self._done, min(self._done + size, self._n))
        if len(ids) == 0 or size == 0:
            return self._end()
        tree = stack(ids)
        current = self._chance.choice(self._streams)
        stream = self._chance.choice([None, current])
        with current:
            moved = self._moved(kind, rows(tree, 0) if single else tree)
            try:
                if single:
                    self._buffer.put(moved, timeout=0, stream=stream)
                else:
                    self._buffer.put_batch(moved, timeout=0, stream=stream)
                self._done += len(ids)
            except TimeoutError as error:
                self._done += getattr(error, "accepted", 0)
            self._overwrite(moved)
        return self._end()

    def _moved(self, kind, tree):
        if kind == "host":
            return tree
        if kind == "mixed":
            return some(tree, self._chance, self._simulation.array)
        if kind == "strided":
            return self._reversed(tree)
        return on_device(self._simulation, tree)

    def _reversed(self, tree):
        """The same elements, from memory in which each axis runs backwards."""
        words, tail = tree["body"]
        back = tuple(slice(None, None, -1) for _ in words.shape)
        return {
            "id": tree["id"],
            "body": (
                self._simulation.array(words[back].T.copy()).T[back],
                self._simulation.array(tail.T.copy()).T,
            ),
        }

    def _overwrite(self, tree):
        for leaf in (tree["id"], *tree["body"]):
            if hasattr(leaf, "copy_from"):
                leaf.copy_from(7)
                if self._chance.random() < 0.5:
                    leaf.free()

    def _end(self):
        if self._done == self._n and not self._closed:
            self._buffer.close()
            self._closed = True

    def _draw(self, timeout):
        try:
            with self._chance.choice(self._streams):
                ids = ids_of(self._buffer.next_batch(timeout=timeout))
        except TimeoutError:
            assert not self._closed
            return
        except StopIteration:
            assert self._served == len(self._expected)
            return
        assert ids == self._expected[self._served]
        self._served += 1

    def _resume(self):
        if self._served == len(self._expected):
            return
        state = json.loads(json.dumps(self._buffer.state_dict()))
        self._buffer.__exit__(None, None, None)
        self._buffer = self._make()
        self._buffer.load_state_dict(state)
        self._done = state["fresh_offset"]
        self._closed = False
        self._end()


@settings(max_examples=60)
@given(
    options(),
    st.integers(1, 60),
    st.integers(0, 3),
    MOVES,
    st.integers(0, 2**32),
    st.randoms(use_true_random=False),
)
def test_batches_are_those_of_the_reference(kwargs, n, epoch, moves, seed, chance):
    with simulated_cuda(seed) as simulation:
        Run(simulation, kwargs, n, epoch, chance).go(moves)
