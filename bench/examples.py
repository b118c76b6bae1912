"""Examples one by one: a generator of (uint8 64x64x3 copied afresh, int), e = 4.

Window 4,096, batches of 128; 131,072 examples, and filling and draining the window are
in the time. The reference is the bare copy limit: 32 rows in and 128 out for each
batch, by `numpy.copyto`, one thread, warm memory, without upstream. In the warm-up each
candidate that claims exact use is checked for it.
"""

from echobuf.cli.bench import Candidate
from echobuf.cli.bench.questions import DATA_LOADER, EXAMPLES
from running import make_parser, run
from sampling import RESULTS, with_peers

TARGET = "peers.echoed_examples:"

QUESTION = with_peers(
    EXAMPLES,
    Candidate("cpprb", TARGET + "Cpprb"),
    DATA_LOADER,
    Candidate("webdataset", TARGET + "Webdataset"),
    Candidate("tf.data", TARGET + "TfData", {"records": 16_384}),
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
