"""Cost as work grows: larger windows, more leaves, producers and epochs.

Each time of echobuf is beside the bytes alone: a plain copy of as many, in and out of a
memory that is as large, at random places where echobuf draws, so that caches and page
tables cost both the same. The figure is the quotient of both. Where it grows, the time
grows faster than the bytes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from echobuf.cli.environment import environment
from growth_picture import draw_picture
from running import make_parser
from sampling import RESULTS

BATCH, FACTOR = 250, 4
DRAWS = 2000  # in a round, at least
WINDOWS = tuple(10**power for power in range(3, 8))
LEAVES = (1, 2, 4, 8, 16, 32, 64)
PRODUCERS = (1, 2, 4, 8, 16)
EPOCHS = (1, 10, 100, 1000)
PUTS, CALLS = 32_000, 256  # of all producers together: single puts, and put_batch
BYTES, BY_LEAVES = "the bytes alone", "NumPy, leaf by leaf"
RECORD = {"x": np.ones(32, np.float32), "y": np.int64(1)}
RECORD_BYTES = 136

Seconds = dict[str, float]


@dataclass
class Point:
    """One place on an axis: times of rounds, and single figures."""

    axis: str
    at: int
    figures: dict[str, float] = field(default_factory=dict)
    # What was measured, and what it is beside: seconds of both, by rounds.
    times: dict[tuple[str, str], tuple[list[float], list[float]]] = field(
        default_factory=dict
    )

    def add(self, own: Seconds, other: Seconds, beside: str = BYTES) -> None:
        """Add a round."""
        for what, seconds in own.items():
            both = self.times.setdefault((what, beside), ([], []))
            both[0].append(seconds)
            both[1].append(other[what])


def timed(function: Callable[..., Any], *args: Any) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    function(*args)
    return time.perf_counter() - begun


def put_each(buffer: echobuf.EchoBuffer, example: Any, count: int) -> None:
    """Put one example that many times."""
    put = buffer.put
    for _ in itertools.repeat(None, count):
        put(example)


def put_batches(buffer: echobuf.EchoBuffer, batch: Any, count: int) -> None:
    """Put a batch that many times."""
    for _ in itertools.repeat(None, count):
        buffer.put_batch(batch)


def draw(buffer: echobuf.EchoBuffer, count: int) -> None:
    """Draw that many batches, and drop them."""
    next_batch = buffer.next_batch
    for _ in itertools.repeat(None, count):
        next_batch()


def stack(example: dict[str, Any], count: int) -> dict[str, Any]:
    """Return a batch of copies of an example."""
    return {name: np.stack([leaf] * count) for name, leaf in example.items()}


class Memory:
    """Arrays as large as a buffer's, with bare copies of batches in and out."""

    def __init__(self, rows: int, row_bytes: int, leaves: int = 1) -> None:
        self.rows, self.next_row = rows, 0
        shape = rows, row_bytes // leaves
        self.leaves = [np.ones(shape, np.uint8) for _ in range(leaves)]
        self.batch = [leaf[:BATCH].copy() for leaf in self.leaves]
        self.order = np.random.default_rng(0).permutation(rows)

    def take(self, batches: int) -> None:
        """Copy that many batches out, of rows at random places."""
        for index in range(batches):
            first = index * BATCH % (self.rows - BATCH + 1)
            rows = self.order[first : first + BATCH]
            for leaf, out in zip(self.leaves, self.batch, strict=True):
                np.take(leaf, rows, axis=0, out=out, mode="clip")

    def put(self, calls: int, rows: int = BATCH) -> None:
        """Copy so many rows to the next places, that many times."""
        for _ in range(calls):
            if self.next_row + rows > self.rows:
                self.next_row = 0
            places = slice(self.next_row, self.next_row + rows)
            for leaf, batch in zip(self.leaves, self.batch, strict=True):
                leaf[places] = batch[:rows]
            self.next_row += rows


# ---- windows


def windows(rounds: int) -> Iterator[Point]:
    """Measure a batch put and drawn, and calls, with windows of small records."""
    with echobuf.EchoBuffer(RECORD, batch_size=1, window=1, factor=1):
        pass  # imports what the first buffer does
    for window in WINDOWS:
        yield measure_window(window, rounds)


