"""Large records: batches of 256 images 224x224x3 uint8, drawn from 8,192 (1.2 GB).

The yardstick is a plain copy of the same bytes by one thread, into memory that is warm:
`numpy.copyto` of 256 consecutive images.
"""

from echobuf.cli.bench.questions import IMAGES
from running import make_parser, run
from sampling import RESULTS, replay, select, with_peers

QUESTION = with_peers(IMAGES, *select(), *replay())

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
