"""What `echobuf.torch.EchoLoader` adds to a DataLoader without workers: factor 1.

The dataset yields `(float32[3, 64, 64], int)`, the tensor made anew each time; batches
of 128, window 4,096. The reference is the same DataLoader iterated alone.
"""

from echobuf.cli.bench import Candidate, Question
from echobuf.cli.bench.options import make_parser, run
from sampling import HERE, RESULTS

TARGET = "peers.data_loader_of_pairs"

QUESTION = Question(
    "around_data_loader",
    "example",
    (
        Candidate("DataLoader alone", f"{TARGET}:Alone"),
        Candidate("echobuf.torch.EchoLoader around it", f"{TARGET}:Echoed"),
    ),
    reference="DataLoader alone",
    settings={
        "shape": [3, 64, 64],
        "source": 1024,
        "records": 32_768,
        "batch": 128,
        "window": 4096,
    },
    path=(HERE,),
    timeout_s=300,
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
