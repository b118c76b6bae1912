"""Operations with `alternate=True` make the opposite choice at every second use."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, StateError
from echobuf import transforms as T
from helpers import WAIT_S, Worker
from transform_engine import Step, chain, expected, rows

pytestmark = pytest.mark.contract

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RandomHorizontalFlip", {}),
    ("RandomVerticalFlip", {}),
    ("RandomCrop", {"size": 4}),
    ("RandomResizedCrop", {"size": 5}),
    ("RandomRotation", {"degrees": 40}),
    ("RandomAffine", {"degrees": 20}),
    ("RandomWindow", {"length": 3}),
    ("ColorJitter", {"brightness": 0.5}),
    ("RandomGain", {}),
]
FLIPS = [T.RandomHorizontalFlip, T.RandomVerticalFlip]
CORNER = np.arange(4, dtype=np.uint8).reshape(2, 2)  # tells all of its flips apart
HEIGHT, WIDTH = 9, 7
PLACES = np.arange(HEIGHT * WIDTH, dtype=np.uint8).reshape(HEIGHT, WIDTH)


def by_record(made: Iterable[tuple[int, np.ndarray]]) -> dict[int, list[np.ndarray]]:
    """Return the results of each record, in the order of its uses."""
    uses: dict[int, list[np.ndarray]] = defaultdict(list)
    for number, row in made:
        uses[number].append(np.array(row))
    return uses


def is_mirrored(image: np.ndarray) -> bool:
    return image[0, 0] != CORNER[0, 0]


def pairs(uses: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Uses 0 and 1, 2 and 3, and so on."""
    return list(zip(uses[::2], uses[1::2], strict=False))


def automatic(operations: list[T.Operation]) -> list[tuple[int, np.ndarray]]:
    """Draws of a buffer with factor="auto" whose upstream is late."""
    spec = {"id": Field((), np.int64), "x": Field(CORNER.shape, CORNER.dtype)}
    options: dict[str, Any] = {"batch_size": 3, "window": 8, "factor": "auto"}
    made = []
    with EchoBuffer(spec, transform={"x": operations}, **options) as buffer:
        for first in range(0, 40, 4):
            for number in range(first, first + 4):
                buffer.put({"id": np.int64(number), "x": CORNER}, timeout=WAIT_S)
            batches = [buffer.next_batch(timeout=WAIT_S) for _ in range(4)]
            made += [list(zip(b["id"], b["x"], strict=True)) for b in batches]
        buffer.close()
        made += [list(zip(b["id"], b["x"], strict=True)) for b in buffer]
    return [(int(number), image) for batch in made for number, image in batch]


