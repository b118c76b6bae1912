"""Records what torchvision answers about blur, sharpness, perspective and bicubic.

Run it as `record.py` says, with `PYTHONPATH=tests`. It writes `cases_neighbours.npz`, of
the same form.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torchvision
from record import CPU, images
from record_cases import Recorder
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from transform_reference import Draw, parameters
from transform_reference.perspective import corners_of

KEPT = ("noise", "noise_gray", "smooth", "float_noise", "float_gray", "float_smooth")


def record_blurs(r: Recorder) -> None:
    for image in KEPT:
        height, width, _ = r.images[image].shape
        for size, sigma in (
            ([3, 3], 0.1),
            ([5, 9], 1.3),
            ([21, 7], 2.0),
            ([9, 9], 30.0),
        ):
            if size[0] // 2 < width and size[1] // 2 < height:
                given = {"kernel_size": size, "sigma": sigma}
                out = F.gaussian_blur(r.tensor(image), size, [sigma, sigma])
                r.add("GaussianBlur", image, out, **given)


def record_sharpness(r: Recorder) -> None:
    for image in KEPT:
        for factor in (0.0, 0.3, 1.0, 1.7, 1.9, 5.5)[:: 2 if "float" in image else 1]:
            out = F.adjust_sharpness(r.tensor(image), factor)
            r.add("Sharpness", image, out, factor=factor)


def record_perspectives(r: Recorder) -> None:
    """With the corners that a draw with this seed gives."""
    for image in KEPT:
        shape = r.images[image].shape
        for seed, mode in ((1, "bilinear"), (2, "nearest"), (4, "bilinear")):
            given = {"distortion_scale": 0.6, "p": 1.0, "interpolation": mode}
            draw = Draw(seed=seed, epoch=0, draw=0, op=1)
            what = parameters("RandomPerspective", given, draw, shape)
            ends = [list(map(int, place)) for place in what["corners"]]
            starts = [list(place) for place in corners_of(shape)]
            out = F.perspective(
                r.tensor(image), starts, ends, InterpolationMode(mode), fill=[0.5]
            )
            given |= {"fill": 0.5, "seed": seed}
            r.add("RandomPerspective", image, out, **given)


def record_bicubic(r: Recorder) -> None:
    """Of uint8 as torchvision does it in floats: it cuts after each axis otherwise."""
    bicubic = InterpolationMode.BICUBIC
    for image in KEPT:
        for size in ([7, 9], [29, 33], [13, 8], [1, 4]):
            for antialias in (True, False):
                x = r.tensor(image)
                out = F.resize(x.float(), size, bicubic, antialias=antialias)
                if x.dtype == torch.uint8:
                    out = out.clamp_(0, 255).round_().to(torch.uint8)
                given = {"interpolation": "bicubic", "antialias": antialias}
                r.add("Resize", image, out, size=size, **given)


def main() -> None:
    torch.set_num_threads(1)
    found = images()
    recorder = Recorder({name: found[name] for name in KEPT})
    record_blurs(recorder)
    record_sharpness(recorder)
    record_perspectives(recorder)
    record_bicubic(recorder)
    versions = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cpu": CPU,
    }
    about = json.dumps({"versions": versions, "cases": recorder.cases})
    file = Path(__file__).with_name("cases_neighbours.npz")
    np.savez_compressed(file, about=np.array(about), **recorder.packed())
    print(f"{len(recorder.cases)} cases, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
