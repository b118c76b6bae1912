"""Time of `echobuf.torch.EchoLoader` around a DataLoader without workers, factor 1.

The dataset yields `(tensor, int)`, a float32 tensor made anew each time; batches of
128, window 4,096, an epoch of 16 windows. The reference is the same DataLoader iterated
alone. Three sizes: 128 bytes, 12 KB, 48 KB. Filling and draining the window are in the
time: while the last window is drained nothing is read.
"""

from echobuf.cli.bench import Candidate, Question
from running import make_parser, run
from sampling import HERE, RESULTS

TARGET = "peers.data_loader_of_pairs"

SHAPES = {"float32[32]": [32], "[3, 32, 32]": [3, 32, 32], "[3, 64, 64]": [3, 64, 64]}


def both(name: str, shape: list[int]) -> tuple[Candidate, Candidate]:
    """Return candidates for a DataLoader alone, and wrapped in a loader."""
    alone = f"{name}, DataLoader alone"
    settings = {"shape": shape}
    return (
        Candidate(alone, f"{TARGET}:Alone", settings),
        Candidate(f"{name}, EchoLoader", f"{TARGET}:Echoed", settings, reference=alone),
    )


QUESTION = Question(
    "around_data_loader",
    "example",
    tuple(each for name, shape in SHAPES.items() for each in both(name, shape)),
    reference="float32[32], DataLoader alone",
    settings={"source": 1024, "records": 65_536, "batch": 128, "window": 4096},
    path=(HERE,),
    timeout_s=300,
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