@pytest.mark.parametrize("flip", FLIPS)
@pytest.mark.parametrize("factor", [1, 2, 3, 2.5, 1.3, "auto"])
def test_a_flip_mirrors_every_second_use(flip: Any, factor: Any) -> None:
    operations = [flip(alternate=True)]
    if factor == "auto":
        made = automatic(operations)
    else:
        options = {"window": 12, "batch_size": 5, "prefetch": 1}
        made = rows([CORNER] * 40, operations, factor=factor, **options)
    uses = by_record(made)
    assert len(uses) == 40
    assert max(map(len, uses.values())) >= (3 if factor == "auto" else factor)
    for images in uses.values():
        sides = [is_mirrored(image) for image in images]
        assert sides == [sides[0] ^ (i % 2 == 1) for i in range(len(sides))]
        assert sum(sides) in (len(sides) // 2, (len(sides) + 1) // 2)


def test_infos_tell_the_echo_that_operations_know() -> None:
    spec = Field(CORNER.shape, CORNER.dtype)
    options = {"batch_size": 5, "window": 12, "factor": 2.5, "with_info": True}
    flip = T.RandomHorizontalFlip(alternate=True)
    first: dict[int, set[bool]] = defaultdict(set)
    with EchoBuffer(spec, transform=[flip], **options) as buffer:
        feeding = Worker(_put, buffer, np.stack([CORNER] * 40))
        for images, info in buffer:
            for image, index, echo in zip(images, info.index, info.echo, strict=True):
                first[int(index)].add(is_mirrored(image) ^ (int(echo) % 2 == 1))
        feeding.result()
    assert sorted(first) == list(range(40))
    assert all(len(sides) == 1 for sides in first.values())
    assert set.union(*first.values()) == {True, False}


def epochs_of_first_sides(operations: list[T.Operation], count: int) -> list[list[Any]]:
    """The corner of the first use of each record, in two epochs."""
    spec = {"id": Field((), np.int64), "x": Field(CORNER.shape, CORNER.dtype)}
    stacked = {"id": np.arange(count), "x": np.stack([CORNER] * count)}
    options = {"batch_size": 50, "window": count, "factor": 2, "seed": 11}
    epochs = []
    with EchoBuffer(spec, transform={"x": operations}, **options) as buffer:
        for _ in range(2):
            feeding = Worker(_put, buffer, stacked)
            made = [
                (int(n), image[0, 0])
                for batch in buffer
                for n, image in zip(batch["id"], batch["x"], strict=True)
            ]
            feeding.result()
            buffer.reset()
            first = by_record(made)
            epochs.append([int(first[number][0]) for number in range(count)])
    return epochs


def _put(buffer: EchoBuffer, stacked: Any) -> None:
    buffer.put_batch(stacked, timeout=WAIT_S)
    buffer.close()


def test_chance_decides_which_use_is_mirrored_in_each_epoch() -> None:
    """Each count is of independent fair coins, within five standard deviations."""
    count = 1000
    both = [flip(alternate=True) for flip in FLIPS]
    one, other = epochs_of_first_sides(both, count)
    for corner in range(4):  # as two coins chose
        for epoch in (one, other):
            share = epoch.count(corner)
            assert abs(share - count / 4) < 5 * math.sqrt(count * 3 / 16)
    same = sum(a == b for a, b in zip(one, other, strict=True))
    assert abs(same - count / 4) < 5 * math.sqrt(count * 3 / 16)


@pytest.mark.parametrize("factor", [2, 5, 3.5])
def test_two_crops_lie_opposite_to_each_other(factor: float) -> None:
    steps: list[Step] = [("RandomCrop", {"size": (4, 3), "alternate": True})]
    made = rows([PLACES] * 12, steps, factor=factor, window=12)
    opposite = (HEIGHT - 4) * WIDTH + (WIDTH - 3)  # places of both, in pixels
    seen = set()
    for images in by_record(made).values():
        corners = [int(image[0, 0]) for image in images]
        assert len(pairs(corners)) == len(corners) // 2
        for first, second in pairs(corners):
            assert first + second == opposite
            seen.add(first)
    assert len(seen) >= 6  # pairs, and records, differ


def test_two_windows_lie_opposite_to_each_other() -> None:
    steps: list[Step] = [("RandomWindow", {"length": 20, "alternate": True})]
    made = rows([np.arange(100)] * 8, steps, factor=4, window=8)
    uses = by_record(made)
    starts = [int(row[0]) for each in uses.values() for row in each]
    assert all(sum(pair) == 80 for pair in pairs(starts))
    assert len(set(starts)) > 16


@pytest.mark.parametrize("factor", [4, 2.5])
def test_two_windows_of_ragged_leaves_lie_opposite_to_each_other(factor: float) -> None:
    window = T.RandomWindow(4, alternate=True)
    spec = {"id": Field((), np.int64), "x": Field((None,), np.int64, max_length=40)}
    options = {"batch_size": 3, "window": 12, "factor": factor}
    with EchoBuffer(spec, transform={"x": [window]}, **options) as buffer:
        feeding = Worker(_put_lengths, buffer, range(12, 40))
        made = [
            (int(number), row[0])
            for batch in buffer
            for number, row in zip(batch["id"], batch["x"], strict=True)
        ]
        feeding.result()
    uses = by_record(made)
    assert sorted(uses) == list(range(12, 40))
    for length, starts in uses.items():
        assert len(starts) in (math.floor(factor), math.ceil(factor))
        assert {int(a + b) for a, b in pairs(starts)} == {length - 4}


def _put_lengths(buffer: EchoBuffer, lengths: Iterable[int]) -> None:
    for length in lengths:
        example = {"id": np.int64(length), "x": np.arange(length)}
        buffer.put(example, timeout=WAIT_S)
    buffer.close()


def test_two_factors_lie_opposite_to_each_other() -> None:
    grey = np.full((1, 1, 3), 0.25, np.float32)
    steps: list[Step] = [("ColorJitter", {"brightness": (0.5, 2), "alternate": True})]
    lights = by_record(rows([grey] * 8, steps, factor=4, window=8))
    steps = [("RandomGain", {"min_db": -3, "max_db": 9, "alternate": True})]
    gains = by_record(rows([np.ones(1, np.float32)] * 8, steps, factor=4, window=8))
    for number in range(8):
        for first, second in pairs([x.item(0) for x in lights[number]]):
            assert first + second == pytest.approx(0.25 * (0.5 + 2))
        for first, second in pairs([x.item(0) for x in gains[number]]):
            assert first * second == pytest.approx(10 ** ((-3 + 9) / 20))


IMAGE_STEPS: list[list[Step]] = [
    [("RandomCrop", {"size": 5, "padding": 2, "padding_mode": "reflect"})],
    [("RandomResizedCrop", {"size": 6, "passes": False})],
    [("RandomResizedCrop", {"size": 6, "ratio": (5, 9), "passes": False})],
    [("RandomRotation", {"degrees": (5, 70), "interpolation": "bilinear"})],
    [
        (
            "RandomAffine",
            {
                **{"degrees": 20, "translate": (0.3, 0.1), "scale": (0.7, 1.4)},
                **{"shear": (5, 9, -4, 4), "interpolation": "bilinear"},
            },
        )
    ],
    [("ColorJitter", {"brightness": 0.4, "saturation": 0.4, "hue": 0.2})],
    [("RandomHorizontalFlip", {}), ("RandomCrop", {"size": 4})],
]


@pytest.mark.parametrize("steps", IMAGE_STEPS, ids=lambda steps: steps[0][0])
def test_draws_are_those_of_the_reference(steps: list[Step]) -> None:
    """Which counts uses; beside operations that do not alternate."""
    random = np.random.default_rng(3)
    images = list(random.random((7, HEIGHT, WIDTH, 3), np.float32))
    steps = [(name, {**options, "alternate": True}) for name, options in steps]
    steps = [*steps, ("RandomVerticalFlip", {}), ("RandomGain", {"alternate": True})]
    given = [
        (name, {key: x for key, x in options.items() if key != "passes"})
        for name, options in steps
    ]
    made = rows(images, given, factor=5, seed=9, window=5)
    assert len(made) == 35
    echoes = {number: itertools.count() for number in range(7)}
    for draw, (number, got) in enumerate(made):
        use = {"record": number, "echo": next(echoes[number])}
        want = expected(images[number], steps, draw, seed=9, **use)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-5)