def measure_window(window: int, rounds: int) -> Point:
    """Measure one window, in its steady state: passes over it, and puts between."""
    point, batch = Point("windows", window), stack(RECORD, BATCH)
    segment = window // FACTOR // BATCH
    begun = time.perf_counter()
    buffer = echobuf.EchoBuffer(RECORD, batch_size=BATCH, window=window, factor=FACTOR)
    point.figures["make_s"] = time.perf_counter() - begun
    with buffer:
        for name in ("first_fill_s", "second_fill_s"):
            buffer.reset()
            fill = (FACTOR + 1) * segment
            point.figures[name] = timed(put_batches, buffer, batch, fill)
        memory = Memory((FACTOR + 1) * segment * BATCH, RECORD_BYTES)
        for segments in range(1, FACTOR):  # passes over a window that is not yet full
            draw(buffer, segments * segment)
        passes = max(1, DRAWS // (FACTOR * segment))
        draws = passes * FACTOR * segment
        for number in range(rounds + 1):
            own = {"draw of 250": 0.0, "put_batch of 250": 0.0}
            for _ in range(passes):
                own["draw of 250"] += timed(draw, buffer, FACTOR * segment) / draws
                own["put_batch of 250"] += (
                    timed(put_batches, buffer, batch, segment) / passes / segment
                )
            bare = {
                "draw of 250": timed(memory.take, draws) / draws,
                "put_batch of 250": timed(memory.put, draws) / draws,
            }
            if number:  # the first one warms up
                point.add(own, bare)
        for name in ("stats", "state_dict"):
            call = getattr(buffer, name)
            point.figures[f"{name}_s"] = statistics.median(
                timed(call) for _ in range(9)
            )
        begun = time.perf_counter()
    point.figures["leave_s"] = time.perf_counter() - begun
    return point


# ---- leaves


def leaves(rounds: int) -> Iterator[Point]:
    """Measure records of many leaves: 8 KB in all, and 128 bytes each."""
    for count in LEAVES:
        yield measure_leaves("leaves, 8 KB in all", count, 8192 // count, rounds)
    for count in LEAVES:
        yield measure_leaves("leaves of 128 bytes", count, 128, rounds)


def measure_leaves(axis: str, count: int, size: int, rounds: int) -> Point:
    """Measure records of that many leaves of so many bytes."""
    point, window = Point(axis, count), 4000
    example = {f"leaf{i}": np.ones(size, np.uint8) for i in range(count)}
    batch, batches = stack(example, BATCH), window // BATCH
    bare = Memory(window, count * size)
    split = Memory(window, count * size, leaves=count)
    with echobuf.EchoBuffer(
        example, batch_size=BATCH, window=window, factor=1
    ) as buffer:
        for number in range(rounds + 1):
            buffer.reset()
            own = {"put": timed(put_each, buffer, example, window) / window}
            buffer.reset()
            own["put_batch of 250"] = (
                timed(put_batches, buffer, batch, batches) / batches
            )
            own["draw of 250"] = timed(draw, buffer, batches) / batches
            copied = timed(bare.put, batches) / batches
            taken = timed(bare.take, batches) / batches
            of_leaves = {
                "put": timed(split.put, window, 1) / window,
                "put_batch of 250": timed(split.put, batches) / batches,
                "draw of 250": timed(split.take, batches) / batches,
            }
            if number:
                point.add(
                    own,
                    {
                        "put": copied / BATCH,
                        "put_batch of 250": copied,
                        "draw of 250": taken,
                    },
                )
                point.add(own, of_leaves, BY_LEAVES)
    return point


# ---- producers


def together(threads: int, work: Callable[..., None], *args: Any) -> float:
    """Return the seconds in which that many threads have each called `work`."""
    ready = threading.Barrier(threads + 1)

    def part() -> None:
        ready.wait()
        work(*args)

    running = [threading.Thread(target=part) for _ in range(threads)]
    for thread in running:
        thread.start()
    ready.wait()
    return timed(lambda: [thread.join() for thread in running])


def producers(rounds: int) -> Iterator[Point]:
    """Measure puts by several threads: of small examples, and without the GIL."""
    large = {"x": np.ones((64, 4096), np.uint8)}
    spec = {"x": echobuf.Field((4096,), np.uint8)}
    small_copies, large_copies = Memory(PUTS, RECORD_BYTES), Memory(64 * CALLS, 4096)
    with (
        echobuf.EchoBuffer(RECORD, batch_size=1, window=PUTS, factor=1) as roomy,
        echobuf.EchoBuffer(RECORD, batch_size=BATCH, window=1000, factor=1) as full,
        echobuf.EchoBuffer(spec, batch_size=1, window=64 * CALLS, factor=1) as native,
    ):
        for count in PRODUCERS:
            point = Point("producers", count)
            for number in range(rounds + 1):
                for buffer in (roomy, full, native):
                    buffer.reset()
                each = PUTS // count
                own = {"put": together(count, put_each, roomy, RECORD, each) / PUTS}
                drawing = threading.Thread(target=draw, args=(full, PUTS // BATCH))
                drawing.start()
                own["put, drawn meanwhile"] = (
                    together(count, put_each, full, RECORD, each) / PUTS
                )
                drawing.join()
                each = CALLS // count
                own["put_batch of 64 x 4 KB"] = (
                    together(count, put_batches, native, large, each) / CALLS
                )
                # By one thread: more of them gain what the machine has cores.
                copied = timed(small_copies.put, PUTS // BATCH) / PUTS
                bare = {
                    "put": copied,
                    "put, drawn meanwhile": copied,
                    "put_batch of 64 x 4 KB": timed(large_copies.put, CALLS, 64)
                    / CALLS,
                }
                if number:
                    point.add(own, bare)
            yield point


# ---- epochs


def epochs(rounds: int) -> Iterator[Point]:
    """Measure the first epoch of a loader, and those up to the 1,000th."""
    sizes = {"epoch of 2,000": 2000, "epoch of 250": 250}
    loaders = {
        name: echobuf.EchoLoader(
            [(np.ones(32, np.float32), i) for i in range(count)],
            batch_size=BATCH,
            window=min(1000, count),
            factor=FACTOR,
        )
        for name, count in sizes.items()
    }
    bare = Memory(1000, RECORD_BYTES)
    times, resident = [], []
    for _ in range(EPOCHS[-1]):
        own = {name: timed(draw_all, loader) for name, loader in loaders.items()}
        copies = {
            name: timed(bare.put, count // BATCH)
            + timed(bare.take, FACTOR * count // BATCH)
            for name, count in sizes.items()
        }
        times.append((own, copies))
        resident.append(resident_bytes())
    for epoch in EPOCHS:
        point = Point("epochs", epoch, {"resident_bytes": resident[epoch - 1]})
        first = 0 if epoch == 1 else max(1, epoch - 5 * rounds)
        for own, copies in times[first:epoch]:
            point.add(own, copies)
        yield point
    for loader in loaders.values():
        loader.close()


def draw_all(loader: echobuf.EchoLoader) -> None:
    """Draw an epoch."""
    for _ in loader:
        pass


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- the table


AXES = {"windows": windows, "leaves": leaves, "producers": producers, "epochs": epochs}


def add(point: Point, results: dict[str, Any]) -> None:
    """Print lines for a point, and add it to the figures."""
    of_axis = results.setdefault(point.axis, {"times": {}, "figures": {}})
    for (what, beside), (own, other) in point.times.items():
        ratio = paired_ratio(own, other)
        us, beside_us = (1e6 * statistics.median(each) for each in (own, other))
        rows = of_axis["times"].setdefault(what, {}).setdefault(beside, {})
        rows[str(point.at)] = {
            "us": us,
            "beside_us": beside_us,
            "ratio": ratio.median,
            "ratio_range": ratio.range,
        }
        print(
            f"{point.axis:>19} {point.at:>10,}  {what:<22} {us:10.2f} us, {beside} "
            f"{beside_us:.2f}: {ratio.median:.2f} "
            f"({ratio.least:.2f} to {ratio.most:.2f})",
            flush=True,
        )
    for what, value in point.figures.items():
        of_axis["figures"].setdefault(what, {})[str(point.at)] = value
        print(f"{point.axis:>19} {point.at:>10,}  {what:<22} {value:.6g}", flush=True)


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    options: argparse.Namespace = parser.parse_args()
    about = environment()
    results: dict[str, Any] = {}
    for axis in options.axes:
        for point in AXES[axis](options.rounds):
            add(point, results)
    write_figures("growth", options.out, {"results": results}, taken_in=about)
    draw_picture(results, options.out / "growth.svg")


if __name__ == "__main__":
    main()
