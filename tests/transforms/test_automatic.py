"""Automatic augmentations: all that torchvision can make of an image, as often."""

# ruff: noqa: SLF001 (spaces and policies are torchvision's)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, OptionError, SpecError
from echobuf import transforms as T
from torchvision_functions import torch, v2
from transform_engine import drawn, one, rows
from transform_reference.statistics import chi_squared_p

Way = tuple[float, torch.Tensor]
"""A probability, and the image then."""
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("RandAugment", {"num_ops": 1}),
    ("RandAugment", {"num_ops": 1, "magnitude": 4, "num_magnitude_bins": 5}),
    ("TrivialAugmentWide", {"num_magnitude_bins": 4}),
    *(("AutoAugment", {"policy": name}) for name in ("imagenet", "cifar10", "svhn")),
]


def blocks() -> np.ndarray:
    """Colours in blocks, so that no two operations make the same of it."""
    rng = np.random.default_rng(20261124)
    image = rng.integers(20, 236, (3, 4, 3)).repeat(3, 0).repeat(3, 1)
    return (image[:8, :10] + rng.integers(-12, 13, (8, 10, 3))).astype(np.uint8)


def ways(name: str, options: dict[str, Any], x: torch.Tensor) -> Iterator[Way]:
    """Yield all images that torchvision's augmentation can make."""
    if name == "AutoAugment":
        policy = v2.AutoAugmentPolicy(options["policy"])
        yield from ways_of_pairs(v2.AutoAugment(policy), x)
        return
    augment = getattr(v2, name)(**options)
    bins, which = augment.num_magnitude_bins, getattr(augment, "magnitude", None)
    space = augment._AUGMENTATION_SPACE
    for kind, (magnitudes, signed) in space.items():
        levels = magnitudes(bins, *x.shape[-2:])
        chosen = [None] if levels is None else [float(level) for level in levels]
        if levels is not None and which is not None:
            chosen = [chosen[which]]
        for level in chosen:
            for p, out in applied(augment, kind, level, signed, x):
                yield p / len(space) / len(chosen), out


def ways_of_pairs(augment: Any, x: torch.Tensor) -> Iterator[Way]:
    for pair in augment._policies:
        found = [(1.0 / len(augment._policies), x)]
        for kind, p, which in pair:
            magnitudes, signed = augment._AUGMENTATION_SPACE[kind]
            levels = magnitudes(10, *x.shape[-2:])
            level = None if levels is None else float(levels[which])
            done = [
                (before * p * part, out)
                for before, at in found
                for part, out in applied(augment, kind, level, signed, at)
            ]
            found = [(before * (1.0 - p), at) for before, at in found] + done
        yield from found


def applied(
    augment: Any, kind: str, level: float | None, signed: bool, x: torch.Tensor
) -> Iterator[Way]:
    """Yield what an operation makes with either sign."""
    run = augment._apply_image_or_video_transform
    given = {"interpolation": augment.interpolation, "fill": {torch.Tensor: None}}
    if level is None or not signed:
        yield 1.0, run(x, kind, level or 0.0, **given)
    else:
        yield 0.5, run(x, kind, level, **given)
        yield 0.5, run(x, kind, -level, **given)


def draws(operation: Any, image: np.ndarray, count: int) -> np.ndarray:
    """Return `count` draws of one image."""
    spec = Field(image.shape, image.dtype)
    options = {"batch_size": count, "window": count, "factor": 1}
    with EchoBuffer(spec, transform=[operation], **options) as buffer:
        buffer.put_batch(np.broadcast_to(image, (count, *image.shape)))
        buffer.close()
        return np.asarray(next(iter(buffer)))


def differing(made: np.ndarray, results: np.ndarray) -> np.ndarray:
    """Return how many numbers of each image differ from each result, by more than 1.

    Saturation differs by 1 here and there.
    """
    gap = np.abs(made[:, None].astype(np.int16) - results[None])
    return (gap > 1).sum(axis=(2, 3, 4))


MOST_TIES = 18  # numbers of 240: a warp has ties between two pixels


