"""Passes that leave out expired records, on the simulated driver: as on the CPU."""

import contextlib
import itertools
import json

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from helpers import WAIT_S
from ragged_graph_memory import SPEC as RAGGED
from ragged_graph_memory import example, plain

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 16, "factor": 3, "seed": 7, "with_info": True}
N = 70


def stack(ids):
    ids = np.asarray(ids)
    return {"id": ids, "row": (ids[:, None] + np.arange(5)).astype(np.uint8)}


def checked(batch, info, version):
    """A batch's ids and echoes."""
    ids = np.array(batch["id"])
    np.testing.assert_array_equal(ids, np.array(info.index))
    np.testing.assert_array_equal(np.array(info.version), version(ids))
    return ids.tolist(), np.array(info.echo).tolist()


class Served:
    """The batches of a buffer that is put to, and drawn from, in turns of chance.

    Attributes:
        batches: of each the ids and the echoes.
        states: behind each.
        expired: draws that were given up.
    """

    def __init__(self, device, kwargs, seed=1, n=N, state=None):
        self.batches, self.states = [], []
        self._version = lambda ids: ids // 3
        chance = np.random.default_rng(seed)
        with echobuf.EchoBuffer(SPEC, device=device, **kwargs) as buffer:
            if state is not None:
                buffer.load_state_dict(state)
            first = state["fresh_offset"] if state else 0
            for ids in self._runs(chance, first, n):
                versions = self._version(ids)
                buffer.put_batch(stack(ids), timeout=WAIT_S, version=versions)
                self._draw(buffer, 0)
            buffer.close()
            self._draw(buffer, WAIT_S)
            self.expired = buffer.stats().expired

    @staticmethod
    def _runs(chance, first, n):
        while first < n:
            end = min(n, first + int(chance.integers(1, 6)))
            yield np.arange(first, end)
            first = end

    def _draw(self, buffer, timeout):
        try:
            for _ in range(6) if timeout == 0 else itertools.count():
                batch, info = buffer.next_batch(timeout=timeout)
                self.batches.append(checked(batch, info, self._version))
                self.states.append(json.dumps(buffer.state_dict()))
                index = np.array(info.index)
                row = (index[:, None] + np.arange(5)).astype(np.uint8)
                np.testing.assert_array_equal(np.array(batch["row"]), row)
        except (TimeoutError, StopIteration):
            return


CASES = {
    "plain": {"max_staleness": 4},
    "four": {"max_staleness": 3, "factor": 4},
    "fraction": {"factor": 2.5, "max_staleness": 3},
    "auto": {"factor": "auto", "max_staleness": 5, "max_factor": 3},
    "larger": {"max_staleness": 2, "batch_size": 11, "factor": 4},
    "dropped": {"max_staleness": 3, "drop_last": True, "batch_size": 7},
}


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("case", CASES)
def test_batches_infos_and_states_are_those_of_the_cpu(case, kernels):
    kwargs = KWARGS | CASES[case]
    on_cpu = Served("cpu", kwargs)
    for seed in (1, 2) if kernels == "host" else (3,):
        with simulated_cuda(seed, kernels):
            on_device = Served("cuda", kwargs)
        assert on_device.batches == on_cpu.batches
        assert on_device.expired == on_cpu.expired
        if kwargs["factor"] != "auto":
            assert on_device.states == on_cpu.states
    served = [index for ids, _ in on_cpu.batches for index in ids]
    if kwargs["factor"] != "auto":
        assert len(served) < N * kwargs["factor"], "nothing was left out"


@pytest.mark.parametrize("seed", range(12))
def test_any_shape_is_that_of_the_cpu(seed):
    chance = np.random.default_rng(seed)
    kwargs = KWARGS | {
        "batch_size": int(chance.integers(1, 9)),
        "window": int(chance.integers(12, 30)),
        "factor": [2, 3, 4, 2.5][seed % 4],
        "max_staleness": seed % 5,
    }
    on_cpu = Served("cpu", kwargs, seed, n=40 + 11 * seed)
    with simulated_cuda(seed):
        on_device = Served("cuda", kwargs, seed, n=40 + 11 * seed)
    assert on_device.batches == on_cpu.batches
    assert on_device.states == on_cpu.states


