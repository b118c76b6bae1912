"""Options of buffers that are fed from the device: all is as from the host."""

import collections
import json

import numpy as np
import pytest
from device_examples import bits, on_device, rows

import echobuf
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker, example, feed, ids_of, make, stack

SPEC = {"id": echobuf.Field((), np.int64), "image": echobuf.Field((9, 11, 3), np.uint8)}
KWARGS = {"batch_size": 4, "window": 12, "factor": 3, "seed": 7}


def images(n):
    chance = np.random.default_rng(n)
    return {
        "id": np.arange(n),
        "image": chance.integers(0, 256, (n, 9, 11, 3), np.uint8),
    }


@pytest.fixture(params=[1, 2])
def on(request):
    with simulated_cuda(request.param) as simulation:
        yield simulation


@pytest.mark.parametrize(
    "chain",
    [
        [t.RandomCrop(7), t.RandomHorizontalFlip(), t.ToDtype(np.float32)],
        [t.RandomResizedCrop(8), t.ColorJitter(0.4, 0.4, 0.4), t.RandomErasing()],
        [t.RandomCrop(7, alternate=True), t.RandomHorizontalFlip(alternate=True)],
    ],
    ids=["crop", "jitter", "alternate"],
)
def test_each_echo_is_augmented_as_from_the_host(on, chain):
    def batches(device, move):
        batch = move(images(30))
        kwargs = {"transform": {"image": chain}, **KWARGS}

        def put():
            buffer.put(rows(batch, 0), timeout=WAIT_S)
            buffer.put_batch(rows(batch, slice(1, None)), timeout=WAIT_S)
            buffer.close()

        with echobuf.EchoBuffer(SPEC, device=device, **kwargs) as buffer:
            worker = Worker(put)
            got = [bits(batch) for batch in buffer]
            worker.result()
        return got

    expected = batches("cpu", lambda tree: tree)
    assert batches("cuda", lambda tree: on_device(on, tree)) == expected


class Steps:
    """A producer and a consumer in turns of chance, in one thread.

    Attributes:
        batches: what was drawn, with infos.
        states: behind each batch.
        expired: draws that were given up.
    """

    def __init__(self, device, move, state=None, seed=3, n=70, **kwargs):
        self.batches, self.states = [], []
        chance = np.random.default_rng(seed)
        first = state["fresh_offset"] if state else 0
        options = {
            "batch_size": 4,
            "window": 16,
            "factor": 3,
            "with_info": True,
            **kwargs,
        }
        with make(device=device, **options) as buffer:
            if state:
                buffer.load_state_dict(state)
            while first < n:
                size = int(chance.integers(0, 6))
                first += self._put(buffer, move, first, min(size, n - first))
                self._draw(buffer, n, 0)
            buffer.close()
            self._draw(buffer, n * 9, WAIT_S)
            self.expired = buffer.stats().expired

    def _put(self, buffer, move, first, size):
        """Puts so many, or for 0 one alone; returns how many there was room for."""
        ids = np.arange(first, first + size)
        try:
            if size == 0:
                buffer.put(move(example(first)), timeout=0, version=first // 3)
            else:
                buffer.put_batch(move(stack(ids)), timeout=0, version=ids // 3)
        except TimeoutError as error:
            return getattr(error, "accepted", 0)
        return max(size, 1)

    def _draw(self, buffer, most, timeout):
        for _ in range(most):
            try:
                batch, info = buffer.next_batch(timeout=timeout)
            except (TimeoutError, StopIteration):
                return
            ids = ids_of(batch)
            infos = [np.asarray(part).tolist() for part in info]
            assert infos[0] == ids
            assert infos[2] == [number // 3 for number in ids]
            self.batches.append((ids, infos))
            self.states.append(json.dumps(buffer.state_dict()))


CASES = {
    "no staleness": {},
    "plain": {"max_staleness": 4},
    "four": {"max_staleness": 3, "factor": 4},
    "fraction": {"factor": 2.5, "max_staleness": 3},
    "auto": {"factor": "auto", "max_staleness": 5, "max_factor": 3},
}


@pytest.mark.parametrize("case", CASES)
def test_versions_and_infos_are_those_of_host_puts(on, case):
    host = Steps("cpu", lambda tree: tree, **CASES[case])
    device = Steps("cuda", lambda tree: on_device(on, tree), **CASES[case])
    assert device.batches == host.batches
    assert device.expired == host.expired
    if case != "auto":
        assert device.states == host.states
    if case == "plain":
        assert host.expired


def test_a_state_goes_on_with_either_kind_of_put(on):
    def move(tree):
        return on_device(on, tree)

    states = [json.loads(state) for state in Steps("cuda", move).states]
    for state in states[2:-1:7]:
        host = Steps("cpu", lambda tree: tree, state=state)
        device = Steps("cuda", move, state=state)
        assert device.batches == host.batches
        assert device.states == host.states


def test_one_version_for_all_of_a_batch(on):
    with make(device="cuda", with_info=True, factor=1) as buffer:
        buffer.put_batch(on_device(on, stack(range(6))), version=5)
        buffer.put(on_device(on, example(6)), version=6)
        buffer.put(on_device(on, example(7)))
        buffer.close()
        versions = {}
        for batch, info in buffer:
            versions |= dict(zip(ids_of(batch), info.version.tolist(), strict=True))
    assert versions == {**dict.fromkeys(range(6), 5), 6: 6, 7: 0}


def test_each_epoch_is_that_of_host_puts(on):
    def epochs(device, move):
        batches = []
        with make(device=device) as buffer:
            for epoch in range(4):
                if epoch:
                    buffer.reset()
                batch = move(stack(range(20 + epoch)))

                def put(batch=batch):
                    buffer.put_batch(batch, timeout=WAIT_S)
                    buffer.close()

                worker = Worker(put)
                batches.append([ids_of(batch) for batch in buffer])
                worker.result()
        return batches

    expected = epochs("cpu", lambda tree: tree)
    assert epochs("cuda", lambda tree: on_device(on, tree)) == expected


def test_a_reset_in_the_middle_drops_what_was_put(on):
    with make(device="cuda") as buffer:
        buffer.put_batch(on_device(on, stack(range(15))))
        buffer.next_batch(timeout=WAIT_S)
        buffer.close()
        buffer.reset()
        feeder = Worker(feed_from(on), buffer, range(100, 120))
        served = [number for batch in buffer for number in ids_of(batch)]
        feeder.result()
    assert sorted(served) == sorted([*range(100, 120)] * 2)


def feed_from(simulation):
    def put(buffer, ids):
        for number in ids:
            buffer.put(on_device(simulation, example(number)), timeout=WAIT_S)
        buffer.close()

    return put


@pytest.mark.parametrize("factor", ["auto", 1.5, 2.5])
def test_uses_are_within_what_the_factor_allows(on, factor):
    with make(device="cuda", factor=factor, max_factor=4) as buffer:
        worker = Worker(feed_from(on), buffer, range(50))
        served = [number for batch in buffer for number in ids_of(batch)]
        worker.result()
    uses = collections.Counter(served)
    assert sorted(uses) == list(range(50))
    assert max(uses.values()) <= (4 if factor == "auto" else 3)


def test_statistics_count_device_puts(on):
    with make(device="cuda") as buffer:
        buffer.put_batch(on_device(on, stack(range(8))))
        buffer.put(on_device(on, example(8)))
        assert buffer.stats().fresh == 9
        feed(buffer, range(9, 12), [0, 1])
        assert len(list(buffer)) == 6
        stats = buffer.stats()
        assert (stats.fresh, stats.served, stats.effective_factor) == (12, 24, 2.0)
