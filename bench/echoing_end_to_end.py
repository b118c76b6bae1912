"""Example echoing end to end: uint8 64x64x3, e = 4, window 4,096, batches of 128.

Upstream is an array of 32,768 examples in memory; filling and draining the window are
in the time. The reference is the bare copy limit: one copy in for each fresh example,
one out for each draw, by `numpy.copyto`, one thread, warm memory. In the warm-up each
candidate that claims exact use is checked for it.
"""

from echobuf.cli.bench import Candidate
from echobuf.cli.bench.questions import ECHOING
from running import make_parser, run
from sampling import REPLAY, RESULTS, with_peers

STREAMS = (
    Candidate("DataLoader, 0 workers", "peers.torch_dataloader:Echo"),
    Candidate("DataLoader, 2 workers", "peers.torch_dataloader:Echo", {"workers": 2}),
    Candidate("tf.data flat_map(repeat), shuffle", "peers.tf_data:Echo"),
    Candidate("tf.data batch, repeat", "peers.tf_data:BatchEcho"),
    Candidate("webdataset", "peers.webdataset_pipeline:Echo"),
    Candidate("grain", "peers.grain_dataset:Echo"),
    Candidate("torchdata nodes", "peers.torchdata_nodes:Echo"),
    Candidate(
        "torchdata nodes, Prefetcher", "peers.torchdata_nodes:Echo", {"prefetch": 4}
    ),
    Candidate("MONAI ThreadDataLoader(repeats=)", "peers.monai_loader:Echo"),
)

QUESTION = with_peers(
    ECHOING,
    *(Candidate(name, f"peers.{module}:Echo") for name, module in REPLAY.items()),
    *STREAMS,
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
