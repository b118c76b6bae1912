"""The matrix of orderly ends.

python tests/ends/run.py --cell 'server_workers/raises/ahead' --seed 7
python tests/ends/run.py --all --seed 1 --jobs 2
python tests/ends/run.py --some 25 --seed 1     # random cells, for 25 seconds
python tests/ends/run.py --list                 # cells, and why others are none
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import random
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from cells import CELLS, EXCLUDED, Cell, find
from drive import Outcome, run_cell
from known import KNOWN


def run_all(cells: Iterable[tuple[Cell, int]], jobs: int) -> Iterator[Outcome]:
    """Run cells, so many at a time; yields each as it ends."""
    left = iter(cells)
    with ThreadPoolExecutor(jobs) as pool:
        running = set()
        while True:
            while len(running) < jobs and (each := next(left, None)) is not None:
                running.add(pool.submit(run_cell, *each))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()


def some(seconds: float, seed: int, cells: list[Cell]) -> Iterator[tuple[Cell, int]]:
    """Return random cells until the time is up, settings by turns."""
    end = time.monotonic() + seconds
    chance = random.Random(seed)
    shuffled = chance.sample(cells, len(cells))
    by_setting = collections.defaultdict(list)
    for cell in shuffled:
        by_setting[cell.setting].append(cell)
    turns = chance.sample(sorted(by_setting), len(by_setting))
    while any(by_setting.values()):
        for setting in turns:
            if by_setting[setting]:
                if time.monotonic() > end:
                    return
                yield by_setting[setting].pop(), seed


def show(outcome: Outcome) -> str:
    """Return a line of the table, and for a failure what is wrong."""
    end = "FAILED" if outcome.problems else "ok"
    text = f"{outcome.cell!s:42} {end:7} {outcome.seconds:5.1f} s"
    if outcome.problems:
        text += "".join(f"\n    {each}" for each in outcome.problems)
        text += f"\n    again: {outcome.command()}"
    elif outcome.errors:
        text += f"  {outcome.errors[0][:90]!r}"
    return text


def report(cells: Iterable[tuple[Cell, int]], jobs: int) -> int:
    """Run cells and print the table; return how many have failed."""
    begun, ran, failed = time.monotonic(), 0, 0
    for outcome in run_all(cells, jobs):
        ran += 1
        failed += bool(outcome.problems)
        print(show(outcome), flush=True)
    print(f"{ran} cells, {failed} failed, {time.monotonic() - begun:.0f} s")
    return failed


def list_cells() -> None:
    """Print all cells, and the rules by which others are none."""
    for cell in CELLS:
        print(cell)
    for why, count in collections.Counter(EXCLUDED.values()).items():
        print(f"{count:4} excluded: {why}")
    print(f"{len(CELLS)} cells, {len(EXCLUDED)} excluded")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cell", action="append", default=[], help="a cell; repeatable"
    )
    parser.add_argument("--like", help="all cells of this pattern, such as 'thread/*'")
    parser.add_argument("--all", action="store_true", help="all cells")
    parser.add_argument("--some", type=float, help="random cells for so many seconds")
    parser.add_argument("--known", action="store_true", help="those that ever failed")
    parser.add_argument("--list", action="store_true", help="the names of all cells")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", type=int, default=1, help="seeds from `--seed` on")
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time")
    options = parser.parse_args()
    # A shell starts what runs in the background with Ctrl-C ignored, and so would we.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if options.list:
        list_cells()
        return 0
    if options.some is not None:
        cells = some(options.some, options.seed, CELLS)
        return min(report(cells, options.jobs), 1)
    if options.known:
        known = [(find(name), seed) for name, seed in KNOWN]
        return min(report(known, options.jobs), 1)
    chosen = list(CELLS) if options.all else [find(name) for name in options.cell]
    if options.like:
        chosen += [cell for cell in CELLS if fnmatch.fnmatch(str(cell), options.like)]
    if not chosen:
        parser.error("no cell: give --cell, --like, --all, --some or --list")
    seeds = range(options.seed, options.seed + options.turns)
    pairs = [(cell, seed) for seed in seeds for cell in chosen]
    return min(report(pairs, options.jobs), 1)


if __name__ == "__main__":
    sys.exit(main())
