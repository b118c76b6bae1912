"""One rank alone, and two that agree on every epoch, each with a slow upstream.

Each rank reads 800 examples at 2 ms (it sleeps: as many machines would), echoes them
with factor="auto" or 2, and trains a small network with DistributedDataParallel over
gloo. By turns; the time of a round is the mean of all epochs but each rank's first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from sampling import RESULTS

EXAMPLES, SECONDS, BATCH, WINDOW = 800, 0.002, 16, 128
EPOCHS = 3


class Slow:
    """Takes its time with each example."""

    def __iter__(self) -> Iterator[Any]:
        import torch

        for number in range(EXAMPLES):
            time.sleep(SECONDS)
            yield {"x": torch.full((64,), number / EXAMPLES), "y": number % 10}


def train(factor: Any, uneven: str | None) -> None:
    """Run one rank, and print the seconds of each epoch but the first."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from echobuf.torch import EchoLoader

    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = EchoLoader(
        Slow(), batch_size=BATCH, window=WINDOW, factor=factor, uneven=uneven
    )
    took, steps = [], 0
    for _ in range(EPOCHS):
        begun = time.perf_counter()
        for batch in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch["x"]), batch["y"]).backward()
            optimizer.step()
            time.sleep(0.004)  # the rest of a step
            steps += 1
        took.append(time.perf_counter() - begun)
    said = json.dumps({"seconds": took[1:], "steps": steps})
    sys.stdout.write(said + "\n")  # in one go: ranks share what they write to
    dist.barrier()
    dist.destroy_process_group()


def run(ranks: int, factor: str, uneven: str | None) -> list[dict[str, Any]]:
    """Run all ranks, and return what each has printed."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    arguments = ["--rank-of", factor, uneven or ""]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node", str(ranks), __file__, *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [json.loads(line) for line in lines]


def main() -> None:
    """Run, print and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--rank-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        factor, uneven = options.rank_of
        train(factor if factor == "auto" else float(factor), uneven or None)
        return
    about = environment()
    found: dict[str, Any] = {}
    for factor in ("auto", "2"):
        times: dict[str, list[float]] = {"one rank": [], "two ranks": []}
        for _ in range(options.rounds):
            for name, ranks, uneven in (
                ("one rank", 1, None),
                ("two ranks", 2, "drop"),
            ):
                epochs = [
                    s for said in run(ranks, factor, uneven) for s in said["seconds"]
                ]
                times[name].append(statistics.mean(epochs))
        medians = {name: statistics.median(each) for name, each in times.items()}
        ratio = paired_ratio(times["two ranks"], times["one rank"])
        print(f"factor {factor}: {medians}, ratio {ratio.median:.3f}", flush=True)
        found[factor] = {
            "seconds": times,
            "medians": medians,
            "ratio": ratio.median,
            "ratio_range": ratio.range,
        }
    write_figures("ranks", options.out, {"factors": found}, taken_in=about)


if __name__ == "__main__":
    main()
