"""The recipes of examples/augmentation/, run on small data, and shown in the docs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import markdown
from transform_engine import drawn

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recipes.md"
FILES = sorted((ROOT / "examples" / "augmentation").glob("*.py"))
RANDOM = np.random.default_rng(5)
COUNT, FACTOR = 8, 3


def recipe(name: str) -> ModuleType:
    """Return the example as a module."""
    path = ROOT / "examples" / "augmentation" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def images(height: int, width: int) -> np.ndarray:
    return RANDOM.integers(0, 256, (COUNT, height, width, 3), np.uint8)


def serve(transform: Any, **leaves: np.ndarray) -> dict[str, np.ndarray]:
    """Return all draws of the examples, `FACTOR` of each, stacked."""
    leaves = {"number": np.arange(COUNT), **leaves}
    examples = [{name: leaf[i] for name, leaf in leaves.items()} for i in range(COUNT)]
    batches = drawn(examples, transform, factor=FACTOR, batch_size=4, seed=3)
    assert len(batches) == COUNT * FACTOR // 4
    return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}


def expect_fresh(batch: dict[str, np.ndarray], leaf: str) -> None:
    """Each draw of an example is another one."""
    for number in range(COUNT):
        draws = batch[leaf][batch["number"] == number]
        assert len(draws) == FACTOR
        assert len({draw.tobytes() for draw in draws}) == FACTOR


def expect_normalized(values: np.ndarray) -> None:
    """Numbers of images in 0 ... 1 have some mean near 0 and deviation near 1."""
    assert values.dtype == np.float32
    assert np.isfinite(values).all()
    assert values.min() >= -2.2
    assert values.max() <= 2.9
    assert values.std() > 0.5


@pytest.mark.parametrize("name", ["imagenet", "deit"])
def test_classification(name: str) -> None:
    """Images are mixed with others in one of both ways, and labels with theirs."""
    transform = recipe(name).transform(size=32, classes=10)
    labels = np.arange(COUNT)
    batch = serve(transform, image=images(40, 48), label=labels)
    assert batch["image"].shape == (COUNT * FACTOR, 3, 32, 32)
    assert batch["image"].dtype == np.float32
    assert np.isfinite(batch["image"]).all()
    assert 0.2 < batch["image"].std() < 2
    expect_fresh(batch, "image")
    assert batch["label"].shape == (COUNT * FACTOR, 10)
    np.testing.assert_allclose(batch["label"].sum(axis=1), 1, atol=1e-6)
    own = batch["label"][np.arange(COUNT * FACTOR), labels[batch["number"]]]
    assert 0.2 < own.mean() < 0.99
    assert (np.count_nonzero(batch["label"], axis=1) <= 2).all()


def test_simclr() -> None:
    """Two views of the same image, drawn apart."""
    pictures = images(40, 48) // 8
    pictures += (np.arange(COUNT) * 28)[:, None, None, None].astype(np.uint8)
    transform = recipe("simclr").transform(size=32)
    for chain in transform.values():
        del chain[-5]  # changes of colours, which say here whose view it is
    batch = serve(transform, image=pictures)
    for name in ("image", "other"):
        assert batch[name].shape == (COUNT * FACTOR, 3, 32, 32)
        assert batch[name].dtype == np.float32
        assert batch[name].min() >= 0
        assert batch[name].max() <= 1
        expect_fresh(batch, name)
        means = batch[name].mean(axis=(1, 2, 3)) * 255
        np.testing.assert_allclose(means, batch["number"] * 28 + 15.5, atol=5)
    for image, other in zip(batch["image"], batch["other"], strict=True):
        assert not np.array_equal(image, other)


def test_simclr_changes_colours() -> None:
    grey = np.full((COUNT, 40, 48, 3), 128, np.uint8)
    batch = serve(recipe("simclr").transform(size=32), image=grey)
    means = batch["image"].mean(axis=(2, 3))
    assert len(set(means[:, 0])) > FACTOR
    assert (np.abs(means - 128 / 255).max(axis=1) < 1e-3).any()  # at p = 0.2


def test_segmentation() -> None:
    """Each pixel's class says its colour, before and after."""
    transform = recipe("segmentation").transform(size=33)
    transform["image"] = transform["image"][:3]  # moves alone
    masks = np.repeat(np.repeat(RANDOM.integers(0, 9, (COUNT, 5, 6)), 9, 1), 9, 2)
    masks = masks.astype(np.uint8)
    colours = np.stack([masks * 25, masks * 3 + 50, 200 - masks * 11], axis=-1)
    batch = serve(transform, image=colours.astype(np.uint8), mask=masks)
    assert batch["mask"].dtype == np.uint8
    assert batch["mask"].shape == (COUNT * FACTOR, 33, 33)
    assert set(np.unique(batch["mask"])) == {*range(9), 255}  # no class in between
    expect_fresh(batch, "mask")
    inside = batch["mask"] != 255
    red = batch["image"][..., 0].astype(int) - batch["mask"].astype(int) * 25
    assert (np.abs(red[inside]) <= 2).mean() > 0.6  # others lie next to an edge
    np.testing.assert_array_equal(batch["image"][~inside][:, 0] < 200, True)


