"""The example of boxes and points in docs/transforms.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import markdown
from echobuf import EchoBuffer, Field, transforms

ROOT = Path(__file__).parents[2]


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
