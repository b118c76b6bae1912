"""Small records: batches of 256 records of 136 bytes, drawn from 100,000.

A record is a float32[32] and an int64. The time is that from Python; making the random
order is inside it, unless the name of a candidate says that the order is given.
"""

from echobuf.cli.bench.questions import SMALL
from running import make_parser, run
from sampling import RESULTS, replay, select, with_peers

QUESTION = with_peers(SMALL, *select(), *replay())

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
