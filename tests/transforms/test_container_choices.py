"""Choices of containers: how often, shared between leaves, in states, and refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, SpecError, StateError
from echobuf import transforms as T
from helpers import WAIT_S
from opened_states import opened
from transform_engine import one
from transform_reference import statistics

pytestmark = pytest.mark.contract

LEAST_P = 1e-3
MANY = 3000
IMAGE = Field((8, 6, 3), np.uint8)


def plus(number: float) -> T.Operation:
    return T.Normalize(-number, 1.0)


def made(chain: Any, count: int = MANY) -> np.ndarray:
    """The results of an example that is 0, `count` times."""
    options: dict[str, Any] = {"batch_size": count, "window": count, "factor": 1}
    field = Field((1, 1, 1), np.float32)
    with EchoBuffer(field, transform=chain, seed=5, **options) as buffer:
        buffer.put_batch(np.zeros((count, 1, 1, 1), np.float32))
        buffer.close()
        return np.array(buffer.next_batch()).ravel()


def check(counts: Any, weights: Any) -> None:
    expected = np.asarray(weights, float) / np.sum(weights)
    assert statistics.chi_squared_p(np.asarray(counts), expected) > LEAST_P


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_applied_with_the_probability(p: float) -> None:
    applied = int(made([T.RandomApply([plus(1)], p)]).sum())
    check([applied, MANY - applied], [p, 1 - p])


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_applied_never_or_always(p: float) -> None:
    assert set(made([T.RandomApply([plus(1), [plus(2)]], p)])) == {3 * p}


@pytest.mark.parametrize("weights", [None, [1, 1, 1, 1], [1, 2, 3, 4], [5, 1, 0, 2]])
def test_chosen_by_weights(weights: Any) -> None:
    chain = [T.RandomChoice([[], plus(1), [plus(1), plus(1)], plus(3)], p=weights)]
    counts = np.bincount(made(chain).astype(int), minlength=4)
    weights = np.array(weights or [1] * 4)
    assert counts[weights == 0].sum() == 0
    check(counts[weights > 0], weights[weights > 0])


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_all_orders_are_as_likely(count: int) -> None:
    """10 x + i: the digits of the result tell in which order."""
    tens = [T.Normalize(-i / 10, 0.1) for i in range(1, count + 1)]
    results = np.rint(made([T.RandomOrder(tens)])).astype(int)
    orders = [
        sum(digit * 10**at for at, digit in enumerate(order))
        for order in itertools.permutations(range(1, count + 1))
    ]
    counts = [int((results == order).sum()) for order in orders]
    assert sum(counts) == MANY
    if count > 1:
        check(counts, [1] * len(orders))


def test_choices_at_different_depths_are_independent() -> None:
    inner = T.RandomChoice([plus(1), plus(2)])
    outer = T.RandomChoice([inner, [plus(10), inner], [inner, plus(20)]])
    results = made([outer, T.RandomApply([plus(100)])]).astype(int)
    values = [a + b + c for a in (0, 10, 20) for b in (1, 2) for c in (0, 100)]
    counts = [int((results == value).sum()) for value in values]
    assert sum(counts) == MANY
    check(counts, [1] * len(values))


# ---- leaves that share a container, or an operation in containers


def batches(transform: Any, **options: Any) -> list[dict[str, np.ndarray]]:
    spec = {"image": IMAGE, "mask": Field((8, 6), np.uint8)}
    random = np.random.default_rng(1)
    mask = random.integers(0, 256, (12, 8, 6)).astype(np.uint8)
    examples = {"image": np.repeat(mask[..., None], 3, 3), "mask": mask}
    options = {"batch_size": 4, "window": 12, "factor": 3, "seed": 2} | options
    with EchoBuffer(spec, transform=transform, **options) as buffer:
        buffer.put_batch(examples, timeout=WAIT_S)
        buffer.close()
        return [{k: np.array(leaf) for k, leaf in b.items()} for b in buffer]


def moves() -> list[T.Operation]:
    return [
        T.RandomApply([T.RandomCrop((8, 6), padding=2, padding_mode="edge")]),
        T.RandomChoice([T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0), []]),
        T.RandomOrder([T.RandomCrop((8, 6), padding=1), T.RandomHorizontalFlip()]),
    ]


def test_a_mask_moves_with_its_image() -> None:
    shared = moves()
    chains = {"image": shared, "mask": [T.Mask(), *shared]}
    for batch in batches(chains):
        np.testing.assert_array_equal(batch["image"][..., 0], batch["mask"])


def test_a_mask_that_moves_by_itself() -> None:
    chains = {"image": moves(), "mask": [T.Mask(), *moves()]}
    assert any((b["image"][..., 0] != b["mask"]).any() for b in batches(chains))


def test_an_operation_in_a_container_and_alone_elsewhere() -> None:
    """It chooses alike, and whether it is applied is the container's choice."""
    flip = T.RandomHorizontalFlip()
    chains = {"image": [T.RandomApply([flip], 1.0)], "mask": [T.Mask(), flip]}
    for batch in batches(chains):
        np.testing.assert_array_equal(batch["image"][..., 0], batch["mask"])


