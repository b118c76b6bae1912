"""ImageNet for a ResNet, as torchvision's reference trains its second weights.

The options are those of references/classification (--train-crop-size 176
--auto-augment ta_wide --random-erase 0.1 --mixup-alpha 0.2 --cutmix-alpha 1.0); it
smooths labels by 0.1 in the loss.
https://pytorch.org/blog/how-to-train-state-of-the-art-models-using-torchvision-latest-primitives/
"""

from typing import Any

import numpy as np

from echobuf import EchoBuffer, Field
from echobuf import transforms as T


def transform(size: int = 176, classes: int = 1000) -> dict[str, Any]:
    mixes = [
        T.MixUp(alpha=0.2, num_classes=classes),
        T.CutMix(alpha=1.0, num_classes=classes),
    ]
    return {
        "image": [
            T.RandomResizedCrop(size),
            T.RandomHorizontalFlip(),
            T.TrivialAugmentWide(interpolation="bilinear"),
            T.ToDtype(np.float32, scale=True),
            T.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
            T.RandomErasing(p=0.1),
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
