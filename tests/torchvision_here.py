"""torchvision, beside a torch for the CPU, too."""

from __future__ import annotations

from typing import Any

import pytest

_kept: list[Any] = []


def torchvision_or_skip() -> Any:
    """Return torchvision's module; skip where it is not installed.

    That of PyPI is built for CUDA: beside torch for the CPU it loads no operators, but
    names these.
    """
    torch = pytest.importorskip("torch")
    if torch.version.cuda is None and not _kept:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor boxes, Tensor scores, float iou) -> Tensor")
        _kept.append(library)
    return pytest.importorskip("torchvision")
