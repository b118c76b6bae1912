"""Random choices are functions of seed, epoch, draw and operation alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echobuf import EchoBuffer, Field
from echobuf import transforms as T
from helpers import WAIT_S, Worker
from transform_engine import drawn, rows
from transform_reference import Draw, parameters, transform

SIZE = (9, 7, 3)
COUNT = 12
IMAGES = list(np.random.default_rng(1).integers(0, 256, (COUNT, *SIZE), np.uint8))
OPTIONS = {"window": 6, "factor": 2, "seed": 5}


def steps() -> list[T.Operation]:
    """All kinds of chance: of boxes, orders, policies, elements, partners."""
    return [
        T.RandomResizedCrop(6),
        T.ColorJitter(0.4, 0.4, 0.4, 0.1),
        T.RandomHorizontalFlip(),
        T.RandAugment(),
        T.TrivialAugmentWide(),
        T.AutoAugment(),
        T.ToDtype(np.float32, scale=True),
        T.GaussianNoise(sigma=0.2),
        T.MixUp(labels=None),
        T.RandomErasing(),
    ]


def stream(**options: Any) -> list[tuple[int, np.ndarray]]:
    return rows(IMAGES, steps(), **{"batch_size": 4, **OPTIONS, **options})


WANTED = stream()


def check_same(made: list[tuple[int, np.ndarray]]) -> None:
    assert [number for number, _ in made] == [number for number, _ in WANTED]
    for (_, got), (_, want) in zip(made, WANTED, strict=True):
        np.testing.assert_array_equal(got, want)


@settings(max_examples=20)
@given(st.integers(1, 6), st.integers(0, 3))
def test_batches_and_threads_do_not_matter(batch_size: int, prefetch: int) -> None:
    check_same(stream(batch_size=batch_size, prefetch=prefetch))


def buffer_of(**options: Any) -> EchoBuffer:
    spec = {"id": Field((), np.int64), "x": Field(SIZE, np.uint8)}
    options = {"batch_size": 4, **OPTIONS, **options}
    return EchoBuffer(spec, transform={"x": steps()}, **options)


def feed(buffer: EchoBuffer, first: int = 0) -> Worker:
    def put() -> None:
        for number in range(first, COUNT):
            buffer.put({"id": np.int64(number), "x": IMAGES[number]}, timeout=WAIT_S)
        buffer.close()

    return Worker(put)


def listed(batches: Any) -> list[tuple[int, np.ndarray]]:
    return [
        (int(number), np.array(row))
        for batch in batches
        for number, row in zip(batch["id"], batch["x"], strict=True)
    ]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("after", range(6))
def test_resumed(after: int, prefetch: int) -> None:
    with buffer_of(prefetch=prefetch) as buffer:
        worker = feed(buffer)
        made = listed(buffer.next_batch() for _ in range(after))
        state = buffer.state_dict()
        left = listed(buffer)
        worker.result()
    with buffer_of(prefetch=prefetch) as buffer:
        buffer.load_state_dict(state)
        worker = feed(buffer, state["fresh_offset"])
        resumed = listed(buffer)
        worker.result()
    check_same(made + left)
    check_same(made + resumed)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_drawn_by_several_threads(prefetch: int) -> None:
    """Any thread may get any batch; the contents of batches are fixed."""
    with buffer_of(prefetch=prefetch, batch_size=1) as buffer:
        feeder = feed(buffer)
        workers = [Worker(listed, buffer) for _ in range(3)]
        made = [row for worker in workers for row in worker.result()]
        feeder.result()
    got, want = (
        sorted((number, row.tobytes()) for number, row in rows_of)
        for rows_of in (made, WANTED)
    )
    assert got == want


@pytest.mark.parametrize("prefetch", [0, 1])
def test_into_memory_of_the_callers(prefetch: int) -> None:
    made = []
    with buffer_of(prefetch=prefetch) as buffer:
        worker = feed(buffer)
        turned = np.empty((4, 6, 3, 6), np.float32).transpose(0, 1, 3, 2)
        outs = [np.empty((4, 6, 6, 3), np.float32), turned]
        for turn in range(COUNT * 2 // 4):
            out = {"id": np.empty(4, np.int64), "x": outs[turn % 2]}
            made += listed([buffer.next_batch(out=out)])
        worker.result()
    check_same(made)


def test_two_echoes_of_an_example_differ() -> None:
    seen: dict[int, list[np.ndarray]] = {}
    for number, row in WANTED:
        seen.setdefault(number, []).append(row)
    assert len(seen) == COUNT
    for first, second in seen.values():
        assert (first != second).mean() > 0.5


@pytest.mark.parametrize("other", [{"seed": 6}, {"epoch": 1}], ids=str)
def test_another_seed_or_epoch_differs(other: dict[str, int]) -> None:
    """With a window of one the order of draws is the same, and chance is not."""
    options = {"window": 1, "factor": 1, "batch_size": 1}
    spec = {"x": Field(SIZE, np.uint8)}
    made = []
    for keys in ({"seed": 5, "epoch": 0}, {"seed": 5, "epoch": 0} | other):
        chain = {"x": [T.RandomCrop(5)]}
        seed = keys["seed"]
        with EchoBuffer(spec, transform=chain, seed=seed, **options) as buffer:
            buffer.reset(keys["epoch"])
            tops = []
            for draw in range(COUNT):
                buffer.put({"x": IMAGES[0]})
                crop = buffer.next_batch()["x"][0]
                words = Draw(draw=draw, op=0, **keys)
                want = transform("RandomCrop", {"size": 5}, words, IMAGES[0])
                np.testing.assert_array_equal(crop, want)
                tops.append(crop.tobytes())
        made.append(tops)
    assert made[0] != made[1]


def coordinates() -> dict[str, np.ndarray]:
    """An image and a mask in which each pixel says where it was."""
    place = np.arange(9 * 7)
    return {
        "image": np.repeat(place.astype(np.uint8).reshape(9, 7, 1), 3, 2),
        "mask": place.astype(np.int64).reshape(9, 7),
    }


@pytest.mark.parametrize("shared", [True, False])
def test_one_object_does_the_same_to_two_leaves(shared: bool) -> None:
    crop, flip = T.RandomCrop(4), T.RandomHorizontalFlip()
    others = (crop, flip) if shared else (T.RandomCrop(4), T.RandomHorizontalFlip())
    chains = {"image": [crop, flip], "mask": list(others)}
    batches = drawn([coordinates()] * 8, chains, batch_size=8, factor=4)
    same = [
        (image[..., 0] == mask).all()
        for batch in batches
        for image, mask in zip(batch["image"], batch["mask"], strict=True)
    ]
    assert all(same) if shared else sum(same) < len(same) / 2


def test_an_object_twice_in_a_chain_counts_anew() -> None:
    flip = T.RandomHorizontalFlip()
    made = rows(IMAGES, [flip, flip, flip], batch_size=4, **OPTIONS)
    turned = []
    for draw, (number, image) in enumerate(made):
        flips = [
            parameters("RandomHorizontalFlip", {}, Draw(5, 0, draw, op), SIZE)["flip"]
            for op in range(3)
        ]
        want = IMAGES[number][:, :: -1 if sum(flips) % 2 else 1]
        np.testing.assert_array_equal(image, want)
        turned.append(flips)
    assert len({tuple(flips) for flips in turned}) > 3


def test_operations_are_counted_over_the_leaves() -> None:
    """In the order of the leaves; one that was met before keeps its number."""
    shared = T.RandomCrop(4)
    chains = {
        "mask": [T.RandomVerticalFlip(), shared],
        "image": [T.RandomHorizontalFlip(0.5), shared, T.RandomVerticalFlip()],
    }
    numbers = {"image": [0, 1, 2], "mask": [3, 1]}
    example = coordinates()
    [batch] = drawn([example] * 8, chains, batch_size=8, seed=9)
    for leaf, ops in numbers.items():
        for draw in range(8):
            want = example[leaf].reshape(9, 7, -1)
            for op, step in zip(ops, chains[leaf], strict=True):
                options = {"size": 4} if step is shared else {"p": step.p}
                words = Draw(9, 0, draw, op)
                want = transform(type(step).__name__, options, words, want)
            got = batch[leaf][draw].reshape(want.shape)
            np.testing.assert_array_equal(got, want)


def test_rows_of_whole_batches_have_chances_of_their_own() -> None:
    """With unit="batch" the draw counts batches, and the row is the row."""
    spec = {"x": Field((4, *SIZE), np.uint8)}
    chain = {"x": [T.RandomCrop(5), T.RandomHorizontalFlip()]}
    batches = [np.stack(IMAGES[:4]), np.stack(IMAGES[4:7])]
    options = {"unit": "batch", "window": 2, "factor": 2, "seed": 5}
    with EchoBuffer(spec, transform=chain, **options) as buffer:
        for batch in batches:
            buffer.put({"x": batch})
        buffer.close()
        served = [batch["x"] for batch in buffer]
    assert [len(batch) for batch in served].count(3) == 2
    for draw, batch in enumerate(served):
        stored = batches[0 if len(batch) == 4 else 1]
        for row, got in enumerate(batch):
            crop = Draw(5, 0, draw, 0, row)
            flip = Draw(5, 0, draw, 1, row)
            want = transform("RandomCrop", {"size": 5}, crop, stored[row])
            want = transform("RandomHorizontalFlip", {}, flip, want)
            np.testing.assert_array_equal(got, want)


def test_two_views_of_one_leaf() -> None:
    chains = {
        "image": [T.RandomCrop(4)],
        "other": [T.Source("image"), T.RandomCrop(5), T.ToDtype(np.float32)],
        "plain": [T.Source("image")],
    }
    examples = [{"image": image} for image in IMAGES]
    for batch in drawn(examples, chains, batch_size=4, **OPTIONS):
        assert batch["image"].shape == (4, 4, 4, 3)
        assert batch["other"].shape == (4, 5, 5, 3)
        assert batch["other"].dtype == np.float32
        for small, large, whole in zip(
            batch["image"], batch["other"], batch["plain"], strict=True
        ):
            for view in (small, large):
                windows = np.lib.stride_tricks.sliding_window_view(whole, view.shape)
                assert (windows == view).all(axis=(-1, -2, -3)).any()


def test_a_window_is_the_same_of_leaves_of_other_ranks() -> None:
    time = np.arange(40)
    features = np.repeat(time[:, None], 6, 1).astype(np.float32)
    window = T.RandomWindow(7)
    examples = [{"tokens": time, "features": features}] * 8
    chains = {"tokens": [window], "features": [window]}
    for batch in drawn(examples, chains, batch_size=4):
        np.testing.assert_array_equal(batch["tokens"], batch["features"][..., 2])
