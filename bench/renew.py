"""Images that are kept for four epochs and then made anew: what does keeping them cost?

Images of 150,528 bytes, read one by one in a random order by one process, from a disk
that is warm. "kept" is an epoch in which none is made; "renewed" are epochs each of
which makes a quarter of them, in little time. The reference is reuseloader 0.1.0.
stocaching renews nothing, and MONAI's SmartCacheDataset serves other images in place
of those that it drops: both keep them in memory.

Then each library is killed (SIGKILL) in the middle of an epoch and started again at it:
what it has made in both runs, over what the epoch makes, is the cost.

stocaching needs NumPy 1, so the peers have an environment of their own:

    python3.11 -m venv .venv-renew
    .venv-renew/bin/pip install -r bench/requirements-renew.txt
    python bench/renew.py --python reuseloader=.venv-renew/bin/python \
        --python stocaching=.venv-renew/bin/python --python MONAI=.venv-renew/bin/python
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from echobuf.cli.bench import Candidate, Question
from echobuf.cli.bench.report import figures, print_table, write_figures
from echobuf.cli.bench.rounds import measure
from running import make_parser, select
from sampling import HERE, RESULTS

TARGET = "peers.renewed_items"
LIBRARIES = {
    "echobuf": "Echobuf",
    "echobuf in memory": "EchobufMemory",
    "reuseloader": "Reuseloader",
    "stocaching": "Stocaching",
    "MONAI SmartCacheDataset": "SmartCache",
}
EPOCHS = 9
KILLED_IN = 5


def candidates() -> tuple[Candidate, ...]:
    """Return each library with images kept, and renewed."""
    return tuple(
        Candidate(
            f"{name}, {what}",
            f"{TARGET}:{library}Round",
            {"renews": what == "renewed"},
            reference=f"reuseloader, {what}",
        )
        for what in ("kept", "renewed")
        for name, library in LIBRARIES.items()
    )


def run_epochs(candidate: Candidate, count: int, folder: str, *span: int) -> Any:
    """Return what a library says of epochs; the last line that it prints."""
    library = candidate.target.partition(":")[2].removesuffix("Round")
    command = [
        candidate.python or sys.executable,
        HERE / "peers" / "renewed_items.py",
        *(library, count, folder, *span),
    ]
    ran = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False
    )
    if not ran.stdout:
        return None
    return json.loads(ran.stdout.splitlines()[-1])


def count_made(candidate: Candidate, count: int) -> dict[str, Any] | None:
    """Return how many images epochs make, their bytes, and the cost of a kill."""
    with tempfile.TemporaryDirectory() as folder:
        whole = run_epochs(candidate, count, folder, 0, EPOCHS, -1)
    if whole is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        killed = run_epochs(candidate, count, folder, 0, EPOCHS, KILLED_IN)["killed"]
        again = run_epochs(candidate, count, folder, KILLED_IN, KILLED_IN + 1, -1)
    cost = killed + sum(again["made"]) - whole["made"][KILLED_IN]
    return {**whole, "made_again_after_a_kill": cost}


def print_counts(counts: dict[str, Any]) -> None:
    """Print a line for each library."""
    print(f"\n{'':26}{'made an epoch':>24} {'MB disk':>8} {'MB mem':>8} {'kill':>6}")
    for name, row in counts.items():
        made = f"{row['made'][0]}, then {statistics.median(row['made'][1:]):g}"
        print(
            f"{name:26}{made:>24} {row['disk_bytes'] / 1e6:8.1f} "
            f"{row['memory_bytes'] / 1e6:8.1f} {row['made_again_after_a_kill']:6}"
        )


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--items", type=int, default=1000)
    options = parser.parse_args()
    question = select(
        Question(
            "renew",
            "image",
            candidates(),
            reference="reuseloader, kept",
            settings={"items": options.items},
            path=(HERE,),
            timeout_s=300,
        ),
        options,
    )
    outcomes = measure(question, options.rounds)
    print_table(question, outcomes)
    counts = {}
    for candidate in question.candidates:
        name, _, what = candidate.name.rpartition(", ")
        row = count_made(candidate, options.items) if what == "kept" else None
        if row is not None:
            counts[name] = row
    print_counts(counts)
    content = {**figures(question, outcomes), "items": options.items, "counts": counts}
    write_figures(question.name, options.out, content)


if __name__ == "__main__":
    main()
