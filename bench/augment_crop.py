"""Random crop, flip, normalise, cast and channel-first of 256 uint8 images 256x256x3.

To float32 [3, 224, 224], one thread. Needs `bench/requirements-augment.txt`.
"""

from augmenting import question
from running import make_parser, run
from sampling import RESULTS

QUESTION = question("augment_crop", "crop")

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