def test_lists_that_change_later_change_nothing() -> None:
    given: list[Any] = [T.RandomHorizontalFlip(1.0)]
    container = T.RandomChoice(given)
    given[0] = T.CenterCrop(2)
    assert batches({"image": [container]})[0]["image"].shape == (4, 8, 6, 3)


# ---- states


def state_of(transform: Any) -> dict[str, Any]:
    with EchoBuffer(IMAGE, batch_size=2, window=4, transform=transform) as buffer:
        return buffer.state_dict()


def across(shared: bool) -> dict[str, Any]:
    """An operation in containers of two leaves, which are different ones."""
    flips = [T.RandomHorizontalFlip(), T.RandomHorizontalFlip()]
    if shared:
        flips[1] = flips[0]
    return {
        "image": [T.RandomApply([flips[0]])],
        "mask": [T.Mask(), T.RandomApply([flips[1]])],
    }


def test_a_state_of_containers_that_share_otherwise() -> None:
    spec = {"image": IMAGE, "mask": Field((8, 6), np.uint8)}
    options: dict[str, Any] = {"batch_size": 2, "window": 4}
    with EchoBuffer(spec, transform=across(True), **options) as buffer:
        state = buffer.state_dict()
        buffer.load_state_dict(state)
    with (
        EchoBuffer(spec, transform=across(False), **options) as buffer,
        pytest.raises(StateError, match="same object"),
    ):
        buffer.load_state_dict(state)


