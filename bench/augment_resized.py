"""Random resized crop, flip, normalise, cast and channel-first of 256 uint8 images.

From 256x256x3 to float32 [3, 224, 224], bilinear, one thread; echobuf and torchvision
with antialiasing, OpenCV and albumentations without, as they have it. Needs
`bench/requirements-augment.txt`.
"""

from augmenting import question
from running import make_parser, run
from sampling import RESULTS

QUESTION = question("augment_resized", "resized")

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
