"""How many fresh examples the demo's task needs to its target, by kind of echoing.

No echoing, batch echoing, example echoing after augmentation and before it (each echo
is distorted anew), with factor 5, in the demo's window. For each the learning rate is
tuned on seeds of its own, by the median of fresh examples; then seeds 0 to 4 with that
rate. No time is measured: with a fixed factor the counts are the same on every machine
with the same torch.
"""

from __future__ import annotations

import argparse
import statistics
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from echobuf.cli.bench.environment import environment
from echobuf.cli.bench.report import write_figures
from sampling import RESULTS

SEEDS = range(5)
TUNING_SEEDS = range(100, 103)
RATES = (0.01, 0.02, 0.03, 0.05, 0.08)
TARGET = 0.95
BATCH = 32
EVALUATE_EVERY = 20
SMOOTHING = 5
MOST_FRESH = 60_000  # then a run has not reached its target


@dataclass(frozen=True)
class Condition:
    """One way to use each fresh example."""

    title: str
    unit: Literal["example", "batch"]
    factor: int
    window: int  # in batches
    distorted: Literal["upstream", "draw"]


CONDITIONS = (
    Condition("no echoing", "batch", 1, 2, "upstream"),
    Condition("batch echoing", "batch", 5, 32, "upstream"),
    Condition("after augmentation", "example", 5, 32, "upstream"),
    Condition("before augmentation", "example", 5, 32, "draw"),
)


@dataclass(frozen=True)
class Job:
    """One run: what it is given."""

    condition: Condition
    rate: float
    seed: int
    most_fresh: int = MOST_FRESH


def stream(folder: Path, names: list[str], job: Job) -> Iterator[tuple[Any, ...]]:
    """The demo's upstream without its server, each example with its number."""
    from echobuf.cli.demo import data

    files = {name: (folder / name).read_bytes() for name in names}
    upstream = job.condition.distorted == "upstream"
    prepare = data.augment if upstream else data.enlarge
    chance = np.random.default_rng(job.seed)
    number = 0
    while True:
        for index in chance.permutation(len(names)):
            image = prepare(data.decode(files[names[index]]), chance)
            yield image, np.int64(data.label_of(names[index])), np.int64(number)
            number += 1


def batches(examples: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The same in batches."""
    while True:
        some = [next(examples) for _ in range(BATCH)]
        yield tuple(np.stack(column) for column in zip(*some, strict=True))


def fresh_needed(job: Job) -> int | None:
    """Fresh examples up to the target; None if it was not reached."""
    import torch

    from echobuf.cli.demo import data
    from echobuf.cli.demo.model import Model
    from echobuf.torch import EchoLoader

    torch.set_num_threads(1)
    condition = job.condition
    whole = condition.unit == "batch"
    with TemporaryDirectory() as name:
        folder = Path(name)
        digits = data.write_digits(folder)
        images, labels = map(torch.from_numpy, data.test_set(folder, digits.test))
        model = Model(job.seed, job.rate, 0.9)
        loader = EchoLoader(
            batches(stream(folder, list(digits.train), job)),
            batched=True,
            batch_size=None if whole else BATCH,
            window=condition.window * (1 if whole else BATCH),
            factor=condition.factor,
            unit=condition.unit,
            seed=job.seed,
            transform={0: data.distortion()} if condition.distorted == "draw" else None,
        )
        recent: deque[float] = deque(maxlen=SMOOTHING)
        fresh = 0
        for step, (pixels, classes, numbers) in enumerate(loader, start=1):
            model.step(pixels, classes)
            fresh = max(fresh, int(numbers.max()) + 1)
            if step % EVALUATE_EVERY:
                continue
            recent.append(model.accuracy(images, labels))
            if len(recent) == SMOOTHING and statistics.mean(recent) >= TARGET:
                return fresh
            if fresh >= job.most_fresh:
                return None
    return None


def median(counts: list[int | None]) -> float:
    """Of counts, those that missed the target being the largest."""
    return statistics.median(MOST_FRESH if n is None else n for n in counts)


def main() -> None:
    """Tunes, runs, prints a table and writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (2)")
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--tuning-seeds", type=int, nargs="+", default=TUNING_SEEDS)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args()
    about = environment()
    found = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for condition in CONDITIONS:
            tuning = {
                rate: list(
                    pool.map(
                        fresh_needed,
                        [Job(condition, rate, seed) for seed in options.tuning_seeds],
                    )
                )
                for rate in options.rates
            }
            rate = min(tuning, key=lambda rate: median(tuning[rate]))
            jobs = [Job(condition, rate, seed) for seed in options.seeds]
            counts = list(pool.map(fresh_needed, jobs))
            print(
                f"{condition.title:20} rate {rate:<5g} median {median(counts):8,.0f} "
                f"of {counts}; tuning {tuning}",
                flush=True,
            )
            found.append(
                {
                    "condition": condition.title,
                    "factor": condition.factor,
                    "window_batches": condition.window,
                    "learning_rate": rate,
                    "tuning": {str(rate): counts for rate, counts in tuning.items()},
                    "seeds": list(options.seeds),
                    "fresh": counts,
                    "median": median(counts),
                }
            )
    figures = {"target": TARGET, "conditions": found}
    write_figures("fresh_examples", options.out, figures, taken_in=about)


if __name__ == "__main__":
    main()
