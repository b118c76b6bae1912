"""Semantic segmentation: an image, and a mask of classes that moves with it.

One window takes the place of the random scale and the crop of 480 in torchvision's
references/segmentation; the rotation and the colours are additions.
"""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def transform(size: int = 480, ignored: int = 255) -> dict[str, Any]:
    moves = [
        T.RandomResizedCrop(size, scale=(0.25, 1.0)),
        T.RandomHorizontalFlip(),
        T.RandomRotation(10, interpolation="bilinear"),
    ]
    return {
        "image": [
            *moves,
            T.ColorJitter(0.4, 0.4, 0.4, 0.1),
            T.ToDtype(np.float32, scale=True),
            T.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            T.ToChannelFirst(),
        ],
        "mask": [T.Mask(fill=ignored), *moves],
    }


def main() -> None:
    rng = np.random.default_rng(0)
    spec = {
        "image": Field((520, 520, 3), np.uint8),
        "mask": Field((520, 520), np.uint8),
    }
    images = rng.integers(0, 256, (16, 520, 520, 3), np.uint8)
    masks = rng.integers(0, 21, (16, 520, 520), np.uint8)
    options = {"batch_size": 4, "window": 16, "factor": 2}
    with EchoBuffer(spec, transform=transform(), **options) as buffer:
        buffer.put_batch({"image": images, "mask": masks})
        buffer.close()
        for batch in buffer:
            print(batch["image"].shape, batch["mask"].shape)


if __name__ == "__main__":
    main()
