"""Passes that leave records out, on the simulated driver: as they are on the CPU."""

import contextlib
import itertools
import json

import numpy as np
import pytest

import echobuf
from echobuf import transforms as t
from echobuf.testing import simulated_cuda
from helpers import WAIT_S, Worker
from opened_states import opened
from ragged_graph_memory import SPEC as RAGGED
from ragged_graph_memory import example, plain

SPEC = {"id": echobuf.Field((), np.int64), "row": echobuf.Field((5,), np.uint8)}
KWARGS = {"batch_size": 4, "window": 16, "factor": 3, "seed": 7, "with_info": True}
BY_LOSS = {"reuse": "loss", "thin": 0.6}
N = 70


def stack(ids):
    ids = np.asarray(ids)
    return {"id": ids, "row": (ids[:, None] + np.arange(5)).astype(np.uint8)}


def losses(index):
    return (np.asarray(index) * 7919 % 13).astype(np.float32)


def checked(batch, info, version):
    """A batch's ids, echoes and weights."""
    ids = np.array(batch["id"])
    np.testing.assert_array_equal(ids, np.array(info.index))
    np.testing.assert_array_equal(np.array(info.version), version(ids))
    return ids.tolist(), np.array(info.echo).tolist(), np.array(info.weight).tolist()


class Served:
    """The batches of a buffer that is put to, and drawn from, in turns of chance.

    Attributes:
        batches: of each the ids, the echoes and the weights.
        states: behind each.
        expired: draws that were given up.
    """

    def __init__(self, device, kwargs, seed=1, n=N):
        self.batches, self.states = [], []
        self._version = lambda ids: ids // 3
        chance = np.random.default_rng(seed)
        with echobuf.EchoBuffer(SPEC, device=device, **kwargs) as buffer:
            for ids in self._runs(chance, n):
                versions = self._version(ids)
                buffer.put_batch(stack(ids), timeout=WAIT_S, version=versions)
                self._draw(buffer, 0)
            buffer.close()
            self._draw(buffer, WAIT_S)
            self.expired = buffer.stats().expired

    @staticmethod
    def _runs(chance, n):
        first = 0
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
                if "reuse" in buffer_arguments(buffer):
                    buffer.report(info._replace(index=index), losses(index))
        except (TimeoutError, StopIteration):
            return


def buffer_arguments(buffer):
    return opened(buffer.state_dict())["arguments"]


CASES = {
    "loss": BY_LOSS,
    "expiry": {"max_staleness": 4},
    "both": {**BY_LOSS, "max_staleness": 5, "factor": 4},
    "fraction": {**BY_LOSS, "factor": 2.5, "max_staleness": 6},
    "auto": {**BY_LOSS, "factor": "auto", "max_staleness": 5, "max_factor": 3},
    "larger": {"max_staleness": 2, "batch_size": 11, "factor": 4},
    "dropped": {**BY_LOSS, "drop_last": True, "batch_size": 7},
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
    served = [index for ids, _, _ in on_cpu.batches for index in ids]
    if kwargs["factor"] != "auto":
        assert len(served) < N * kwargs["factor"], "nothing was left out"
    weights = {weight for *_, all_of in on_cpu.batches for weight in all_of}
    assert weights == ({1, 2.5} if "reuse" in kwargs else {1})


@pytest.mark.parametrize("seed", range(12))
def test_any_shape_is_that_of_the_cpu(seed):
    chance = np.random.default_rng(seed)
    kwargs = KWARGS | {
        "batch_size": int(chance.integers(1, 9)),
        "window": int(chance.integers(12, 30)),
        "factor": [2, 3, 4, 2.5][seed % 4],
    }
    kwargs |= [BY_LOSS, {"max_staleness": seed % 5}, BY_LOSS | {"max_staleness": 7}][
        seed % 3
    ]
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


def resumed(device, kwargs, state):
    """All batches from a state on."""
    batches = []
    ids = np.arange(state["fresh_offset"], N)
    with echobuf.EchoBuffer(SPEC, device=device, **kwargs) as buffer:
        buffer.load_state_dict(state)
        worker = Worker(_produce, buffer, ids)
        for batch, info in buffer:
            batches.append(checked(batch, info, lambda ids: ids // 3))
            index = np.array(info.index)
            buffer.report(info._replace(index=index), losses(index))
        worker.result()
    return batches


def _produce(buffer, ids):
    buffer.put_batch(stack(ids), timeout=WAIT_S, version=ids // 3)
    buffer.close()


@pytest.mark.parametrize("kernels", ["host", "ptx"])
def test_a_state_of_one_goes_on_on_the_other(kernels):
    kwargs = KWARGS | CASES["loss"]
    states = [json.loads(state) for state in Served("cpu", kwargs).states]
    with simulated_cuda(1, kernels):
        for state in states[2:-1:5]:
            assert resumed("cuda", kwargs, state) == resumed("cpu", kwargs, state)


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
    index = np.array(info.index)
    batches.append((np.array(batch).tobytes(), np.array(info.echo).tolist()))
    if "reuse" in buffer_arguments(buffer):
        buffer.report(info._replace(index=index), losses(index))


@pytest.mark.parametrize("kernels", ["host", "ptx"])
@pytest.mark.parametrize("case", ["both", "expiry"])
def test_augmentations_are_those_of_the_cpu(case, kernels):
    kwargs = KWARGS | CASES[case]
    on_cpu = images("cpu", kwargs)
    with simulated_cuda(1, kernels):
        assert images("cuda", kwargs) == on_cpu


def test_augmentations_of_whole_batches_are_too():
    kwargs = {"window": 6, "factor": 3, "seed": 3, "with_info": True, "unit": "batch"}
    kwargs |= BY_LOSS
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
            if "reuse" in buffer_arguments(buffer):
                buffer.report(info._replace(index=index), losses(index))
    except (TimeoutError, StopIteration):
        return


@pytest.mark.parametrize("form", ["packed", "padded"])
@pytest.mark.parametrize("case", ["loss", "expiry", "both", "fraction", "larger"])
def test_ragged_leaves_are_those_of_the_cpu(case, form):
    kwargs = KWARGS | CASES[case] | {"ragged": form, "payload_bytes": 1500}
    on_cpu = ragged_batches("cpu", kwargs)
    for seed in (1, 2):
        with simulated_cuda(seed):
            assert ragged_batches("cuda", kwargs) == on_cpu
    assert {weight for _, info in on_cpu[0] for weight in info[2]} == (
        {1, 2.5} if "reuse" in kwargs else {1}
    )
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
                    index = np.array(info.index)
                    batches.append([np.array(batch["id"]).tolist()])
                    batches[-1] += [np.array(leaf).tolist() for leaf in info]
                    if "reuse" in kwargs:
                        loss = np.float32(index[0] % 5)
                        buffer.report(info._replace(index=index), loss)
            except TimeoutError:
                continue
        buffer.close()
        for batch, info in buffer:
            batches.append([np.array(batch["id"]).tolist()])
            batches[-1] += [np.array(leaf).tolist() for leaf in info]
    return batches


@pytest.mark.parametrize("case", ["loss", "expiry"])
def test_whole_batches_are_those_of_the_cpu(case):
    kwargs = {"window": 6, "factor": 3, "seed": 3, "with_info": True} | CASES[case]
    on_cpu = whole_batches("cpu", kwargs)
    for seed in (1, 2):
        with simulated_cuda(seed):
            assert whole_batches("cuda", kwargs) == on_cpu
    assert len(on_cpu) < 90
