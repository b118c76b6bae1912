"""Records what torchvision answers. Run by hand, not by the tests:

    python3 -m venv /tmp/recorder
    /tmp/recorder/bin/pip install torch==2.14.1 torchvision==0.29.1 numpy
    /tmp/recorder/bin/python tests/torchvision_recorded/record.py

It writes `cases.npz` beside itself: the inputs, the outputs, and `about`, a JSON text
with versions and with the operation and parameters of every case. The inputs are made
from a fixed seed: a second run gives the same where torch gives the same answers. uint8
is resized by integers only where the processor has AVX2, so it insists on that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from record_cases import Recorder, record_all

CPU = torch.backends.cpu.get_cpu_capability()


def images() -> dict[str, np.ndarray]:
    """Noise and smooth content; of three channels and of one."""
    rng = np.random.default_rng(20261121)

    def noise(*shape: int) -> np.ndarray:
        return rng.integers(0, 256, shape, dtype=np.uint8)

    def smooth(height: int, width: int, channels: int) -> np.ndarray:
        y, x, c = np.ogrid[0:height, 0:width, 0:channels]
        waves = np.sin(x / 5 + c) + np.cos(y / 4 - 2 * c) + np.sin((x + y) / 9)
        return np.rint(127.5 + 42 * waves).astype(np.uint8)

    # Every pixel another combination of six values: grays, pure colours, ties.
    levels = np.array([0, 1, 51, 128, 254, 255], np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels), -1).reshape(12, 18, 3)
    noise3, smooth3 = noise(13, 17, 3), smooth(24, 31, 3)
    return {
        "noise": noise3,
        "noise_wide": noise(32, 40, 3),
        "noise_gray": noise(13, 17, 1),
        "noise_square": noise(16, 16, 1),
        "noise_other": noise(13, 17, 3),
        "smooth": smooth3,
        "colours": colours,
        "float_noise": rng.random((13, 17, 3), np.float32),
        "float_other": rng.random((13, 17, 3), np.float32),
        "float_gray": rng.random((11, 14, 1), np.float32),
        "float_smooth": (smooth3[:16, :20] / np.float32(255)).astype(np.float32),
        "bytes": np.arange(256, dtype=np.uint8).reshape(8, 32, 1),
        "bytes3": np.arange(255, dtype=np.uint8).reshape(5, 17, 3),
    }


def main() -> None:
    if CPU not in ("AVX2", "AVX512"):
        raise SystemExit(f"torch runs with {CPU}; AVX2 or AVX512 is needed")
    torch.set_num_threads(1)
    recorder = Recorder(images())
    record_all(recorder)
    versions: dict[str, Any] = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cpu": CPU,
    }
    about = json.dumps({"versions": versions, "cases": recorder.cases})
    file = Path(__file__).with_name("cases.npz")
    np.savez_compressed(file, about=np.array(about), **recorder.packed())
    print(f"{len(recorder.cases)} cases, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
