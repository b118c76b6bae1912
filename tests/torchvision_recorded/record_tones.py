"""Records what torchvision answers about tones, graded operations and padding.

Run it as `record.py` says. It writes `cases_tones.npz`, of the same form.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from record import CPU, images
from record_cases import Recorder
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

TONES = {
    "Invert": F.invert,
    "Solarize": F.solarize,
    "Posterize": F.posterize,
    "AutoContrast": F.autocontrast,
    "Equalize": F.equalize,
    "Grayscale": F.rgb_to_grayscale,
}
FLOAT = {"threshold": (0.0, 0.5, 0.71, 1.0), "bits": (0, 1, 3, 8)}
BYTE = {"threshold": (-1.0, 0.0, 100.5, 128.0, 255.0), "bits": (0, 1, 4, 7, 8)}


def inputs() -> dict[str, np.ndarray]:
    """Those of `record.py`, and images of few bytes and of equal ones."""
    rng = np.random.default_rng(20261124)
    found = images()
    kept = ("noise", "noise_gray", "smooth", "colours", "float_noise", "float_gray")
    found = {name: found[name] for name in kept}
    found["narrow"] = rng.integers(90, 120, (21, 30, 3), dtype=np.uint8)
    # Enough pixels to be equalized, with one number that most of them have.
    peaked = rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)
    peaked[rng.random((40, 40, 3)) < 0.6] = 77
    peaked[..., 1] = 200
    found["peaked"] = peaked
    found["float_narrow"] = (peaked / np.float32(510) + np.float32(0.2)).astype("f4")
    return found


def record_tones(r: Recorder) -> None:
    for image, array in r.images.items():
        values = BYTE if array.dtype == np.uint8 else FLOAT
        x = r.tensor(image)
        for name, function in TONES.items():
            given: list[dict[str, Any]] = [{}]
            if name == "Solarize":
                given = [{"threshold": value} for value in values["threshold"]]
            if name == "Posterize":
                given = [{"bits": value} for value in values["bits"]]
            if name == "Grayscale":
                given = [{"num_output_channels": count} for count in (1, 3)]
            for options in given:
                # expand() repeats memory, which the recorder takes as it lies
                out = function(x, **options).contiguous()
                r.add(name, image, out, **options)


def record_pads(r: Recorder) -> None:
    for image in ("noise", "float_gray"):
        for padding in (2, [3, 1], [0, 4, 5, 2]):
            for mode in ("constant", "edge", "reflect", "symmetric"):
                options = {"padding": padding, "padding_mode": mode}
                r.add("Pad", image, v2.Pad(**options)(r.tensor(image)), **options)
    options = {"padding": [1, 2], "fill": [200.7, 3.2, 0]}
    r.add("Pad", "noise", v2.Pad(**options)(r.tensor("noise")), **options)


def record_graded(r: Recorder) -> None:
    augment = v2.RandAugment(interpolation=v2.InterpolationMode.NEAREST)
    smooth = v2.RandAugment(interpolation=v2.InterpolationMode.BILINEAR)
    apply = "_apply_image_or_video_transform"  # of torchvision
    for image in ("noise", "colours", "smooth", "float_gray"):
        x = r.tensor(image)
        for kind, levels in (
            ("Brightness", (-0.9, 0.31)),
            ("Color", (-0.42, 0.9)),
            ("Contrast", (-0.33, 0.87)),
            ("Posterize", (4.0, 7.0)),
            ("Solarize", (0.4, 0.9)),
            ("ShearX", (0.3, -0.17)),
            ("ShearY", (0.25, -0.11)),
            ("TranslateX", (5.9, -3.0)),
            ("TranslateY", (4.3, -2.7)),
            ("Rotate", (30.0, -13.0)),
        ):
            for level in map(float, np.float32(levels)):
                warps = kind[:5] in ("Shear", "Trans", "Rotat")
                for how in (augment, smooth)[: 2 if warps else 1]:
                    out = getattr(how, apply)(
                        x, kind, level, how.interpolation, {torch.Tensor: None}
                    )
                    mode = how.interpolation.value
                    given = {"kind": kind, "level": level, "interpolation": mode}
                    r.add("graded", image, out, **given)


def main() -> None:
    torch.set_num_threads(1)
    recorder = Recorder(inputs())
    record_tones(recorder)
    record_pads(recorder)
    record_graded(recorder)
    versions = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cpu": CPU,
    }
    about = json.dumps({"versions": versions, "cases": recorder.cases})
    file = Path(__file__).with_name("cases_tones.npz")
    np.savez_compressed(file, about=np.array(about), **recorder.packed())
    print(f"{len(recorder.cases)} cases, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
