"""Small batches with a busy pure-Python thread beside them, and without it.

Batches of 256 records of 136 bytes, all ready. The speed of a candidate with a busy
thread is its rate over that of the same candidate without one.
"""

from dataclasses import replace

from echobuf.cli.bench import Candidate, Question
from echobuf.cli.bench.options import make_parser, run
from sampling import HERE, RESULTS, SMALL

# A round lasts for a second, many times the 5 ms for which a thread may keep the GIL;
# little work at a time, since a call may take those 5 ms.
FEW = {"batches": 10}
GIVEN = {"order_given": True, **FEW}
QUIET = (
    Candidate("echobuf", "own:Draw"),
    Candidate("echobuf out=", "own:Draw", {"out": True}),
    Candidate("numpy.take(out=)", "peers.plain:Take", GIVEN),
    Candidate("torch.index_select(out=)", "peers.torch_index_select:Select", GIVEN),
    Candidate("DataLoader", "peers.torch_dataloader:Loading", FEW),
)


def pairs() -> list[Candidate]:
    """Each candidate without a busy thread, and with one."""
    both = []
    for quiet in QUIET:
        name = f"{quiet.name}, busy"
        settings = {**quiet.settings, "busy_thread": True}
        both.append(quiet)
        both.append(replace(quiet, name=name, settings=settings, reference=quiet.name))
    return both


QUESTION = Question(
    "busy_thread",
    "batch",
    tuple(pairs()),
    reference="echobuf",
    settings={**SMALL, "chunks": 10_000, "limit_s": 1.0},
    path=(HERE,),
)

if __name__ == "__main__":
    run(QUESTION, make_parser(__doc__, RESULTS).parse_args())
