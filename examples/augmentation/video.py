"""Video: windows of clips, of which all frames get the same crop, flip and colours."""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def transform(frames: int = 16, size: int = 112) -> dict[str, Any]:
    return {
        "clip": [
            T.RandomWindow(frames),
            T.RandomResizedCrop(size, scale=(0.25, 1.0)),
            T.RandomHorizontalFlip(),
            T.ColorJitter(0.4, 0.4, 0.4),
            T.ToDtype(np.float32, scale=True),
            T.Normalize(mean=(0.432, 0.395, 0.376), std=(0.228, 0.221, 0.217)),
            T.ToChannelFirst(),  # [frames, channels, height, width]
        ]
    }


def main() -> None:
    rng = np.random.default_rng(0)
    spec = {"clip": Field((24, 128, 171, 3), np.uint8), "label": Field((), np.int64)}
    clips = rng.integers(0, 256, (8, 24, 128, 171, 3), np.uint8)
    labels = rng.integers(0, 400, 8)
    options = {"batch_size": 4, "window": 8, "factor": 2}
    with EchoBuffer(spec, transform=transform(), **options) as buffer:
        buffer.put_batch({"clip": clips, "label": labels})
        buffer.close()
        for batch in buffer:
            print(batch["clip"].shape, batch["label"].shape)


if __name__ == "__main__":
    main()
