"""The questions that need no peers; the scripts in `bench/` add those."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from echobuf.cli.bench.question import Candidate, Question

__all__ = [
    "QUESTIONS",
    "beside",
    "busy_thread",
    "echoing",
    "examples",
    "images",
    "small",
]

_HERE = "echobuf.cli.bench.candidates"
_OUT = {"out": True}
_DRAWS = (
    Candidate("plain copy", f"{_HERE}.plain:Copy"),
    Candidate("echobuf", f"{_HERE}.draw:Draw"),
    Candidate("echobuf out=", f"{_HERE}.draw:Draw", _OUT),
    Candidate("numpy.take(out=)", f"{_HERE}.plain:Take"),
    Candidate("numpy.take, order given", f"{_HERE}.plain:Take", {"order_given": True}),
    Candidate("NumPy ring", f"{_HERE}.numpy_ring:Sample"),
)
_SMALL: dict[str, Any] = {
    "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
    "key": "y",
    "records": 100_000,
    "batch": 256,
    "batches": 390,
    "chunks": 10,
}


def images() -> Question:
    """Batches of 256 images 224x224x3 uint8, drawn from 8,192 (1.2 GB)."""
    return Question(
        "image_batches",
        "batch",
        (Candidate("streaming copy", f"{_HERE}.plain:StreamingCopy"), *_DRAWS),
        reference="streaming copy",
        settings={
            "fields": {"image": [[224, 224, 3], "uint8"]},
            "key": "image",
            "records": 8192,
            "batch": 256,
            "batches": 16,
            "chunks": 1,
        },
        resident=4,  # each holds 1.2 GB twice: the source, and its own store
        timeout_s=300,
    )


def small() -> Question:
    """Batches of 256 records of 136 bytes, drawn from 100,000."""
    return Question(
        "small_batches", "batch", _DRAWS, reference="echobuf", settings=_SMALL
    )


def echoing() -> Question:
    """Example echoing of uint8 64x64x3, e = 4, window 4,096, batches of 128."""
    return Question(
        "echoing_end_to_end",
        "example",
        (
            Candidate("bare copy limit", f"{_HERE}.copy_limit:Echo"),
            Candidate("echobuf, thread", f"{_HERE}.echo:Threaded"),
            Candidate("echobuf, thread, out=", f"{_HERE}.echo:Threaded", _OUT),
            Candidate("echobuf, same thread", f"{_HERE}.echo:SameThread"),
            Candidate("echobuf, same thread, out=", f"{_HERE}.echo:SameThread", _OUT),
            Candidate("echobuf EchoLoader", f"{_HERE}.echo:Loader"),
            Candidate("NumPy ring", f"{_HERE}.numpy_ring:Echo"),
        ),
        reference="bare copy limit",
        settings={
            "fields": {"image": [[64, 64, 3], "uint8"]},
            "key": "image",
            "records": 32_768,
            "batch": 128,
            "window": 4096,
            "factor": 4,
        },
        resident=7,  # each holds upstream, 0.4 GB, and its own buffers
        timeout_s=300,
    )


def examples() -> Question:
    """Echoing of a generator of (uint8 64x64x3, int): e = 4, window 4,096."""
    return Question(
        "examples",
        "example",
        (
            Candidate("bare copy limit", f"{_HERE}.examples:Limit"),
            Candidate("echobuf EchoLoader", f"{_HERE}.examples:Loader"),
            Candidate(
                "echobuf EchoLoader, prefetch=2",
                f"{_HERE}.examples:Loader",
                {"prefetch": 2},
            ),
            Candidate("echobuf, same thread", f"{_HERE}.examples:SameThread"),
            Candidate("NumPy ring", f"{_HERE}.examples:NumpyRing"),
        ),
        reference="bare copy limit",
        settings={
            "fields": {"image": [[64, 64, 3], "uint8"], "label": [[], "int64"]},
            "key": "label",
            "records": 131_072,
            "source": 8192,
            "batch": 128,
            "window": 4096,
            "factor": 4,
        },
        resident=8,
        timeout_s=300,
    )


# A busy round lasts for a second, many times the 5 ms for which a thread may keep the
# GIL; little work at a time, since a call may take those 5 ms.
_FEW = {"batches": 10}


def beside(quiet: Candidate) -> tuple[Candidate, Candidate]:
    """A candidate without a busy thread beside it, and with one."""
    settings = {**quiet.settings, "busy_thread": True}
    name = f"{quiet.name}, busy"
    busy = replace(quiet, name=name, settings=settings, reference=quiet.name)
    return quiet, busy


def busy_thread() -> Question:
    """Small batches, all ready, with a busy pure-Python thread beside."""
    given = {"order_given": True, **_FEW}
    take = Candidate("numpy.take(out=)", f"{_HERE}.plain:Take", given)
    return Question(
        "busy_thread",
        "batch",
        tuple(c for q in (_DRAWS[1], _DRAWS[2], take) for c in beside(q)),
        reference="echobuf",
        settings={**_SMALL, "chunks": 10_000, "limit_s": 1.0},
    )


# Name on the command line: the question, and what it asks in a few words.
QUESTIONS = {
    "small": (small, "small records: time of a batch from Python"),
    "echoing": (echoing, "example echoing of a stream, beside the bare copies"),
    "examples": (examples, "examples one by one, as a generator yields them"),
    "busy": (busy_thread, "what is left of the rate beside a busy Python thread"),
    "images": (
        images,
        "large records: share of a streaming copy's speed (5 GB of memory)",
    ),
}
