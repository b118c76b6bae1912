"""Claim 5: passes over a window against tf.data's repeat, then shuffle.

Both serve each fresh example e times from the same memory: echobuf's window and segment
are as many records as the shuffle buffer has entries. tf.data's entries of the same
example share its tensors, so that it needs fewer bytes; a third order gets as many
entries more as make up for that. Measured are duplicates in a batch, draws between two
uses of an example, and the test accuracy of the demo's model after the same fresh
examples and steps, with a learning rate tuned for each order on seeds of its own.

Counts only, no times. Each finished run is a line of `pass_or_shuffle.jsonl` beside the
results: started again, it goes on there.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict
from typing import Any

from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from options import make_parser
from shuffles.accuracy import BATCH, FRESH, Run
from shuffles.conditions import KINDS, Condition, distinct_share
from shuffles.measures import order_of
from shuffles.orders import draws
from shuffles.resident import grown_mib
from shuffles.runs import Runs

FACTORS = (2, 4, 8)
ORDERS = ((256, 32), (1024, 32), (4096, 128))  # records and batch size
ORDER_WINDOWS = 24  # fresh examples of an order, in records of the memory
ORDER_SEED = 0
TRAINED = (256, 1024)  # records
ENTRIES = 256  # of a shuffle buffer that is measured, 1 MiB each
RATES = (0.01, 0.02, 0.04, 0.08, 0.16)
TUNING_SEEDS = range(100, 102)
SEEDS = range(8)


def shared() -> list[dict[str, float]]:
    """Measure and print a shuffle buffer's memory, also without repeats."""
    found = []
    for factor in (1, *FACTORS):
        distinct = ENTRIES * distinct_share(factor)
        grown = grown_mib(factor, ENTRIES)
        print(
            f"shuffle buffer of {ENTRIES} entries of 1 MiB, e = {factor}: "
            f"{grown:.0f} MiB, {distinct:.0f} distinct",
            flush=True,
        )
        found.append({"factor": factor, "mib": grown, "distinct": distinct})
    return found


def orders(memory: int, batch_size: int, windows: int) -> list[dict[str, Any]]:
    """Measure and print the order of each condition with this memory."""
    found = []
    for factor in FACTORS:
        for kind in KINDS:
            condition = Condition(kind, factor, memory)
            drawn = draws(windows * memory, condition, ORDER_SEED)
            order = order_of(drawn, batch_size)
            print(
                f"{condition!s:42} batch {batch_size:3}: duplicates a batch "
                f"{order.duplicates:6.3f} (most {order.most_duplicates:2}), "
                f"distance {order.mean_distance:6.0f}, "
                f"nearest 1 % {order.nearest:5.0f}",
                flush=True,
            )
            found.append(
                {
                    **asdict(condition),
                    "size": condition.size,
                    "batch_size": batch_size,
                    **asdict(order),
                }
            )
    return found


def trained(condition: Condition, runs: Runs) -> dict[str, Any]:
    """Tune the rate of a condition, and make its runs."""
    tuning = {
        rate: [runs.accuracy(Run(condition, rate, seed)) for seed in TUNING_SEEDS]
        for rate in RATES
    }
    rate = max(tuning, key=lambda rate: statistics.mean(tuning[rate]))
    reached = [runs.accuracy(Run(condition, rate, seed)) for seed in SEEDS]
    print(
        f"{condition!s:42} rate {rate:<5g} accuracy {statistics.mean(reached):.4f} "
        f"({min(reached):.4f} .. {max(reached):.4f})",
        flush=True,
    )
    return {
        **asdict(condition),
        "size": condition.size,
        "learning_rate": rate,
        "tuning": {str(rate): values for rate, values in tuning.items()},
        "seeds": list(SEEDS),
        "accuracy": reached,
        "mean": statistics.mean(reached),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure the orders, train, print both, and write figures and a picture."""
    from shuffles.picture import draw

    parser = make_parser(__doc__)
    parser.add_argument("--windows", type=int, default=ORDER_WINDOWS)
    chosen = parser.parse_args(arguments)
    about = environment()
    runs = Runs(chosen.out / "pass_or_shuffle.jsonl")
    memory = shared()
    order = [row for at in ORDERS for row in orders(*at, chosen.windows)]
    accuracies = [
        trained(Condition(kind, factor, records), runs)
        for records in TRAINED
        for factor in FACTORS
        for kind in KINDS
    ]
    figures = {
        "batch_size": BATCH,
        "fresh": FRESH,
        "shuffle_buffer": memory,
        "order": order,
        "accuracy": accuracies,
    }
    write_figures("pass_or_shuffle", chosen.out, figures, taken_in=about)
    print(f"written: {draw(figures, chosen.out / 'pass_or_shuffle.png')}")


if __name__ == "__main__":
    main()
