"""Memory and time of a large window: made, filled, given back.

Each case has a process of its own, one at a time. It notes the most resident memory
over what `stats()` says that the buffer takes; the time to make it, to fill it for the
first time, when the system hands out each page as it is written, and to fill it again;
the time to close it; and what is resident after that, while the buffer and three
batches are still referred to. `plain memory` is a NumPy array of as many bytes.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import echobuf
from echobuf.cli.bench.report import write_figures
from running import make_parser
from sampling import RESULTS

GOAL = 1.05  # resident memory over what `stats()` says
FACTOR, CHUNK, HELD = 4, 256, 3
PLAIN = "plain memory"

# Name: bytes of a record (on average), examples in a batch, whether it is ragged.
CASES = {
    "small records": (136, 256, False),
    "images": (150_528, 64, False),
    "images, EchoLoader": (150_528, 64, False),
    "sequences": (2048, 256, True),
}


@dataclass
class Window:
    """A window, by the calls that differ between a buffer and a loader."""

    fill: Callable[[], None]
    next_batch: Callable[[], Any]
    stats: Callable[[], echobuf.Stats]
    close: Callable[[], None]


class Chunks:
    """An upstream that yields the same batch for ever."""

    def __init__(self, chunk: Any) -> None:
        self._chunk = chunk

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(self._chunk)


def status(key: str) -> int:
    """Return a size in bytes that the system says of this process."""
    with open("/proc/self/status") as lines:
        line = next(line for line in lines if line.startswith(key))
    return 1024 * int(line.split()[1])


def timed(function: Callable[[], Any]) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def buffer_of(chunk: Any, spec: Any, options: dict[str, Any]) -> Window:
    """Make a buffer of examples as in a chunk of them."""
    buffer = echobuf.EchoBuffer(spec, **options)

    def fill() -> None:
        buffer.reset()
        try:
            while True:
                buffer.put_batch(chunk, timeout=0)
        except TimeoutError:  # it is full
            pass

    return Window(fill, buffer.next_batch, buffer.stats, buffer.__exit__)


def loader_of(chunk: Any, options: dict[str, Any]) -> Window:
    """Make a loader of such examples, whose thread fills the window."""
    loader = echobuf.EchoLoader(Chunks(chunk), batched=True, **options)
    held = options["window"] * (FACTOR + 1) // FACTOR
    epoch: Iterator[Any] = iter(())

    def fill() -> None:
        nonlocal epoch
        epoch = iter(loader)
        while loader.stats().fresh < held:
            time.sleep(1e-3)

    return Window(fill, lambda: next(epoch), loader.stats, loader.close)


def make(case: str, wanted: int) -> Callable[[], Window]:
    """Return what makes a window that takes so many bytes, with its segment."""
    size, batch_size, is_ragged = CASES[case]
    window = int(wanted / size / (FACTOR + 1)) // batch_size * batch_size * FACTOR
    options: dict[str, Any] = {
        "batch_size": batch_size,
        "window": window,
        "factor": FACTOR,
    }
    if is_ragged:
        lengths = np.random.default_rng(0).integers(size // 2, 3 * size // 2, CHUNK)
        offsets = np.concatenate(([0], lengths.cumsum()))
        ragged = echobuf.Ragged(np.ones(offsets[-1], np.uint8), offsets)
        spec = echobuf.Field((None,), np.uint8)
        options["payload_bytes"] = window * size
        return lambda: buffer_of(ragged, spec, options)
    chunk = np.ones((CHUNK, size), np.uint8)
    if "EchoLoader" in case:
        return lambda: loader_of(chunk, options)
    return lambda: buffer_of(chunk, echobuf.Field((size,), np.uint8), options)


def run(case: str, wanted: int) -> dict[str, float]:
    """Measure a window of that many bytes, in this process."""
    maker = make(case, wanted)
    before = status("VmRSS")
    begun = time.perf_counter()
    window = maker()
    row = {"make_s": time.perf_counter() - begun}
    row["first_fill_s"], row["second_fill_s"] = timed(window.fill), timed(window.fill)
    for _ in range(20):
        window.next_batch()
    row["said_bytes"] = window.stats().bytes_host
    row["peak_bytes"] = status("VmHWM") - before
    row["peak_over_said"] = row["peak_bytes"] / row["said_bytes"]
    held = [window.next_batch() for _ in range(HELD)]
    row["held_bytes"] = HELD * sum(map(_bytes_of, _arrays(held[0])))
    row["close_s"] = timed(window.close)
    row["left_bytes"] = status("VmRSS") - before
    return row


def _arrays(batch: Any) -> list[Any]:
    is_ragged = isinstance(batch, echobuf.Ragged)
    return [batch.values, batch.offsets] if is_ragged else [batch]


def _bytes_of(array: Any) -> int:
    return int(array.nbytes)


def run_plain(wanted: int) -> dict[str, float]:
    """Measure an array of that many bytes."""
    begun = time.perf_counter()
    arrays = [np.empty(wanted, np.uint8)]
    row = {"make_s": time.perf_counter() - begun}
    chunk = np.ones(CHUNK * 136, np.uint8)

    def fill() -> None:
        for first in range(0, wanted - len(chunk), len(chunk)):
            arrays[0][first : first + len(chunk)] = chunk

    row["first_fill_s"], row["second_fill_s"] = timed(fill), timed(fill)
    row["close_s"] = timed(arrays.clear)
    return row


def show(case: str, row: dict[str, float]) -> None:
    """Print a line of the table."""
    line = (
        f"{case:>20}: made in {1e3 * row['make_s']:.1f} ms, filled in "
        f"{row['first_fill_s']:.2f} s and again in {row['second_fill_s']:.2f} s, "
        f"closed in {1e3 * row['close_s']:.0f} ms"
    )
    if "said_bytes" in row:
        line += (
            f"; peak {row['peak_bytes'] / 1e9:.3f} GB, {row['peak_over_said']:.3f} of "
            f"what it says; left {row['left_bytes'] / 1e6:.1f} MB, of which "
            f"{row['held_bytes'] / 1e6:.1f} MB are three batches"
        )
    print(line, flush=True)


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.add_argument("--gb", type=float, default=10.0, help="of a window (10)")
    parser.add_argument("--case", choices=[PLAIN, *CASES], help="one alone, here")
    chosen = parser.parse_args()
    wanted = int(chosen.gb * 1e9)
    if chosen.case:
        row = run_plain(wanted) if chosen.case == PLAIN else run(chosen.case, wanted)
        print(json.dumps(row))
        return
    results = {}
    for case in (PLAIN, *CASES):
        done = subprocess.run(
            [sys.executable, __file__, "--gb", str(chosen.gb), "--case", case],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        results[case] = json.loads(done.stdout)
        show(case, results[case])
    content = {"goal": GOAL, "wanted_bytes": wanted, "results": results}
    write_figures("window_memory", chosen.out, content)


if __name__ == "__main__":
    main()
