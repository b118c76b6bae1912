"""Items some of which take long, from workers: how near to no worker ever waiting?

One item in a hundred takes 50 times as long as the others, or with `--tail tenth` one
in ten takes 10 times as long: the tails that MinatoLoader is for (arXiv:2509.10712). An
item waits, so that two cores are not what is measured; with `--burn` it computes. The
reference does every second item of each kind in one process (of four workers every
fourth): the total work over the workers. Workers stay from epoch to epoch; which items
are long differs by epoch. Required before it was measured: 0.95 of the reference for
`in_order=False`, and 1.5 times DataLoader's workers in order. Two workers cannot gain
more than 1 + s, where long items are a share s of the work (1.34 and 1.53 here): in the
worst order one waits during all long items of the other.
"""

from echobuf.cli.bench import Candidate, Question
from running import make_parser, run
from sampling import HERE, RESULTS

TARGET = "peers.tailed_items:"
TAILS = {
    "hundredth": {"every": 100, "times": 50},
    "tenth": {"every": 10, "times": 10},
}
IN_ORDER = "DataLoader, in order"

CANDIDATES = (
    Candidate("total work over workers", TARGET + "Work"),
    Candidate("echobuf, in_order=False", TARGET + "Arriving"),
    Candidate("echobuf, in order", TARGET + "Ordered"),
    Candidate(IN_ORDER, TARGET + "TorchOrdered"),
    Candidate("DataLoader, in_order=False", TARGET + "TorchArriving"),
    Candidate("SPDL, threads, as completed", TARGET + "Spdl"),
    Candidate("grain, threads, in order", TARGET + "Grain"),
)


def question(tail: str, workers: int, burn: bool) -> Question:
    name = "heavy_tails" if tail == "hundredth" else f"heavy_tails_{tail}"
    name = name if workers == 2 else f"{name}_{workers}"
    return Question(
        name=f"{name}_burn" if burn else name,
        unit="item",
        candidates=CANDIDATES,
        reference=CANDIDATES[0].name,
        settings={
            "items": 1000,
            "workers": workers,
            "batch": 10,
            "seconds": 0.002,
            "burn": burn,
            **TAILS[tail],
        },
        path=(HERE,),
    )


if __name__ == "__main__":
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--tail", choices=sorted(TAILS), default="hundredth")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--burn", action="store_true", help="items compute")
    options = parser.parse_args()
    run(question(options.tail, options.workers, options.burn), options)