DIFFERENT = [
    ([T.RandomApply([T.RandomErasing()])], [T.RandomApply([T.RandomErasing()], 0.6)]),
    ([T.RandomApply([T.RandomErasing()])], [T.RandomApply([T.RandomErasing(0.7)])]),
    ([T.RandomApply([T.RandomErasing()])], [T.RandomErasing()]),
    ([T.RandomOrder([[], []])], [T.RandomChoice([[], []])]),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_a_state_of_other_containers(one: Any, other: Any) -> None:
    state = state_of(one)
    with (
        EchoBuffer(IMAGE, batch_size=2, window=4, transform=other) as buffer,
        pytest.raises(StateError, match="`transform`"),
    ):
        buffer.load_state_dict(state)


# ---- what is refused


def flips(count: int) -> list[T.Operation]:
    return [T.RandomHorizontalFlip() for _ in range(count)]


WRONG = [
    (lambda: T.RandomApply([]), "`transforms` of RandomApply"),
    (lambda: T.RandomApply([[], []]), "`transforms` of RandomApply"),
    (lambda: T.RandomChoice([]), "`transforms` of RandomChoice"),
    (lambda: T.RandomOrder([]), "`transforms` of RandomOrder"),
    (lambda: T.RandomApply(T.RandomErasing()), "`transforms`.*list of operations"),
    (lambda: T.RandomApply([abs]), "`transforms`.*list of operations"),
    (lambda: T.RandomChoice([[[T.RandomErasing()]]]), "`transforms`.*list"),
    (lambda: T.RandomChoice([T.Lambda(abs)]), "`transforms`.*other than Source"),
    (lambda: T.RandomChoice([T.Mask(), []]), "`transforms`.*other than Source"),
    (lambda: T.RandomChoice([T.Layout("HW"), []]), "`transforms`.*other than Source"),
    (lambda: T.RandomOrder([[T.Source("x")]]), "`transforms`.*other than Source"),
    (lambda: T.RandomOrder(flips(7)), "`transforms`.*up to 6"),
    (lambda: T.RandomChoice(flips(2), p=[1]), "`p`.*2 weights"),
    (lambda: T.RandomChoice(flips(2), p=[0, 0]), "`p`.*sum above 0"),
    (lambda: T.RandomChoice(flips(2), p=[1, -1]), "`p`.*-1"),
    (lambda: T.RandomChoice(flips(2), p=[1e308, 1e308]), "`p`.*finite"),
    (lambda: T.RandomChoice(flips(1), p=0.5), "`p`.*1 weights"),
    (lambda: T.RandomApply(flips(1), p=1.5), "`p` of RandomApply is 1.5"),
]


@pytest.mark.host
@pytest.mark.parametrize(("make", "message"), WRONG)
def test_arguments_that_do_not_fit(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"(?s){message}"):
        make()


def nested(depth: int) -> T.Operation:
    inside = T.RandomApply([T.RandomErasing()])
    for _ in range(depth - 1):
        inside = T.RandomApply([inside])
    return inside


def ordered(depth: int) -> T.Operation:
    inside = T.RandomErasing() if depth == 1 else ordered(depth - 1)
    return T.RandomOrder([inside] * 6)


UNEQUAL = [
    (ordered(3), r"passes over memory.* 512 are allowed"),
    (T.RandomApply([T.RandomCrop(3)]), r"RandomCrop.*uint8\[3, 3, 3\].*doing nothing"),
    (T.RandomApply([T.ToDtype("float32")]), "float32.*doing nothing makes uint8"),
    (T.RandomApply([T.ToChannelFirst()]), r"\(CHW\).*nothing.*\(HWC\)"),
    (
        T.RandomChoice([T.RandomCrop(3), [T.CenterCrop(4), T.RandomErasing()]]),
        r"RandomCrop.*\[3, 3, 3\].*CenterCrop.*\[4, 4, 3\]",
    ),
    (T.RandomOrder([T.RandomCrop(3), T.RandomErasing()]), r"\[3, 3, 3\].*\[8, 6, 3\]"),
    (nested(7), "inside of 6 containers"),
    (T.RandomApply([T.Normalize(0, 1)]), "Normalize.*floats.*ToDtype"),
]


@pytest.mark.host
@pytest.mark.parametrize(("operation", "message"), UNEQUAL)
def test_branches_that_do_not_fit(operation: Any, message: str) -> None:
    with pytest.raises(SpecError, match=f"(?s){message}"):
        EchoBuffer(IMAGE, batch_size=2, window=4, transform=[operation])


def test_branches_that_change_shape_and_dtype_alike() -> None:
    branches = [
        [T.RandomCrop(4), T.ToDtype("float16", scale=True)],
        [T.ToDtype("float32", scale=True), T.Resize((4, 4)), T.ToDtype("float16")],
    ]
    chain = [T.RandomChoice(branches), T.ToChannelFirst()]
    [batch] = batches({"image": chain}, factor=1, batch_size=12)
    assert batch["image"].shape == (12, 3, 4, 4)
    assert batch["image"].dtype == np.float16
    batches({"image": [nested(6)]})


def test_sequences() -> None:
    """They lie between stages as they do in the leaf."""
    field = Field((12, 5), np.int32)
    window, tokens = T.RandomWindow(6), T.TokenMask(1, 50)
    chain = [window, T.RandomChoice([tokens, [], T.RandomWindow(6)])]
    spec = {"tokens": field}
    examples = np.random.default_rng(0).integers(2, 50, (8, 12, 5)).astype(np.int32)
    transform = {
        "tokens": chain,
        "stored": [T.Source("tokens"), window],
    }
    with EchoBuffer(
        spec, batch_size=8, window=8, factor=4, transform=transform
    ) as buffer:
        buffer.put_batch({"tokens": examples}, timeout=WAIT_S)
        buffer.close()
        found = [{k: np.array(leaf) for k, leaf in b.items()} for b in buffer]
    same = 0
    for batch in found:
        for got, stored in zip(batch["tokens"], batch["stored"], strict=True):
            assert ((got == stored) | (got >= 1)).all()
            same += int((got == stored).all())
    assert 8 <= same < 32


def test_numbers_of_operations_inside_come_after_their_container() -> None:
    """A second place of an operation in the chain has a number by itself."""
    flip = T.RandomHorizontalFlip()
    inside = T.RandomChoice([T.RandomErasing(), T.RandomApply([flip])])
    numbers = opened(state_of([flip, inside, flip]))["arguments"]["transform_numbers"]
    assert numbers == {"[]": [0, 1, 2, 3, 4, 5]}


def test_an_operation_of_another_library_is_named_by_its_module() -> None:
    """Its repr may be that of ours."""

    class RandomHorizontalFlip:
        def __repr__(self) -> str:
            return "RandomHorizontalFlip(p=0.5)"

    with pytest.raises(OptionError, match=r"one is a .*test_container_choices\."):
        T.RandomApply([RandomHorizontalFlip()])


def test_an_automatic_augmentation_is_named_and_not_what_it_holds() -> None:
    nested: Any = T.AutoAugment()
    for _ in range(6):
        nested = T.RandomApply([nested])
    image = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(SpecError, match=r"AutoAugment\(policy='imagenet'"):
        one(image, [nested])
