"""Records all that torchvision's automatic augmentations can make of one image.

Run it as `record.py` says. It writes `cases_automatic.npz`, of the same form: of each
augmentation the results of all choices, signs of strengths included, with how likely
each one is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from record import CPU
from record_cases import Recorder
from torchvision.transforms import v2

Way = tuple[float, torch.Tensor]  # a probability, and the image then

AUGMENTATIONS = {
    "RandAugment": [
        {"num_ops": 1},
        {"num_ops": 1, "magnitude": 4, "num_magnitude_bins": 5},
    ],
    "TrivialAugmentWide": [{"num_magnitude_bins": 4}],
    "AutoAugment": [{"policy": name} for name in ("imagenet", "cifar10", "svhn")],
}


def image() -> np.ndarray:
    """Colours in blocks, so that no two operations make the same of it."""
    rng = np.random.default_rng(20261124)
    blocks = rng.integers(20, 236, (3, 4, 3)).repeat(3, 0).repeat(3, 1)
    return (blocks[:8, :10] + rng.integers(-12, 13, (8, 10, 3))).astype(np.uint8)


def applied(
    augment: Any, name: str, magnitude: float | None, signed: bool, x: torch.Tensor
) -> Iterator[Way]:
    """Yield what an operation makes with either sign."""
    run = augment._apply_image_or_video_transform  # noqa: SLF001 - of torchvision
    given = {"interpolation": augment.interpolation, "fill": {torch.Tensor: None}}
    if magnitude is None or not signed:
        yield 1.0, run(x, name, magnitude or 0.0, **given)
    else:
        yield 0.5, run(x, name, magnitude, **given)
        yield 0.5, run(x, name, -magnitude, **given)


def one_operation(augment: Any, x: torch.Tensor, which: int | None) -> Iterator[Way]:
    space = augment._AUGMENTATION_SPACE  # noqa: SLF001 - of torchvision
    for name, (magnitudes, signed) in space.items():
        levels = magnitudes(augment.num_magnitude_bins, *x.shape[-2:])
        chosen = [None] if levels is None else [float(level) for level in levels]
        if levels is not None and which is not None:
            chosen = [chosen[which]]
        for magnitude in chosen:
            for p, out in applied(augment, name, magnitude, signed, x):
                yield p / len(space) / len(chosen), out


def pairs(augment: Any, x: torch.Tensor) -> Iterator[Way]:
    policies = augment._policies  # noqa: SLF001 - of torchvision
    space = augment._AUGMENTATION_SPACE  # noqa: SLF001 - of torchvision
    for pair in policies:
        ways = [(1.0 / len(policies), x)]
        for name, p, level in pair:
            magnitudes, signed = space[name]
            levels = magnitudes(10, *x.shape[-2:])
            magnitude = None if levels is None else float(levels[level])
            ways = [
                (before * part, made)
                for before, at in ways
                for part, made in [
                    (1.0 - p, at),
                    *(
                        (p * q, out)
                        for q, out in applied(augment, name, magnitude, signed, at)
                    ),
                ]
            ]
        yield from ways


def record(r: Recorder, name: str, options: dict[str, Any]) -> None:
    given = dict(options)
    if name == "AutoAugment":
        given["policy"] = v2.AutoAugmentPolicy(given["policy"])
    augment = getattr(v2, name)(**given)
    x = r.tensor("blocks")
    if name == "AutoAugment":
        ways = pairs(augment, x)
    else:
        ways = one_operation(augment, x, getattr(augment, "magnitude", None))
    for p, out in ways:
        if p > 0:
            r.add(name, "blocks", out.contiguous(), probability=p, options=options)


def main() -> None:
    torch.set_num_threads(1)
    recorder = Recorder({"blocks": image()})
    for name, all_options in AUGMENTATIONS.items():
        for options in all_options:
            record(recorder, name, options)
    versions = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cpu": CPU,
    }
    about = json.dumps({"versions": versions, "cases": recorder.cases})
    file = Path(__file__).with_name("cases_automatic.npz")
    np.savez_compressed(file, about=np.array(about), **recorder.packed())
    print(f"{len(recorder.cases)} cases, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
