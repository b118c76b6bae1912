"""Small batches with a busy pure-Python thread beside them, and without it.

Batches of 256 records of 136 bytes, all ready. The speed of a candidate with a busy
thread is its rate over that of the same candidate without one.
"""

from echobuf.cli.bench import Candidate
from echobuf.cli.bench.questions import BUSY, beside
from running import make_parser, run
from sampling import RESULTS, with_peers

FEW = {"batches": 10}  # a call may take the 5 ms for which a thread may keep the GIL
PEERS = (
    Candidate(
        "torch.index_select(out=)",
        "peers.torch_index_select:Select",
        {"order_given": True, **FEW},
    ),
    Candidate("DataLoader", "peers.torch_dataloader:Loading", FEW),
)

QUESTION = with_peers(BUSY, *(c for peer in PEERS for c in beside(peer)))

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