@pytest.mark.parametrize(("op", "options"), KINDS)
def test_makes_what_torchvision_makes_as_often(op: str, options: Any) -> None:
    image = blocks()
    made = draws(getattr(T, op)(**options), image, 6000)
    tensor = torch.from_numpy(image).movedim(2, 0).contiguous()
    cases = [(p, out) for p, out in ways(op, options, tensor) if p > 0]
    results, which = np.unique(
        np.stack([out.movedim(0, 2).numpy() for _, out in cases]),
        axis=0,
        return_inverse=True,
    )
    share = np.bincount(which, [p for p, _ in cases])
    assert share.sum() == pytest.approx(1.0)
    groups = np.argmin(differing(results, results), axis=1)  # alike but for 1
    gaps = np.concatenate([differing(part, results) for part in np.split(made, 60)])
    assert gaps.min(axis=1).max() <= MOST_TIES, "torchvision makes no such image"
    assert (gaps.min(axis=1) > 0).mean() <= 0.05
    seen = np.bincount(groups[np.argmin(gaps, axis=1)], minlength=len(results))
    wanted = np.bincount(groups, share, minlength=len(results)) * len(made)
    many = wanted >= 8
    counts = np.array([*seen[many], seen[~many].sum()])
    expected = np.array([*wanted[many], wanted[~many].sum()])
    there = expected > 0
    assert counts[~there].sum() == 0
    assert chi_squared_p(counts[there], expected[there] / expected.sum()) > 1e-4


AUTOMATIC = (T.RandAugment, T.TrivialAugmentWide, T.AutoAugment)


@pytest.mark.parametrize("kind", AUTOMATIC)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("order", ["HWC", "CHW", "HW"])
def test_keeps_shape_and_dtype(kind: Any, dtype: str, order: str) -> None:
    shape = {"HWC": (9, 8, 3), "CHW": (3, 9, 8), "HW": (9, 8)}[order]
    image = np.random.default_rng(3).random(shape)
    image = (image * 255 if dtype == "uint8" else image).astype(dtype)
    for _, made in rows([image] * 40, [T.Layout(order), kind()], factor=2):
        assert made.shape == shape
        assert made.dtype == dtype
        assert made.min() >= 0
        assert made.max() <= (255 if dtype == "uint8" else 1)


def test_no_operation_and_no_magnitude_change_nothing() -> None:
    image = np.random.default_rng(4).integers(0, 256, (12, 12, 3), np.uint8)
    none = [made for _, made in rows([image] * 8, [T.RandAugment(num_ops=0)])]
    np.testing.assert_array_equal(none, [image] * 8)


def test_a_mask_follows_the_image() -> None:
    """Shears, translations and rotations move it; other operations leave it."""
    augment = T.RandAugment(num_ops=3, magnitude=20)
    image = np.zeros((24, 24, 3), np.uint8)
    image[6:18, 8:14] = 255
    example = {"image": image, "mask": (image[..., 0] > 0).astype(np.int64)}
    transform = {"image": [augment], "mask": [T.Mask(), T.ToDtype(np.float32), augment]}
    moved, related = 0, []
    for batch in drawn([example] * 200, transform):
        for made, mask in zip(batch["image"], batch["mask"], strict=True):
            assert set(np.unique(mask)) <= {0.0, 1.0}
            moved += not np.array_equal(mask, example["mask"])
            if made.std() > 0 and mask.std() > 0:  # not all of it is out of the picture
                flat = made.mean(axis=2).ravel(), mask.ravel()
                related.append(abs(np.corrcoef(*flat)[0, 1]))
    assert len(related) > 150
    assert np.mean(np.array(related) > 0.5) > 0.9
    assert 60 < moved < 190


@pytest.mark.parametrize(
    ("kind", "options", "argument"),
    [
        (T.RandAugment, {"num_ops": -1}, "num_ops"),
        (T.RandAugment, {"num_ops": 2.5}, "num_ops"),
        (T.RandAugment, {"magnitude": 31}, "magnitude"),
        (T.RandAugment, {"magnitude": -1}, "magnitude"),
        (T.RandAugment, {"num_magnitude_bins": 1}, "num_magnitude_bins"),
        (T.RandAugment, {"interpolation": "bicubic"}, "interpolation"),
        (T.RandAugment, {"fill": "black"}, "fill"),
        (T.TrivialAugmentWide, {"num_magnitude_bins": 32}, "num_magnitude_bins"),
        (T.TrivialAugmentWide, {"num_magnitude_bins": None}, "num_magnitude_bins"),
        (T.AutoAugment, {"policy": "mnist"}, "policy"),
        (T.AutoAugment, {"policy": 3}, "policy"),
    ],
)
def test_refused_arguments(kind: Any, options: dict[str, Any], argument: str) -> None:
    with pytest.raises(OptionError, match=f"`{argument}` of {kind.__name__}"):
        kind(**options)


@pytest.mark.parametrize("kind", AUTOMATIC)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((8, 8, 4), "uint8"), ((8, 8, 3), "int32"), ((8,), "uint8")]
)
def test_refused_leaves(kind: Any, shape: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(SpecError, match=kind.__name__):
        one(np.zeros(shape, dtype), [kind()])
