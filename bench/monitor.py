"""Cost of `Monitor` in a step of 1 ms, by its parts and by the clock.

All sinks that need no network: TensorBoard in a folder, Prometheus, a line on a
terminal, and ranges of NVTX. A step works for 1 ms from when it has its batch, so that
all that lies between two steps is added to the loop. The loop runs plain, with a
monitor, and plain again, by turns: the two plain ones tell how much of the difference
is noise.

By its parts: what a step costs that writes nothing, and what each sink's write costs,
once in `every_s`.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.metrics import Monitor, Progress, Prometheus, Sink, TensorBoard, metrics_of
from running import make_parser
from sampling import RESULTS

STEP_S = 1e-3
EVERY_S = 1.0  # the default
BATCH = 256
WINDOW = 4096
WRITES = 200
STEPS = 100_000


def make_sinks(stack: ExitStack) -> dict[str, Sink]:
    """Return the sinks by name, which the stack closes."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    terminal = stack.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115
    prometheus = Prometheus(0)
    stack.callback(prometheus.close)
    progress = Progress(Console(file=terminal, force_terminal=True, width=80))
    stack.callback(progress.end)
    return {
        "TensorBoard": TensorBoard(folder),
        "Prometheus": prometheus,
        "Progress": progress,
    }


def make_buffer(steps: int) -> echobuf.EchoBuffer:
    """Make a buffer whose batches are all ready."""
    buffer = echobuf.EchoBuffer(
        {"x": echobuf.Field((32,), np.float32), "y": echobuf.Field((), np.int64)},
        batch_size=BATCH,
        window=WINDOW,
        factor=max(1, -(-steps * BATCH // WINDOW)),
    )
    refill(buffer)
    return buffer


def refill(buffer: echobuf.EchoBuffer) -> None:
    fresh = {"x": np.zeros((WINDOW, 32), np.float32), "y": np.arange(WINDOW)}
    buffer.put_batch(fresh)
    buffer.close()


def loop_s(batches: Iterable[Any]) -> float:
    """Return the wall time of a loop's step, draws included."""
    steps = 0
    start = time.perf_counter()
    for _ in batches:
        end = time.perf_counter() + STEP_S
        while time.perf_counter() < end:
            pass
        steps += 1
    return (time.perf_counter() - start) / steps


class Nothing:
    """A loader that costs next to nothing."""

    def __init__(self, stats: Callable[[], echobuf.Stats]) -> None:
        self.stats = stats

    def __iter__(self) -> Iterator[None]:
        return iter([None] * STEPS)


def median_s(call: Callable[[], object], times: int) -> float:
    def once() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    return statistics.median(once() for _ in range(times))


def by_parts(
    buffer: echobuf.EchoBuffer, sinks: dict[str, Sink], rounds: int
) -> dict[str, float]:
    """Return the seconds of each part, and their share of a step."""
    source = Nothing(buffer.stats)
    monitor = Monitor(source, every_s=1e6, nvtx=True)

    def run(batches: Iterable[Any]) -> None:
        for _ in batches:
            pass

    plain = median_s(lambda: run(source), rounds)
    with_ranges = median_s(lambda: run(monitor), rounds)
    parts = {"a step": max(0.0, with_ranges - plain) / STEPS}
    metrics = metrics_of(buffer.stats())
    parts["stats()"] = median_s(lambda: metrics_of(buffer.stats()), WRITES)
    for name, sink in sinks.items():
        parts[name] = median_s(lambda s=sink: s.write(1, metrics), WRITES)  # type: ignore[misc]
    writes = sum(seconds for name, seconds in parts.items() if name != "a step")
    parts["share"] = parts["a step"] / STEP_S + writes / EVERY_S
    return parts


def by_clock(
    buffer: echobuf.EchoBuffer, sinks: dict[str, Sink], rounds: int
) -> dict[str, list[float]]:
    """Return the shares of a step that the monitor and mere noise add, by round."""
    monitor = Monitor(buffer, *sinks.values(), every_s=EVERY_S, nvtx=True)
    loops = {"plain": buffer, "monitor": monitor, "plain again": buffer}
    names = list(loops)
    shares: dict[str, list[float]] = {"monitor": [], "noise": []}
    for number in range(rounds):
        seconds = {}
        for at in range(len(names)):
            name = names[(at + number) % len(names)]
            buffer.reset()
            refill(buffer)
            seconds[name] = loop_s(loops[name])
        plain = (seconds["plain"] + seconds["plain again"]) / 2
        shares["monitor"].append((seconds["monitor"] - plain) / STEP_S)
        again = abs(seconds["plain again"] - seconds["plain"])
        shares["noise"].append(again / STEP_S)
    return shares


def main() -> None:
    options = make_parser(__doc__, RESULTS)
    options.add_argument("--steps", type=int, default=2048, help="of a loop (2048)")
    chosen = options.parse_args()
    with ExitStack() as stack:
        sinks = make_sinks(stack)
        buffer = stack.enter_context(make_buffer(chosen.steps))
        parts = by_parts(buffer, sinks, chosen.rounds)
        shares = by_clock(buffer, sinks, chosen.rounds)
    medians = {name: statistics.median(row) for name, row in shares.items()}
    for name, seconds in parts.items():
        if name != "share":
            print(f"{name:>12}: {seconds * 1e6:8.2f} us")
    print(f"by its parts: {parts['share']:.3%} of a step of {STEP_S * 1e3:g} ms")
    print(
        f"by the clock: {medians['monitor']:.3%}, two plain loops differ by "
        f"{medians['noise']:.3%} (medians of {chosen.rounds} rounds)"
    )
    share_by_parts = parts.pop("share")
    write_figures(
        "monitor",
        chosen.out,
        {
            "unit": f"share of a step of {STEP_S} s",
            "every_s": EVERY_S,
            "steps": chosen.steps,
            "share_by_parts": share_by_parts,
            "parts_s": parts,
            "share_by_clock": medians["monitor"],
            "noise": medians["noise"],
            "rounds": shares,
        },
    )


if __name__ == "__main__":
    main()
