"""Memory of windows of ragged examples, over the bytes of the examples in them."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import echobuf

GOAL = 1.1
PAYLOAD = 64_000_000
MEAN, LONGEST = 512, 8192  # tokens of 4 bytes
LAPS = 4
BATCH = 256

# Name: factor, `max_length`, `payload_bytes` over the mean bytes of as many examples as
# the window has.
CASES: dict[str, tuple[Any, int | None, float]] = {
    "factor 1": (1, None, 1.0),
    "factor 2": (2, None, 1.0),
    "factor 2, max_length": (2, LONGEST, 1.0),
    "factor 2, half as much again": (2, None, 1.5),
    "factor 2.5": (2.5, None, 1.0),
    "factor 4": (4, None, 1.0),
    "factor 8": (8, None, 1.0),
    "factor 8, max_length": (8, LONGEST, 1.0),
    "auto": ("auto", None, 1.0),
}


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(case: str, payload: int) -> dict[str, float]:
    """Put examples until a buffer is full, again and again; measure its last state.

    It is full when a put has to wait; it holds the window and a segment more then.
    """
    factor, max_length, room = CASES[case]
    window = int(payload / room) // (4 * MEAN) // 16 * 16
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(np.log(MEAN) - 0.5, 1.0, 1 << 14).astype(int)
    lengths = lengths.clip(1, LONGEST)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    values = np.zeros(offsets[-1], np.int32)
    before = resident_bytes()
    buffer = echobuf.EchoBuffer(
        echobuf.Field((None,), np.int32, max_length=max_length),
        batch_size=BATCH,
        window=window,
        factor=factor,
        payload_bytes=payload,
    )
    put, put_bytes, freed = 0, 0, 0
    sizes: list[int] = []  # of all that were put
    while freed < LAPS * window:
        try:
            while True:
                index = put % len(lengths)
                buffer.put(values[offsets[index] : offsets[index + 1]], timeout=0)
                sizes.append(4 * int(lengths[index]))
                put, put_bytes = put + 1, put_bytes + sizes[-1]
        except TimeoutError:
            pass
        state = buffer.state_dict()
        freed = state["fresh_offset"]
        if freed < LAPS * window:
            buffer.next_batch()
    while True:  # to the end of what fits, with no batch begun
        try:
            index = put % len(lengths)
            buffer.put(values[offsets[index] : offsets[index + 1]], timeout=0)
            sizes.append(4 * int(lengths[index]))
            put += 1
        except TimeoutError:
            break
    used = resident_bytes() - before
    useful = sum(sizes[freed:])
    taken = buffer.stats().bytes_host
    return {
        "window": window,
        "held_examples": put - freed,
        "useful_bytes": useful,
        "bytes_host": taken,
        "resident_bytes": used,
        "bytes_host_over_useful": taken / useful,
        "resident_over_useful": used / useful,
    }


def memories(payload: int = PAYLOAD) -> dict[str, Any]:
    """Measure all cases, each in a process of its own."""
    results = {}
    for case in CASES:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            results[case] = process.submit(run, case, payload).result()
    return {"goal": GOAL, "payload_bytes": payload, "results": results}


def print_memories(found: dict[str, Any]) -> None:
    """Print a line for each case."""
    print("\nmemory of a full buffer over the bytes of the examples in it")
    for name, row in found["results"].items():
        said, useful = row["bytes_host"] / 1e6, row["useful_bytes"] / 1e6
        print(
            f"{name:>32}: {said:6.1f} MB for {useful:6.1f} MB: "
            f"{row['bytes_host_over_useful']:.3f}; "
            f"resident {row['resident_bytes'] / 1e6:6.1f} MB: "
            f"{row['resident_over_useful']:.3f}"
        )
