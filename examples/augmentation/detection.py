"""Detection: an image and its boxes, which move together.

One window of any size takes the place of the random scale and crop of detectors that
have one size of input: W. Liu et al., "SSD" (arXiv:1512.02325), section 2.2, and
`RandomIoUCrop` of torchvision's reference.
"""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def transform(size: int = 224) -> dict[str, Any]:
    chain = [
        T.RandomResizedCrop(size, scale=(0.3, 1.0)),
        T.RandomHorizontalFlip(),
        T.RandomApply([T.ColorJitter(0.4, 0.4, 0.4)], p=0.8),
        T.ToDtype(np.float32, scale=True),
        T.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        T.ToDtype(np.float16),
        T.ToChannelFirst(),
    ]
    return {"image": chain, "boxes": [T.BoundingBoxes("image"), *chain]}


def main() -> None:
    rng = np.random.default_rng(0)
    spec = {
        "image": Field((256, 320, 3), np.uint8),
        "boxes": Field((20, 4), np.float32),
        "labels": Field((20,), np.int64),
    }
    images = rng.integers(0, 256, (16, 256, 320, 3), np.uint8)
    corners = rng.integers(0, 200, (16, 20, 2))
    boxes = np.concatenate([corners, corners + rng.integers(10, 56, (16, 20, 2))], -1)
    boxes = boxes.astype(np.float32)
    boxes[:, 5:] = -1  # rows that an image has not
    labels = rng.integers(0, 80, (16, 20))
    options = {"batch_size": 4, "window": 16, "factor": 2}
    with EchoBuffer(spec, transform=transform(), **options) as buffer:
        buffer.put_batch({"image": images, "boxes": boxes, "labels": labels})
        buffer.close()
        for batch in buffer:
            left = batch["boxes"][..., 2] > 0
            print(batch["image"].shape, "boxes left:", left.sum(axis=1))


if __name__ == "__main__":
    main()