def test_leaves_that_share_an_operation_alternate_together() -> None:
    crop = T.RandomCrop((6, 5), alternate=True)
    flip = T.RandomHorizontalFlip(alternate=True)
    spec = {
        "image": Field((HEIGHT, WIDTH), np.uint8),
        "mask": Field((HEIGHT, WIDTH), np.uint8),
        "points": Field((1, 2), np.float32),
    }
    transform = {
        "image": [crop, flip],
        "mask": [T.Mask(), crop, flip],
        "points": [T.Keypoints("image"), crop, flip],
    }
    at = np.float32([[3, 4]])  # x, y: in every crop
    example = {"image": PLACES, "mask": PLACES, "points": at}
    options = {"batch_size": 4, "window": 8, "factor": 4, "seed": 2}
    crops = set()
    with EchoBuffer(spec, transform=transform, **options) as buffer:
        for _ in range(8):
            buffer.put(example, timeout=WAIT_S)
        buffer.close()
        for batch in buffer:
            np.testing.assert_array_equal(batch["image"], batch["mask"])
            for image, points in zip(batch["image"], batch["points"], strict=True):
                x, y = points[0].astype(int)
                assert image[y, x] == PLACES[4, 3]
                crops.add((x, y))
    assert len(crops) > 4


def test_rows_of_whole_batches_alternate_with_their_batch() -> None:
    spec = {"id": Field((5,), np.int64), "x": Field((5, *CORNER.shape), np.uint8)}
    transform = {"x": [T.RandomHorizontalFlip(alternate=True)]}
    options = {"unit": "batch", "window": 6, "factor": 3}
    made = []
    with EchoBuffer(spec, transform=transform, **options) as buffer:
        for first in range(0, 30, 5):
            batch = {"id": np.arange(first, first + 5), "x": np.stack([CORNER] * 5)}
            buffer.put(batch, timeout=WAIT_S)
        buffer.close()
        for batch in buffer:
            made += list(zip(batch["id"].tolist(), batch["x"], strict=True))
    firsts = []
    for images in by_record(made).values():
        sides = [is_mirrored(image) for image in images]
        assert sides == [sides[0], not sides[0], sides[0]]
        firsts.append(sides[0])
    assert len(firsts) == 30
    in_batches = np.reshape(firsts, (6, 5))
    assert (in_batches.any(axis=1) & ~in_batches.all(axis=1)).any()


