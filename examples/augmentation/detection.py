"""Detection: an image, its boxes and their labels, augmented together inside the draw.

`python examples/augmentation/detection.py` draws a few batches of made-up images.
"""

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf.transforms import (
    BoundingBoxes,
    ColorJitter,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    ToChannelFirst,
    ToDtype,
)

MOST_BOXES = 20  # of an image; rows that it has not are stored as -1

spec = {
    "image": Field((256, 320, 3), np.uint8),
    "boxes": Field((MOST_BOXES, 4), np.float32),
    "labels": Field((MOST_BOXES,), np.int64),
}
chain = [
    RandomResizedCrop(224, scale=(0.3, 1.0)),
    RandomHorizontalFlip(),
    ColorJitter(0.4, 0.4, 0.4),
    ToDtype(np.float32, scale=True),
    Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ToDtype(np.float16),
    ToChannelFirst(),
]
transform = {"image": chain, "boxes": [BoundingBoxes("image"), *chain]}


def example(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return an image with one to five bright rectangles, in (x1, y1, x2, y2)."""
    image = rng.integers(0, 90, spec["image"].shape, np.uint8)
    boxes = np.full(spec["boxes"].shape, -1, np.float32)
    labels = np.zeros(spec["labels"].shape, np.int64)
    for row in range(rng.integers(1, 6)):
        left, top = rng.integers(0, 250), rng.integers(0, 190)
        right, bottom = left + rng.integers(10, 70), top + rng.integers(10, 66)
        labels[row] = rng.integers(0, 3)
        image[top:bottom, left:right, labels[row]] = 255
        boxes[row] = left, top, right, bottom
    return {"image": image, "boxes": boxes, "labels": labels}


def batches(examples: int = 32, batch_size: int = 8):
    """Yield batches, in each of which the rows of boxes that are left are known."""
    rng = np.random.default_rng(0)
    options = {"batch_size": batch_size, "window": examples, "factor": 2}
    with EchoBuffer(spec, transform=transform, **options) as buffer:
        buffer.put_batch(
            {
                name: np.stack(leaves)
                for name, leaves in _columns(example(rng) for _ in range(examples))
            }
        )
        buffer.close()
        for batch in buffer:
            present = batch["boxes"][..., 2] > 0
            yield batch["image"], batch["boxes"], batch["labels"], present


def _columns(examples):
    rows = list(examples)
    return [(name, [row[name] for row in rows]) for name in spec]


if __name__ == "__main__":
    for image, boxes, _, present in batches():
        print(image.shape, image.dtype, "boxes left:", present.sum(axis=1), boxes[0, 0])