@pytest.mark.parametrize("with_info", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_version_counts_before_its_record_is_uploaded(seed, with_info):
    kwargs = {"batch_size": 2, "window": 8, "factor": 2, "max_staleness": 0}
    served = []
    with (
        simulated_cuda(seed),
        echobuf.EchoBuffer(
            SPEC, device="cuda", **kwargs, with_info=with_info
        ) as buffer,
    ):
        buffer.put_batch(stack(range(12)), timeout=WAIT_S)
        # The window is full: these stay in staging until others are given back.
        buffer.put_batch(stack(range(12, 15)), timeout=WAIT_S, version=[9] * 3)
        assert buffer.stats().resident == 15
        buffer.close()
        for batch in buffer:
            served += np.array((batch[0] if with_info else batch)["id"]).tolist()
        assert buffer.stats().expired == 24
    assert sorted(served) == [12, 12, 13, 13, 14, 14]


@pytest.mark.parametrize("kernels", ["host", "ptx"])
def test_a_state_of_one_goes_on_on_the_other(kernels):
    kwargs = KWARGS | CASES["plain"]
    states = [json.loads(state) for state in Served("cpu", kwargs).states]
    with simulated_cuda(1, kernels):
        for state in states[2:-1:5]:
            on_cpu = Served("cpu", kwargs, state=state)
            on_device = Served("cuda", kwargs, state=state)
            assert on_device.batches == on_cpu.batches
            assert on_device.states == on_cpu.states


IMAGES = echobuf.Field((6, 7, 3), np.uint8)
CHAIN = [
    t.RandomCrop(5),
    t.RandomHorizontalFlip(alternate=True),
    t.ToDtype(np.float32),
]


def images(device, kwargs, *, whole=False):
    """All batches of images, augmented."""
    chance = np.random.default_rng(4)
    batches = []
    with echobuf.EchoBuffer(
        echobuf.Field((2, 6, 7, 3), np.uint8) if whole else IMAGES,
        transform=CHAIN,
        device=device,
        **kwargs,
    ) as buffer:
        for number in range(30):
            stacked = chance.integers(0, 256, (2, 6, 7, 3), np.uint8)
            put = buffer.put if whole else buffer.put_batch
            put(stacked, timeout=WAIT_S, version=number)
            with contextlib.suppress(TimeoutError):
                while True:
                    images_of_batch(buffer, batches, timeout=0)
        buffer.close()
        with contextlib.suppress(StopIteration):
            while True:
                images_of_batch(buffer, batches, timeout=WAIT_S)
    return batches


def images_of_batch(buffer, batches, timeout):
    batch, info = buffer.next_batch(timeout=timeout)
    batches.append((np.array(batch).tobytes(), np.array(info.echo).tolist()))


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("case", ["plain", "four"])
def test_augmentations_are_those_of_the_cpu(case, kernels):
    kwargs = KWARGS | CASES[case]
    on_cpu = images("cpu", kwargs)
    with simulated_cuda(1, kernels):
        assert images("cuda", kwargs) == on_cpu


def test_augmentations_of_whole_batches_are_too():
    kwargs = {"window": 6, "factor": 3, "seed": 3, "with_info": True, "unit": "batch"}
    kwargs |= {"max_staleness": 1}
    on_cpu = images("cpu", kwargs, whole=True)
    with simulated_cuda(1):
        assert images("cuda", kwargs, whole=True) == on_cpu


def ragged_batches(device, kwargs):
    """The infos and leaves of all batches."""
    batches = []
    with echobuf.EchoBuffer(RAGGED, device=device, **kwargs) as buffer:
        for number in range(45):
            buffer.put(example(number), timeout=WAIT_S, version=number)
            draw_ragged(buffer, batches, 0)
        buffer.close()
        draw_ragged(buffer, batches, WAIT_S)
        return batches, buffer.stats().expired


def draw_ragged(buffer, batches, timeout):
    try:
        while True:
            batch, info = buffer.next_batch(timeout=timeout)
            index = np.array(info.index)
            np.testing.assert_array_equal(np.array(batch["id"]), index)
            arrays = {name: leaf.tolist() for name, leaf in plain(batch).items()}
            batches.append((arrays, [np.array(leaf).tolist() for leaf in info]))
    except (TimeoutError, StopIteration):
        return


@pytest.mark.parametrize("form", ["packed", "padded"])
@pytest.mark.parametrize("case", ["plain", "four", "fraction", "larger"])
def test_ragged_leaves_are_those_of_the_cpu(case, form):
    kwargs = KWARGS | CASES[case] | {"ragged": form, "payload_bytes": 1500}
    on_cpu = ragged_batches("cpu", kwargs)
    for seed in (1, 2):
        with simulated_cuda(seed):
            assert ragged_batches("cuda", kwargs) == on_cpu
    assert sum(len(info[0]) for _, info in on_cpu[0]) < 45 * kwargs["factor"]


def whole_batches(device, kwargs):
    batches = []
    spec = {"id": echobuf.Field((3,), np.int64)}
    with echobuf.EchoBuffer(spec, device=device, unit="batch", **kwargs) as buffer:
        for number in range(30):
            ids = np.arange(3 * number, 3 * number + 1 + number % 3)
            buffer.put({"id": ids}, timeout=WAIT_S, version=number)
            try:
                while True:
                    batch, info = buffer.next_batch(timeout=0)
                    batches.append([np.array(batch["id"]).tolist()])
                    batches[-1] += [np.array(leaf).tolist() for leaf in info]
            except TimeoutError:
                continue
        buffer.close()
        for batch, info in buffer:
            batches.append([np.array(batch["id"]).tolist()])
            batches[-1] += [np.array(leaf).tolist() for leaf in info]
    return batches


@pytest.mark.parametrize("staleness", [1, 4])
def test_whole_batches_are_those_of_the_cpu(staleness):
    kwargs = {"window": 6, "factor": 3, "seed": 3, "with_info": True}
    kwargs |= {"max_staleness": staleness}
    on_cpu = whole_batches("cpu", kwargs)
    for seed in (1, 2):
        with simulated_cuda(seed):
            assert whole_batches("cuda", kwargs) == on_cpu
    assert len(on_cpu) < 90
