"""One record from thread to thread: how many a second, and how long each takes.

Native queues first (bench/cpp), polled and with sleeping, the same also beside a busy
pure-Python thread; then `put` and `next_batch` against `queue.Queue`, from Python
threads. Builds what it needs with CMake; needs Boost's headers (Debian: `apt-get
install libboost-dev`). Polling takes a core for each thread: with fewer free cores than
threads the figures are those of the scheduler's time slices, and are marked so.
"""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from echobuf.cli.bench.report import write_figures
from echobuf.cli.bench.rounds import paired_ratio
from hand_over_native import QUEUES, Native, versions
from hand_over_python import python_latencies
from running import make_parser
from sampling import RESULTS

SIZES = (8, 136)
PERIOD_NS = 20_000  # between records whose latency is measured
LIMIT_US = 5.0
OWN = "echobuf"


@contextmanager
def busy_thread(wanted: bool) -> Iterator[None]:
    """Run Python code on a background thread, which keeps asking for the GIL."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    if wanted:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if wanted:
            thread.join()


def throughput(native: Native, rounds: int, count: int) -> list[dict[str, Any]]:
    """Measure nanoseconds a record, for every queue that supports it."""
    rows = []
    for size in SIZES:
        for producers, sleep in (
            (0, False),
            (1, False),
            (2, False),
            (1, True),
            (2, True),
        ):
            able = [q for q in QUEUES if native.can(q, producers, sleep)]
            times: dict[str, list[float]] = {queue: [] for queue in able}
            for index in range(rounds + 1):
                for queue in able[index % len(able) :] + able[: index % len(able)]:
                    ns = native.run(queue, size, producers, sleep, count)
                    if index > 0:
                        times[queue].append(ns / count)
            row = {
                "bytes": size,
                "producers": producers,
                "waits": "asleep" if sleep else "polling",
                "ns_a_record": {q: statistics.median(t) for q, t in times.items()},
                "of_echobufs_time": {q: _of_own(times, q) for q in able if q != OWN},
                "cores_short": not sleep and producers + 1 > (os.cpu_count() or 1),
            }
            rows.append(row)
            print(_title(row), _figures(row), sep="\n", flush=True)
    return rows


def _of_own(times: dict[str, list[float]], queue: str) -> dict[str, Any]:
    ratio = paired_ratio(times[queue], times[OWN])
    return {"ratio": ratio.median, "ratio_range": ratio.range}


def _title(row: dict[str, Any]) -> str:
    who = {0: "one thread puts and takes", 1: "1 producer", 2: "2 producers"}
    short = "; fewer cores than threads: time slices" if row["cores_short"] else ""
    return f"{row['bytes']} bytes, {who[row['producers']]}, {row['waits']}{short}"


def _figures(row: dict[str, Any]) -> str:
    lines = []
    for queue, ns in row["ns_a_record"].items():
        of_own = row["of_echobufs_time"].get(queue, {"ratio": 1.0})["ratio"]
        lines.append(f"{queue:>30}: {ns:7.1f} ns, {of_own:.3f} of echobuf's")
    return "\n".join(lines)


def quantiles(ns: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return quantiles of latencies, in microseconds, without the warm-up."""
    us = ns[len(ns) // 20 :] / 1e3
    p50, p99 = np.percentile(us, [50, 99])
    below = float((us < LIMIT_US).mean())
    return {"p50_us": float(p50), "p99_us": float(p99), "share_below_5_us": below}


def latencies(
    title: str, rounds: int, runs: dict[str, Callable[[], np.ndarray[Any, Any]]]
) -> dict[str, dict[str, float]]:
    """Return medians over rounds, calm and beside a busy Python thread."""
    rows = {}
    for busy in (False, True):
        got: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
        with busy_thread(busy):
            for _ in range(rounds):
                for name, run in runs.items():
                    got[name].append(quantiles(run()))
        for name, each in got.items():
            row = {key: statistics.median(r[key] for r in each) for key in each[0]}
            rows[f"{name}{', busy Python thread' if busy else ''}"] = row
    print(title)
    for name, row in rows.items():
        print(
            f"{name:>50}: p50 {row['p50_us']:9.2f} us, p99 {row['p99_us']:9.2f} us, "
            f"{row['share_below_5_us']:6.1%} below 5 us",
            flush=True,
        )
    return rows


def native_latencies(
    native: Native, rounds: int, count: int, sleep: bool
) -> dict[str, dict[str, float]]:
    """Measure a hand-over between two native threads, one record at a time."""

    def run_of(queue: str) -> Callable[[], np.ndarray[Any, Any]]:
        return lambda: native.latencies_ns(queue, SIZES[0], sleep, count, PERIOD_NS)

    able = [queue for queue in QUEUES if native.can(queue, 1, sleep)]
    title = f"native threads, {'asleep' if sleep else 'polling'}"
    return latencies(title, rounds, {queue: run_of(queue) for queue in able})


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--count", type=int, default=200_000, help="records a round")
    options = parser.parse_args()
    native = Native()
    slow = max(options.count // 100, 200)
    few = max(options.rounds // 3, 1)
    figures = {
        "versions": versions(),
        "guarantees": QUEUES,
        "throughput": throughput(native, options.rounds, options.count),
        "latency": {
            "native, polling": native_latencies(native, few, slow, False),
            "native, asleep": native_latencies(native, few, slow, True),
            "Python threads": latencies("Python threads", few, python_latencies(slow)),
        },
        "limits": f"{os.cpu_count()} cores; a hand-over needs one for each thread that "
        "polls, and the wake-up of a sleeper is the kernel's",
    }
    write_figures("hand_over", options.out, figures)


if __name__ == "__main__":
    main()
