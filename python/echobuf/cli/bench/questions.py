"""Questions that a benchmark asks, the candidates that answer them; `echobuf bench`'s.

Those of the command need no package beside echobuf's own, but for two candidates which
need torch, and are left out without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Candidate:
    """One way to do the work of a question: a row of its table.

    `target` is `"module:Class"`, imported in the candidate's process; `worker.py` lists
    the methods of the class, which takes the settings. The interpreter `python` needs
    the packages that the target imports, and echobuf only if the target does.
    """

    name: str
    target: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # over the question's
    python: str | None = None  # None: the current one
    reference: str | None = None  # of the same group, if not the question's


@dataclass(frozen=True)
class Question:
    """Candidates that do the same work, in the order of the table.

    Settings are JSON values for all candidates. A round ends after the first chunk of
    work that reaches `limit_s` (2) seconds, or after `chunks` (1) of them. At most
    `resident` candidates are in memory at once. The reference is always one of them,
    and is measured again with each group.
    """

    name: str  # of the result file
    unit: str  # what is counted, such as "batch"
    candidates: tuple[Candidate, ...]
    reference: str  # name of the candidate that the others are compared with
    settings: Mapping[str, Any] = field(default_factory=dict)
    path: tuple[Path, ...] = ()  # of targets, besides installed packages
    resident: int | None = None
    timeout_s: float = 120.0  # after which a missing answer counts as a hang
    settle_s: float = 1.0  # longest wait for a candidate's threads to become idle
    about: str = ""  # one line for people

    def __post_init__(self) -> None:
        names = [candidate.name for candidate in self.candidates]
        if len(set(names)) < len(names):
            raise ValueError(f"two candidates have the same name: {names}")
        for name in {self.reference, *map(self.reference_of, self.candidates)}:
            if name not in names:
                raise ValueError(f"the reference {name!r} is not a candidate: {names}")

    def reference_of(self, candidate: Candidate) -> str:
        """Return the name of the candidate that this one is compared with."""
        return candidate.reference or self.reference

    def settings_of(self, candidate: Candidate) -> dict[str, Any]:
        """Return the settings of a candidate."""
        return {**self.settings, **candidate.settings}

    def groups(self) -> list[list[Candidate]]:
        """Return the groups to hold in memory together, each with the reference."""
        chosen = next(c for c in self.candidates if c.name == self.reference)
        others = [c for c in self.candidates if c is not chosen]
        size = max(1, len(others) if self.resident is None else self.resident - 1)
        starts = range(0, max(1, len(others)), size)
        return [[chosen, *others[start : start + size]] for start in starts]


_SAMPLING = "echobuf.cli.bench.sampling"
_ECHOING = "echobuf.cli.bench.echoing"
_PUTTING = "echobuf.cli.bench.putting"
_OUT = {"out": True}
_DRAWS = (
    Candidate("plain copy", f"{_SAMPLING}:Copy"),
    Candidate("echobuf", f"{_SAMPLING}:Draw"),
    Candidate("echobuf out=", f"{_SAMPLING}:Draw", _OUT),
    Candidate("numpy.take(out=)", f"{_SAMPLING}:Take"),
    Candidate("numpy.take, order given", f"{_SAMPLING}:Take", {"order_given": True}),
    Candidate("NumPy ring", f"{_SAMPLING}:Ring"),
)
_SMALL: dict[str, Any] = {
    "fields": {"x": [[32], "float32"], "y": [[], "int64"]},
    "key": "y",
    "records": 100_000,
    "batch": 256,
    "batches": 390,
    "chunks": 10,
}
_LIMIT = Candidate("bare copy limit", f"{_ECHOING}:Limit")
_ECHO_LOADER = Candidate("echobuf EchoLoader", f"{_ECHOING}:Loader")
_NUMPY_RING = Candidate("NumPy ring", f"{_ECHOING}:Ring")
# Window 4,096, batches of 128: `records` fresh examples, each served four times.
_STREAM: dict[str, Any] = {"batch": 128, "window": 4096, "factor": 4}

SMALL = Question(
    "small_batches",
    "batch",
    _DRAWS,
    reference="echobuf",
    settings=_SMALL,
    about="small records: time of a batch from Python",
)

ECHOING = Question(
    "echoing_end_to_end",
    "example",
    (
        _LIMIT,
        Candidate("echobuf, thread", f"{_ECHOING}:Threaded"),
        Candidate("echobuf, thread, out=", f"{_ECHOING}:Threaded", _OUT),
        Candidate("echobuf, same thread", f"{_ECHOING}:SameThread"),
        Candidate("echobuf, same thread, out=", f"{_ECHOING}:SameThread", _OUT),
        _ECHO_LOADER,
        _NUMPY_RING,
    ),
    reference="bare copy limit",
    settings={
        **_STREAM,
        "fields": {"image": [[64, 64, 3], "uint8"]},
        "key": "image",
        "records": 32_768,
    },
    resident=7,  # each holds upstream, 0.4 GB, and its own buffers
    timeout_s=300,
    about="example echoing of a stream, beside the bare copies",
)

EXAMPLES = Question(
    "examples",
    "example",
    (
        _LIMIT,
        _ECHO_LOADER,
        Candidate(
            "echobuf EchoLoader, prefetch=2", f"{_ECHOING}:Loader", {"prefetch": 2}
        ),
        Candidate("echobuf, same thread", f"{_ECHOING}:SameThread"),
        _NUMPY_RING,
    ),
    reference="bare copy limit",
    settings={
        **_STREAM,
        "fields": {"image": [[64, 64, 3], "uint8"], "label": [[], "int64"]},
        "key": "label",
        "records": 131_072,
        "source": 8192,
    },
    resident=8,
    timeout_s=300,
    about="examples one by one, as a generator yields them",
)

DATA_LOADER = Candidate("DataLoader", "echobuf.cli.bench.data_loader:Loader")

# The DataLoader has an eighth of the examples: each takes it several times as long.
LOADER = replace(
    EXAMPLES,
    name="loader",
    candidates=(
        _LIMIT,
        _ECHO_LOADER,
        _NUMPY_RING,
        replace(DATA_LOADER, settings={"records": 16_384}),
    ),
    about="a generator's examples through EchoLoader, and through a DataLoader",
)

PUTS = Question(
    "puts",
    "put",
    (
        Candidate("array and np.int64", f"{_PUTTING}:Arrays"),
        Candidate("tensor and int", f"{_PUTTING}:Tensors"),
    ),
    reference="array and np.int64",
    settings={"chunks": 40},
    about="put of float32[32] and a number, from NumPy and from torch",
)


def beside(quiet: Candidate) -> tuple[Candidate, Candidate]:
    """Return a candidate without a busy thread beside it, and with one."""
    settings = {**quiet.settings, "busy_thread": True}
    name = f"{quiet.name}, busy"
    busy = replace(quiet, name=name, settings=settings, reference=quiet.name)
    return quiet, busy


# A busy round takes a second, many times the 5 ms for which a thread may keep the GIL;
# each chunk is small, since a call may take those 5 ms.
_TAKE_FEW = {"order_given": True, "batches": 10}

BUSY = Question(
    "busy_thread",
    "batch",
    (
        *beside(_DRAWS[1]),
        *beside(_DRAWS[2]),
        *beside(Candidate("numpy.take(out=)", f"{_SAMPLING}:Take", _TAKE_FEW)),
    ),
    reference="echobuf",
    settings={**_SMALL, "chunks": 10_000, "limit_s": 1.0},
    about="what is left of the rate beside a busy Python thread",
)

IMAGES = Question(
    "image_batches",
    "batch",
    (Candidate("streaming copy", f"{_SAMPLING}:StreamingCopy"), *_DRAWS),
    reference="streaming copy",
    settings={
        "fields": {"image": [[224, 224, 3], "uint8"]},
        "key": "image",
        "records": 8192,
        "batch": 256,
        "batches": 16,
    },
    resident=4,  # each holds 1.2 GB twice: the source, and its own store
    timeout_s=300,
    about="large records: share of a streaming copy's speed (5 GB of memory)",
)

QUESTIONS = {
    "loader": LOADER,
    "puts": PUTS,
    "small": SMALL,
    "echoing": ECHOING,
    "examples": EXAMPLES,
    "busy": BUSY,
    "images": IMAGES,
}
FIRST = ("loader", "puts")  # what `echobuf bench` asks by itself
