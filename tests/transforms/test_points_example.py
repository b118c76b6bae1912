"""The example of detection, and the one in docs/transforms.md."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np

import markdown
from echobuf import EchoBuffer, Field, transforms

ROOT = Path(__file__).parents[2]


def test_detection() -> None:
    """A box that is left is bright in the colour of its label."""
    module = runpy.run_path(str(ROOT / "examples" / "augmentation" / "detection.py"))
    seen = 0
    for images, boxes, labels, present in module["batches"](16, 4):
        assert images.shape == (4, 3, 224, 224)
        assert images.dtype == np.float16
        assert (boxes[~present] == -1).all()
        seen += int(present.sum())
        for image, rows, classes, some in zip(
            images, boxes, labels, present, strict=True
        ):
            for (left, top, right, bottom), label in zip(
                rows[some], classes[some], strict=True
            ):
                inside = image[
                    label, round(top) : round(bottom), round(left) : round(right)
                ]
                assert inside.mean() > image.mean()
    assert seen > 40


def test_the_section_of_the_page() -> None:
    page = ROOT / "docs" / "transforms.md"
    [code] = markdown.blocks_below(page, "Boxes and keypoints", "python")
    names: dict[str, Any] = {"np": np, "Field": Field, "EchoBuffer": EchoBuffer}
    names |= {name: getattr(transforms, name) for name in transforms.__all__}
    exec(code, names)
    with EchoBuffer(
        names["spec"], batch_size=1, window=1, factor=1, transform=names["transform"]
    ) as buffer:
        example = {name: np.ones(f.shape, f.dtype) for name, f in names["spec"].items()}
        buffer.put(example, timeout=10)
        buffer.close()
        [batch] = list(buffer)
    assert batch["boxes"].dtype == batch["points"].dtype == np.float32
