"""SimCLR: two views of each image, which is stored once.

T. Chen et al. (arXiv:2002.05709), appendix A.
"""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def view(size: int) -> list[T.Operation]:
    blur = T.GaussianBlur(kernel_size=size // 20 * 2 + 1)
    return [
        T.RandomResizedCrop(size),
        T.RandomHorizontalFlip(),
        T.RandomApply([T.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        T.RandomGrayscale(p=0.2),
        T.RandomApply([blur], p=0.5),
        T.ToDtype(np.float32, scale=True),
        T.ToChannelFirst(),
    ]


def transform(size: int = 224) -> dict[str, Any]:
    return {"image": view(size), "other": [T.Source("image"), *view(size)]}


def main() -> None:
    rng = np.random.default_rng(0)
    spec = {"image": Field((256, 256, 3), np.uint8)}
    images = rng.integers(0, 256, (16, 256, 256, 3), np.uint8)
    options = {"batch_size": 4, "window": 16, "factor": 2}
    with EchoBuffer(spec, transform=transform(), **options) as buffer:
        buffer.put_batch({"image": images})
        buffer.close()
        for batch in buffer:
            print(batch["image"].shape, batch["other"].shape)


if __name__ == "__main__":
    main()
