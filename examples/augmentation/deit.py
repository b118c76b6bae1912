"""DeiT: RandAugment, random erasing, and MixUp or CutMix by chance.

H. Touvron et al. (arXiv:2012.12877), table 9, as timm 0.3.2 does it: level 9 of 10, and
each of two operations with probability 1/2 (its "rand-m9-mstd0.5-inc1", but without the
noise of the level, and with torchvision's operations), filled with the mean colour.
Labels are smoothed by 0.1 in the loss.
"""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def transform(size: int = 224, classes: int = 1000) -> dict[str, Any]:
    strong = {"magnitude": 9, "num_magnitude_bins": 11, "fill": (124, 116, 104)}
    augment = T.RandAugment(num_ops=1, interpolation="bilinear", **strong)
    mixes = [
        T.MixUp(alpha=0.8, num_classes=classes),
        T.CutMix(alpha=1.0, num_classes=classes),
    ]
    return {
        "image": [
            T.RandomResizedCrop(size, interpolation="bicubic"),
            T.RandomHorizontalFlip(),
            *[T.RandomApply([augment], p=0.5)] * 2,
            T.ToDtype(np.float32, scale=True),
            T.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            T.RandomErasing(0.25, (0.02, 1 / 3), (0.3, 1 / 0.3), value="random"),
            T.RandomChoice(mixes),
            T.ToChannelFirst(),
        ]
    }


def main() -> None:
    rng = np.random.default_rng(0)
    spec = {"image": Field((256, 256, 3), np.uint8), "label": Field((), np.int64)}
    images = rng.integers(0, 256, (32, 256, 256, 3), np.uint8)
    labels = rng.integers(0, 1000, 32)
    options = {"batch_size": 8, "window": 32, "factor": 2}
    with EchoBuffer(spec, transform=transform(), **options) as buffer:
        buffer.put_batch({"image": images, "label": labels})
        buffer.close()
        for batch in buffer:
            print(batch["image"].shape, batch["label"].shape)


if __name__ == "__main__":
    main()
