"""Several jobs on one upstream: what do they cost more than one?

Upstream prepares images (box filters over noise; the time is this machine's), and is
the bottleneck. One, two and four jobs, each a process with a factor and a seed of its
own, train on it for an epoch of `--examples`, on one server; beside it each has an
upstream of its own. The time is from when the last job is there to when the last has
ended. Expected before it was measured: within 5 % of one job, as upstream runs once
whatever the number of jobs, and what a job adds, draws, takes a few percent of a core
that is idle; without a server n times that of one job on n > 1 busy cores.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf import EchoLoader, serve
from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from running import make_parser
from sampling import RESULTS

NAME = "bench"
SHAPE = (64, 64, 3)
JOBS = (1, 2, 4)


class Images:
    """Upstream; how many it has made is counted in `made`."""

    def __init__(self, n: int, work: int, made: Any) -> None:
        self.n, self.work, self.made = n, work, made

    def __iter__(self) -> Iterator[Any]:
        random = np.random.default_rng(0)
        for i in range(self.n):
            image = random.random(SHAPE, np.float32)
            for _ in range(self.work):
                for axis in (0, 1):
                    image = (np.roll(image, 1, axis) + image) / 2
            with self.made.get_lock():
                self.made.value += 1
            yield {"id": np.int64(i), "image": (image * 255).astype(np.uint8)}


def train(number: int, upstream: Any, n: int, there: Any, times: Any) -> None:
    """Run a job's epoch, with each example as often as its factor says."""
    if upstream is None:
        upstream = serve.attach(NAME, timeout=30.0)
    factor = 2 + number % 2
    loader = EchoLoader(upstream, batch_size=32, window=256, factor=factor, seed=number)
    there.wait()
    begun = time.monotonic()
    counts = np.zeros(n, int)
    for batch in loader:
        np.add.at(counts, batch["id"], 1)
    times.put((begun, time.monotonic(), bool((counts == factor).all())))


def run(jobs: int, n: int, work: int, *, shared: bool) -> tuple[float, int]:
    """Return the seconds, and the number of images made."""
    context = multiprocessing.get_context("fork")  # no threads are there yet
    made = context.Value("q", 0)
    there, times = context.Barrier(jobs), context.SimpleQueue()
    upstream = Images(n, work, made)
    server = None
    if shared:
        server = context.Process(target=_serve, args=(upstream, jobs))
        server.start()
    processes = [
        context.Process(
            target=train,
            args=(number, None if shared else upstream, n, there, times),
        )
        for number in range(jobs)
    ]
    for process in processes:
        process.start()
    each = [times.get() for _ in processes]
    for process in [*processes, *([server] if server else [])]:
        process.join()
        assert process.exitcode == 0
    assert all(exact for _, _, exact in each), "an example was not served exactly"
    begun = max(begun for begun, _, _ in each)
    return max(ended for _, ended, _ in each) - begun, made.value


def _serve(upstream: Images, jobs: int) -> None:
    serve.Server(upstream, NAME, window=256, jobs=jobs, epochs=1).wait()


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--examples", type=int, default=3000)
    options.add_argument("--work", type=int, default=24, help="filters an image")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        seconds: dict[tuple[int, bool], list[float]] = {}
        images: dict[tuple[int, bool], int] = {}
        for _ in range(chosen.rounds):
            for shared in (True, False):
                for jobs in JOBS:
                    took, made = run(jobs, chosen.examples, chosen.work, shared=shared)
                    seconds.setdefault((jobs, shared), []).append(took)
                    images[jobs, shared] = made
    one = seconds[1, True]
    rows = []
    print(f"{'':28}{'seconds':>9} {'of one job':>11} {'images made':>12}")
    for (jobs, shared), all_s in seconds.items():
        ratio = paired_ratio(all_s, one)
        name = f"{jobs} job{'s' * (jobs > 1)}, " + (
            "one server" if shared else "each its own"
        )
        row = {
            "jobs": jobs,
            "shared": shared,
            "seconds": statistics.median(all_s),
            "of_one_job": ratio.median,
            "ratio_range": ratio.range,
            "images_made": images[jobs, shared],
            "all_s": all_s,
        }
        rows.append(row)
        print(
            f"{name:28}{row['seconds']:9.3f} {ratio.median:11.3f} "
            f"{row['images_made']:12,}"
        )
    write_figures(
        "serve",
        chosen.out,
        {
            "unit": "s from when the last job is there to when the last has ended",
            "examples": chosen.examples,
            "work": chosen.work,
            "rounds": chosen.rounds,
            "results": rows,
        },
    )


if __name__ == "__main__":
    main()