ALL_OF_THEM = [
    T.RandomResizedCrop(6, alternate=True),
    T.RandomHorizontalFlip(alternate=True),
    T.ColorJitter(0.4, 0.4, 0.4, 0.1, alternate=True),
    T.RandomApply([T.RandomRotation(20, alternate=True)]),
]


@pytest.mark.parametrize("factor", [3, 2.5])
def test_a_buffer_that_resumes_goes_on_with_the_same_draws(factor: float) -> None:
    images = np.random.default_rng(5).integers(0, 256, (14, 9, 7, 3), np.uint8)

    def buffer() -> EchoBuffer:
        spec = Field((9, 7, 3), np.uint8)
        options = {"batch_size": 4, "window": 6, "factor": factor, "seed": 8}
        return EchoBuffer(spec, transform=ALL_OF_THEM, **options)

    def feed(to: EchoBuffer, first: int) -> Worker:
        return Worker(_put, to, images[first:])

    with buffer() as whole:
        feeding = feed(whole, 0)
        states, wanted = [], []
        for batch in whole:
            states.append(whole.state_dict())
            wanted.append(np.array(batch))
        feeding.result()
    assert len(wanted) > 8
    for done in range(len(wanted) - 1):
        with buffer() as resumed:
            resumed.load_state_dict(states[done])
            feeding = feed(resumed, states[done]["fresh_offset"])
            got = list(resumed)
            feeding.result()
        for a, b in zip(got, wanted[done + 1 :], strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_state_without_alternation_does_not_fit() -> None:
    def buffer(alternate: bool) -> EchoBuffer:
        flip = T.RandomHorizontalFlip(alternate=alternate)
        options = {"batch_size": 2, "window": 4}
        return EchoBuffer(Field((2, 2), np.uint8), transform=[flip], **options)

    with buffer(True) as alternating:
        state = alternating.state_dict()
    with buffer(False) as other, pytest.raises(StateError, match="alternate=True"):
        other.load_state_dict(state)


@pytest.mark.host
@pytest.mark.parametrize(("name", "options"), KINDS)
@pytest.mark.parametrize("value", [1, None, "yes", np.array([True, False])])
def test_alternate_is_true_or_false(
    name: str, options: dict[str, Any], value: Any
) -> None:
    with pytest.raises(OptionError, match=rf"`alternate` of {name} .* True or False"):
        chain([(name, {**options, "alternate": value})])


@pytest.mark.host
@pytest.mark.parametrize(("name", "options"), KINDS)
def test_an_operation_shows_that_it_alternates(
    name: str, options: dict[str, Any]
) -> None:
    """One that does not reads as in states of before."""
    [plain] = chain([(name, options)])
    [alternating] = chain([(name, {**options, "alternate": np.bool_(True)})])
    assert "alternate" not in repr(plain)
    assert repr(alternating) == repr(plain)[:-1] + ", alternate=True)"


@pytest.mark.host
@pytest.mark.parametrize("flip", FLIPS)
@pytest.mark.parametrize("p", [0.0, 0.4, 1.0])
def test_a_flip_that_alternates_has_no_other_probability(flip: Any, p: float) -> None:
    with pytest.raises(OptionError, match=r"`p` .* 0.5"):
        flip(p, alternate=True)
