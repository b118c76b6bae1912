"""Draws that augment: kernels that are compiled for a chain."""

import sys

import numpy as np

from echobuf import transforms as t
from place import Place
from smoke import drawn, main, same


def smoke(place: Place) -> str:
    chain = {
        "image": [
            t.RandomResizedCrop(8),
            t.RandomHorizontalFlip(),
            t.ToDtype(np.float32, scale=True),
            t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            t.ToChannelFirst(),
        ]
    }
    return same(drawn(place, "cuda", chain), drawn(place, "cpu", chain))


if __name__ == "__main__":
    sys.exit(main(__doc__, smoke))
