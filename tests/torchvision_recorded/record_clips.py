"""Records what torchvision answers for clips. Run by hand, as `record.py` is.

    /tmp/recorder/bin/python tests/torchvision_recorded/record_clips.py

It writes `cases_clips.npz`: a video [frames, height, width, channels] of each dtype,
and what functions of torchvision with given parameters make of it, as a tensor [frames,
channels, height, width].
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torchvision
from record_cases import MODES, Recorder
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

CPU = torch.backends.cpu.get_cpu_capability()


class ClipRecorder(Recorder):
    """Collects cases of clips."""

    def tensor(self, name: str) -> torch.Tensor:
        """[frames, channels, height, width]"""
        clip = torch.from_numpy(self.images[name]).movedim(3, 1).contiguous()
        return tv_tensors.Video(clip)

    def add(self, op, inputs, output, **parameters) -> None:
        """One case, [frames, height, width, channels]."""
        plain = output.as_subclass(torch.Tensor).movedim(1, 3)
        super().add(op, inputs, plain, **parameters)


def clips() -> dict[str, np.ndarray]:
    """A video that moves and gets brighter: means differ from frame to frame."""
    rng = np.random.default_rng(20261124)
    y, x, c = np.ogrid[0:13, 0:17, 0:3]
    frames = [
        np.rint(60 + 70 * t + 30 * np.sin((x + 3 * t) / 5 + c) + 20 * np.cos(y / 3 - t))
        for t in range(3)
    ]
    frames.append(rng.integers(0, 256, (13, 17, 3)))
    clip = np.stack(frames).astype(np.uint8)
    return {"clip": clip, "float_clip": (clip[1:] / np.float32(255)).astype("f4")}


def record(r: ClipRecorder) -> None:
    """All cases."""
    for clip in ("clip", "float_clip"):
        r.function("horizontal_flip", clip, F.horizontal_flip)
        r.function("vertical_flip", clip, F.vertical_flip)
        r.function("center_crop", clip, F.center_crop_video, output_size=[6, 9])
        r.cases[-1]["parameters"] = {"size": [6, 9]}
        for size in ([7, 9], [20, 22]):
            r.function("resize", clip, F.resize, size=size)
        for mode in ("nearest", "nearest-exact"):
            r.function("resize", clip, F.resize, size=[9, 23], interpolation=mode)
        for mode in ("nearest", "bilinear"):
            given = {"angle": 13.7, "interpolation": mode, "fill": [9.0]}
            out = F.rotate(r.tensor(clip), **{**given, "interpolation": MODES[mode]})
            r.add("rotate", clip, out, **given)
        for name in ("brightness", "contrast", "saturation"):
            out = getattr(F, f"adjust_{name}")(r.tensor(clip), 0.437)
            r.add(name, clip, out, factor=0.437)
        r.add("hue", clip, F.adjust_hue(r.tensor(clip), 0.071), factor=0.071)
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    out = F.normalize(r.tensor("float_clip"), mean, std)
    r.add("normalize", "float_clip", out, mean=mean, std=std)
    out = F.to_dtype(r.tensor("clip"), torch.float32, scale=True)
    r.add("to_dtype", "clip", out, dtype="float32", scale=True)


def main() -> None:
    if CPU not in ("AVX2", "AVX512"):
        raise SystemExit(f"torch runs with {CPU}; AVX2 or AVX512 is needed")
    torch.set_num_threads(1)
    recorder = ClipRecorder(clips())
    record(recorder)
    versions = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cpu": CPU,
    }
    about = json.dumps({"versions": versions, "cases": recorder.cases})
    file = Path(__file__).with_name("cases_clips.npz")
    np.savez_compressed(file, about=np.array(about), **recorder.packed())
    print(f"{len(recorder.cases)} cases, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