def test_segmentation_leaves_classes_alone() -> None:
    batch = serve(
        recipe("segmentation").transform(size=32),
        image=images(40, 48),
        mask=RANDOM.integers(0, 9, (COUNT, 40, 48), np.uint8),
    )
    assert batch["image"].shape == (COUNT * FACTOR, 3, 32, 32)
    expect_normalized(batch["image"])
    expect_fresh(batch, "image")


def test_detection() -> None:
    """A box that is left is bright in the colour of its label."""
    height, width, most = 256, 320, 20
    pictures = RANDOM.integers(0, 90, (COUNT, height, width, 3), np.uint8)
    boxes = np.full((COUNT, most, 4), -1, np.float32)
    labels = np.zeros((COUNT, most), np.int64)
    for number in range(COUNT):
        for row in range(1 + number % 5):
            left, top = RANDOM.integers(0, 250), RANDOM.integers(0, 190)
            right = left + RANDOM.integers(10, 70)
            bottom = top + RANDOM.integers(10, 66)
            labels[number, row] = RANDOM.integers(0, 3)
            pictures[number, top:bottom, left:right, labels[number, row]] = 255
            boxes[number, row] = left, top, right, bottom
    transform = recipe("detection").transform()
    batch = serve(transform, image=pictures, boxes=boxes, labels=labels)
    assert batch["image"].shape == (COUNT * FACTOR, 3, 224, 224)
    assert batch["image"].dtype == np.float16
    assert batch["boxes"].dtype == np.float32
    expect_fresh(batch, "image")
    np.testing.assert_array_equal(batch["labels"], labels[batch["number"]])
    present = batch["boxes"][..., 2] > 0
    assert (batch["boxes"][~present] == -1).all()
    assert not (present & (boxes[batch["number"]][..., 0] == -1)).any()
    assert present.sum() > 40
    for image, rows, classes, some in zip(
        batch["image"], batch["boxes"], batch["labels"], present, strict=True
    ):
        for row, label in zip(rows[some], classes[some], strict=True):
            left, top, right, bottom = np.round(row).astype(int)
            assert image[label, top:bottom, left:right].mean() > image.mean()


def test_speech() -> None:
    mels = RANDOM.normal(-4.27, 4.57, (COUNT, 1, 80, 300)).astype(np.float16)
    batch = serve(recipe("speech").transform(frames=200), mel=mels)
    assert batch["mel"].shape == (COUNT * FACTOR, 1, 80, 200)
    assert batch["mel"].dtype == np.float32
    expect_fresh(batch, "mel")
    masked = batch["mel"] == 0
    assert 0.1 < masked.mean() < 0.9
    for number, mel in zip(batch["number"], batch["mel"][:, 0], strict=True):
        kept = (mel != 0).any(axis=0)  # of time, outside of the masks
        stored = (mels[number, 0].astype(np.float32) + 4.27) / 4.57
        places = [
            first
            for first in range(101)
            if np.allclose(
                np.where(mel == 0, 0, stored[:, first : first + 200]), mel, atol=1e-5
            )
        ]
        assert len(places) == 1
        assert kept.any()


def test_video() -> None:
    clips = RANDOM.integers(0, 256, (COUNT, 6, 20, 24, 3), np.uint8)
    clips[:] = clips[:, :1]  # nothing moves
    batch = serve(recipe("video").transform(frames=4, size=16), clip=clips)
    assert batch["clip"].shape == (COUNT * FACTOR, 4, 3, 16, 16)
    expect_normalized(batch["clip"])
    expect_fresh(batch, "clip")
    for clip in batch["clip"]:
        np.testing.assert_array_equal(clip, np.repeat(clip[:1], 4, axis=0))


def test_a_loader_of_torch_takes_a_recipe() -> None:
    torch = pytest.importorskip("torch")
    from echobuf.torch import EchoLoader

    items = [
        {"image": torch.from_numpy(image), "label": torch.tensor(i)}
        for i, image in enumerate(images(40, 48))
    ]
    transform = recipe("imagenet").transform(size=32, classes=10)
    options = {"batch_size": 4, "window": COUNT, "factor": FACTOR}
    batches = list(EchoLoader(items, transform=transform, **options))
    assert len(batches) == COUNT * FACTOR // 4
    for batch in batches:
        assert batch["image"].shape == (4, 3, 32, 32)
        assert batch["image"].dtype is batch["label"].dtype is torch.float32


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe(path.stem).main()
    assert len(capsys.readouterr().out.splitlines()) >= 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_page_shows_what_runs(path: Path) -> None:
    text = path.read_text()
    shown = re.search(r"^def .*?(?=\n\n\ndef main)", text, re.M | re.S)
    assert shown is not None
    assert shown[0] + "\n" in markdown.blocks(PAGE, "python")
    assert f"examples/augmentation/{path.name}" in PAGE.read_text()


def test_the_page_shows_nothing_else() -> None:
    """One block for each file, and one of imports."""
    assert len(markdown.blocks(PAGE, "python")) == len(FILES) + 1
