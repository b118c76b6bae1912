"""Questions that a benchmark asks, and those that need no peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = [
    "QUESTIONS",
    "Candidate",
    "Question",
    "beside",
    "busy_thread",
    "echoing",
    "examples",
    "images",
    "small",
]


@dataclass(frozen=True)
class Candidate:
    """One way to do the work of a question, run in a separate process.

    Args:
        name: name in the table.
        target: `"module:Class"`, imported in the candidate's process. The class takes
            the settings; `worker.py` lists its methods.
        settings: JSON values that override the question's settings.
        python: the interpreter; the current one by default. It needs the packages that
            the target imports, and echobuf only if the target does.
        reference: name of the candidate to compare with, if not the question's. Both
            are measured in the same group.
    """

    name: str
    target: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    python: str | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Question:
    """Candidates that do the same work.

    Args:
        name: of the result file.
        unit: what is counted, such as `"batch"`.
        candidates: in the order of the table.
        reference: name of the candidate that the others are compared with.
        settings: JSON values for all candidates. A round ends after the first chunk of
            work that reaches `limit_s` (2) seconds, or after `chunks` (1) of them.
        path: folders to search for targets, besides installed packages.
        resident: largest number of candidates in memory at once. The reference is
            always one of them, and is measured again with each group.
        timeout_s: seconds after which a missing answer counts as a hang.
        settle_s: longest wait, after a candidate's turn, for its threads and processes
            to become idle.
    """

    name: str
    unit: str
    candidates: tuple[Candidate, ...]
    reference: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[Path, ...] = ()
    resident: int | None = None
    timeout_s: float = 120.0
    settle_s: float = 1.0

    def __post_init__(self) -> None:
        names = [candidate.name for candidate in self.candidates]
        if len(set(names)) < len(names):
            raise ValueError(f"two candidates have the same name: {names}")
        for name in [self.reference, *self._own_references()]:
            if name not in names:
                raise ValueError(f"the reference {name!r} is not a candidate: {names}")

    def _own_references(self) -> list[str]:
        return [c.reference for c in self.candidates if c.reference is not None]

    def reference_of(self, candidate: Candidate) -> str:
        """Return name of the candidate that this one is compared with."""
        return candidate.reference or self.reference

    def groups(self) -> list[list[Candidate]]:
        """Return the groups to hold in memory together, each with the reference."""
        chosen = next(c for c in self.candidates if c.name == self.reference)
        others = [c for c in self.candidates if c is not chosen]
        size = len(others) if self.resident is None else max(1, self.resident - 1)
        size = max(1, size)
        starts = range(0, max(1, len(others)), size)
        return [[chosen, *others[start : start + size]] for start in starts]


_CANDIDATES = "echobuf.cli.bench.candidates"
_NUMPY = f"{_CANDIDATES}.numpy_only"
_BUFFERS = f"{_CANDIDATES}.buffers"
_OUT = {"out": True}
_DRAWS = (
    Candidate("plain copy", f"{_NUMPY}:Copy"),
    Candidate("echobuf", f"{_BUFFERS}:Draw"),
    Candidate("echobuf out=", f"{_BUFFERS}:Draw", _OUT),
    Candidate("numpy.take(out=)", f"{_NUMPY}:Take"),
    Candidate(
        "numpy.take, order given",
        f"{_NUMPY}:Take",
        {"order_given": True},
    ),
    Candidate("NumPy ring", f"{_NUMPY}:RingSample"),
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
    """Ask for batches of 256 images 224x224x3 uint8, drawn from 8,192 (1.2 GB)."""
    return Question(
        "image_batches",
        "batch",
        (
            Candidate("streaming copy", f"{_NUMPY}:StreamingCopy"),
            *_DRAWS,
        ),
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
    """Ask for batches of 256 records of 136 bytes, drawn from 100,000."""
    info = {"with_info": True}
    draws = (
        *_DRAWS,
        Candidate("echobuf with_info", f"{_BUFFERS}:Draw", info),
        Candidate(
            "echobuf out= with_info",
            f"{_BUFFERS}:Draw",
            {**_OUT, **info},
            reference="echobuf out=",
        ),
    )
    return Question(
        "small_batches", "batch", draws, reference="echobuf", settings=_SMALL
    )


def echoing() -> Question:
    """Ask for example echoing of uint8 64x64x3, e = 4, window 4,096, batches of 128."""
    return Question(
        "echoing_end_to_end",
        "example",
        (
            Candidate("bare copy limit", f"{_NUMPY}:EchoCopies"),
            Candidate("echobuf, thread", f"{_BUFFERS}:Threaded"),
            Candidate("echobuf, thread, out=", f"{_BUFFERS}:Threaded", _OUT),
            Candidate("echobuf, same thread", f"{_BUFFERS}:SameThread"),
            Candidate("echobuf, same thread, out=", f"{_BUFFERS}:SameThread", _OUT),
            Candidate("echobuf EchoLoader", f"{_BUFFERS}:Loader"),
            Candidate("NumPy ring", f"{_NUMPY}:RingEcho"),
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
    """Ask for echoing of a generator of (uint8 64x64x3, int): e = 4, window 4,096."""
    return Question(
        "examples",
        "example",
        (
            Candidate("bare copy limit", f"{_CANDIDATES}.examples:Limit"),
            Candidate("echobuf EchoLoader", f"{_CANDIDATES}.examples:Loader"),
            Candidate(
                "echobuf EchoLoader, prefetch=2",
                f"{_CANDIDATES}.examples:Loader",
                {"prefetch": 2},
            ),
            Candidate("echobuf, same thread", f"{_CANDIDATES}.examples:SameThread"),
            Candidate("NumPy ring", f"{_CANDIDATES}.examples:NumpyRing"),
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


# A busy round takes a second, many times the 5 ms for which a thread may keep the GIL;
# each chunk is small, since a call may take those 5 ms.
_FEW = {"batches": 10}


def beside(quiet: Candidate) -> tuple[Candidate, Candidate]:
    """Return a candidate without a busy thread beside it, and with one."""
    settings = {**quiet.settings, "busy_thread": True}
    name = f"{quiet.name}, busy"
    busy = replace(quiet, name=name, settings=settings, reference=quiet.name)
    return quiet, busy


def busy_thread() -> Question:
    """Ask for small batches, all ready, beside a busy pure-Python thread."""
    given = {"order_given": True, **_FEW}
    take = Candidate("numpy.take(out=)", f"{_NUMPY}:Take", given)
    return Question(
        "busy_thread",
        "batch",
        tuple(c for q in (_DRAWS[1], _DRAWS[2], take) for c in beside(q)),
        reference="echobuf",
        settings={**_SMALL, "chunks": 10_000, "limit_s": 1.0},
    )


# Name on the command line to the question and its description.
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
