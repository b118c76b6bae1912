"""Augmented batches: 1,024 images of 256 x 256 x 3 bytes to 224, in bfloat16.

Crop, flip, normalise, cast and channels first, inside the draw. The yardstick is a
copy within the device that moves as many bytes: those of the pixels that are read, and
of the numbers that are written. All of it is queued behind a delay.
"""

import sys

from ask import Candidate, Question, scaled
from augmented import Augment, Moved
from augmented_peers import Kornia, Plain, Torchvision
from script import main

SETTINGS = {
    "fields": {"image": [[256, 256, 3], "uint8"]},
    "key": "image",
    "records": 8192,
    "batch": 1024,
    "batches": 7,  # a pass has 8, and one is drawn when the next pass begins
    "distinct": True,
    "size": 224,
    "dtype": "bfloat16",
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
}
TINY = scaled(SETTINGS, 128, fields={"image": [[16, 16, 3], "uint8"]}, size=14)
OWN = (
    Candidate("bytes moved", Moved),
    Candidate("echobuf out=", Augment, {"out": True}),
    Candidate("echobuf", Augment),
    Candidate("torchvision v2, batch", Torchvision, peer=True),
    Candidate("kornia", Kornia, peer=True),
)
QUESTIONS = (
    Question(
        name="gpu_draw_augmented",
        aim="0.8 of the bytes moved, 3 times torchvision v2 and kornia",
        unit="batch",
        reference="bytes moved",
        candidates=(*OWN, Candidate("plain torch", Plain, peer=True)),
        clock="device",
        settings={**SETTINGS, "cut": "crop"},
        tiny=TINY,
    ),
    Question(
        name="gpu_draw_resized",
        aim="none set; RandomResizedCrop instead of the crop",
        unit="batch",
        reference="bytes moved",
        candidates=OWN,
        clock="device",
        settings={**SETTINGS, "cut": "resized"},
        tiny=TINY,
    ),
)

if __name__ == "__main__":
    sys.exit(main(__doc__, QUESTIONS))
