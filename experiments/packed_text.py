"""Claim: where texts arrive slowly, a packed language model needs fewer of them.

The model and the texts of `examples/packed_lm`, with a delay of 12 ms a text, which is
about four times what training on a text takes in one thread. Rules, fixed before the
runs of seeds 0 to 4:

- Target: a loss of 2.60 nats a byte on 100 texts that are never trained on.
- The learning rate (0.003) and the target were chosen on seed 100 without echoing, and
  serve all factors: 1, 2 and 4. There is no schedule but a warmup of 20 steps.
- The window holds 512 texts (chosen on seed 100 with echoing, where 128 were worse),
  and 32 for factor 1, whose texts arrive shuffled anyway.
- The loss is evaluated whenever 5,000 more tokens have arrived. Meanwhile the clock and
  upstream stand still, but for at most one text. The time has all else in it, filling
  the window too.
- Factors take turns within a seed. A run of 60 s that has not reached the target counts
  as such, and none is left out.

Fresh tokens are all that upstream has delivered by then, read ahead or not. All of it
takes some five minutes.
"""

from __future__ import annotations

import json
import runpy
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echobuf.cli.environment import environment
from options import make_parser

EXAMPLE = Path(__file__).parents[1] / "examples" / "packed_lm" / "train.py"
TARGET, LR, DELAY_S, HELD_OUT, EVERY = 2.60, 3e-3, 0.012, 100, 5_000
WINDOWS = {1: 32, 2: 512, 4: 512}
SEEDS = (0, 1, 2, 3, 4)
LIMIT_S = 60.0


@dataclass(frozen=True)
class Run:
    """The outcome of one run: at the target, or where it ended before.

    Args:
        factor: uses of each text.
        seed: of the model and of all orders.
        reached: that the loss is at most the target.
        loss: at the last evaluation, in nats a byte.
        seconds: without evaluations.
        fresh_tokens: that upstream has delivered.
        tokens: that the model was trained on.
        waste: share of the places of its rows that held padding.
        steps: of training.
    """

    factor: int
    seed: int
    reached: bool
    loss: float
    seconds: float
    fresh_tokens: int
    tokens: int
    waste: float
    steps: int


class Experiment:
    """The texts, those held out, and runs to the target."""

    def __init__(self, files: int | None = None) -> None:
        self.example = runpy.run_path(str(EXAMPLE))
        texts = self.example["read_texts"](files)
        order = np.random.default_rng(5).permutation(len(texts))
        self.held_out = [texts[number] for number in order[:HELD_OUT]]
        self.texts = [texts[number] for number in order[HELD_OUT:]]

    def upstream(self, texts: list[Any], delay_s: float, seed: int) -> Any:
        """Return slow texts with a lock that stops them while it is held."""
        base = self.example["SlowTexts"]

        class PausedTexts(base):
            lock = threading.Lock()

            def __iter__(self) -> Any:
                for text in super().__iter__():
                    with self.lock:
                        pass
                    yield text

        return PausedTexts(texts, delay_s, seed)

    def run(self, factor: int, seed: int, delay_s: float, limit_s: float) -> Run:
        """Train until the target, or until `limit_s` have passed."""
        make_loader = self.example["make_loader"]
        with make_loader(self.upstream(self.held_out, 0, 0), 1, 32) as held_out:
            evaluated = list(held_out)
        upstream = self.upstream(self.texts, delay_s, seed)
        loader = make_loader(upstream, factor, WINDOWS[factor])
        trainer = self.example["Trainer"](LR, seed)
        tokens = places = at = 0
        loss = float("inf")
        begin, paused_s, epoch = time.perf_counter(), 0.0, 0
        while True:
            for batch in loader:
                trainer.step(batch)
                tokens += int(batch.lengths.sum())
                places += batch.segment_ids.numel()
                if upstream.tokens < at + EVERY:
                    continue
                stopped = time.perf_counter()
                with upstream.lock:
                    at = fresh = upstream.tokens
                    loss = trainer.loss(evaluated)
                    paused_s += time.perf_counter() - stopped
                seconds = time.perf_counter() - begin - paused_s
                if loss <= TARGET or seconds > limit_s:
                    break
            else:
                epoch += 1
                continue
            break
        loader.close()
        return Run(
            factor,
            seed,
            loss <= TARGET,
            loss,
            seconds,
            fresh,
            tokens,
            1 - tokens / places,
            trainer.steps,
        )


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Return medians and ranges for each factor, beside factor 1 of the same seed."""
    plain = {run.seed: run for run in runs if run.factor == 1}
    told: dict[str, Any] = {}
    for factor in sorted({run.factor for run in runs}):
        mine = [run for run in runs if run.factor == factor]
        reached = [run for run in mine if run.reached and plain[run.seed].reached]
        row: dict[str, Any] = {"runs": len(mine), "reached": len(reached)}
        figures = {
            "seconds": [run.seconds for run in reached],
            "fresh_tokens": [run.fresh_tokens for run in reached],
            "steps": [run.steps for run in reached],
            "tokens_per_s": [run.tokens / run.seconds for run in mine],
            "waste": [run.waste for run in mine],
            "seconds_over_plain": [
                run.seconds / plain[run.seed].seconds for run in reached
            ],
            "fresh_over_plain": [
                run.fresh_tokens / plain[run.seed].fresh_tokens for run in reached
            ],
        }
        for name, values in figures.items():
            if values:
                middle = statistics.median(values)
                row[name] = {"median": middle, "range": [min(values), max(values)]}
        told[str(factor)] = row
    return told


def print_summary(told: dict[str, Any]) -> None:
    """Print a table with a line for each factor."""
    names = ("seconds", "fresh_tokens", "steps", "tokens_per_s", "waste")
    names += ("seconds_over_plain", "fresh_over_plain")
    for factor, row in told.items():
        print(f"factor {factor}: target reached in {row['reached']} of {row['runs']}")
        for name in names:
            if name in row:
                least, most = row[name]["range"]
                middle = row[name]["median"]
                print(f"  {name:20} {middle:12.4g}  ({least:.4g} to {most:.4g})")


def main(arguments: list[str] | None = None) -> None:
    """Make all runs, print a table and write the result file."""
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--factors", type=int, nargs="+", default=[*WINDOWS])
    parser.add_argument("--delay-ms", type=float, default=1000 * DELAY_S)
    parser.add_argument("--limit-s", type=float, default=LIMIT_S)
    parser.add_argument("--files", type=int, help="modules to read (default: all)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    about = environment()
    experiment = Experiment(options.files)
    runs = []
    for seed in options.seeds:
        for factor in options.factors:
            delay_s = options.delay_ms / 1000
            runs.append(experiment.run(factor, seed, delay_s, options.limit_s))
            print(runs[-1], flush=True)
    told = summary(runs)
    print_summary(told)
    settings = {
        "target_nats_a_byte": TARGET,
        "lr": LR,
        "delay_ms": options.delay_ms,
        "windows": WINDOWS,
        "held_out_texts": HELD_OUT,
        "texts": len(experiment.texts),
        "tokens": sum(map(len, experiment.texts)),
        "evaluated_every_tokens": EVERY,
        "limit_s": options.limit_s,
        "torch_threads": 1,
    }
    content = {
        "environment": about,
        "settings": settings,
        "summary": told,
        "runs": [asdict(run) for run in runs],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "packed_text.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written: {path}")


if __name__ == "__main__":
    main()
