"""Questions about a GPU: candidates in one process, interleaved rounds, medians.

All candidates are in one process, as they are on one device in a training script, and
because starting CUDA takes seconds. A candidate that fails is reported with the reason,
and the others go on. An illegal access ends the device for all candidates of the
process: each fails, and the rounds before are kept.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from place import Place

Settings = dict[str, Any]


class Work(Protocol):
    """A candidate that is ready.

    It may also have `begin()`, untimed before each run; `check()`, once, which fails
    unless it does what it claims; `close()`; and `facts()`, for the result file.
    """

    def run(self) -> int:
        """Do the work, and return the number of units."""


@dataclass(frozen=True)
class Candidate:
    """One way to do the work.

    Args:
        name: as the table shows it.
        make: makes it ready, from the place and the settings; imports what it needs.
        settings: laid over the question's.
        peer: needs what the simulated driver does not have.
        clock: see `Place.timed`; the question's unless told.
        reference: name of the candidate it is compared with; the question's unless
            told.
    """

    name: str
    make: Callable[[Place, Settings], Work]
    settings: Settings = field(default_factory=dict)
    peer: bool = False
    clock: str | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Question:
    """Candidates that do the same work.

    Args:
        name: of the result file.
        aim: what is to be reached.
        unit: what is counted.
        reference: name of the candidate that the others are compared with.
        candidates: in the order of the table.
        clock: see `Place.timed`.
        settings: given to every candidate.
        tiny: laid over them on the simulated driver.
        rounds: how many count, if `limit_s` allows.
        limit_s: no round begins after that time, once there are three.
    """

    name: str
    aim: str
    unit: str
    reference: str
    candidates: tuple[Candidate, ...]
    clock: str
    settings: Settings
    tiny: Settings
    rounds: int = 15
    limit_s: float = 20.0


def scaled(settings: Settings, divisor: int, **others: Any) -> Settings:
    """Return tiny settings: records, and records in a batch, by one divisor.

    So a pass has about as many batches, and a round draws as many of them: sizes that
    do not fit each other fail here, too.
    """
    return {name: settings[name] // divisor for name in ("records", "batch")} | others


@dataclass
class Answer:
    """Figures of a candidate: seconds for one unit, by round; or the reason for none.

    Attributes:
        reference: name of the candidate that it is compared with.
    """

    candidate: Candidate
    clock: str
    reference: str
    rounds_s: list[float] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    failed: str | None = None


def ask(
    question: Question, place: Place, rounds: int | None = None
) -> dict[str, Answer]:
    """Measure all candidates of a question.

    Returns:
        The answer of each candidate, by its name.
    """
    settings = {**question.settings, **(question.tiny if place.simulated else {})}
    answers, works = {}, {}
    for candidate in question.candidates:
        if candidate.peer and place.simulated:
            continue
        answer = Answer(
            candidate,
            candidate.clock or question.clock,
            candidate.reference or question.reference,
        )
        answers[candidate.name] = answer
        work = _guarded(answer, lambda c=candidate: _ready(c, place, settings))
        if work is not None:
            works[candidate.name] = work
    try:
        _measure(question, place, answers, works, rounds or question.rounds)
    finally:
        gc.unfreeze()
        for name, work in works.items():
            _guarded(answers[name], getattr(work, "close", _nothing))
        _forget(place, answers.values())
    return answers


def _nothing() -> None:
    pass


def _forget(place: Place, answers: Iterable[Answer]) -> None:
    """Give the device's memory back; if that fails, all answers are in doubt."""
    try:
        place.forget()
    except Exception as error:
        for answer in answers:
            _fail(answer, error)


def _ready(candidate: Candidate, place: Place, settings: Settings) -> Work:
    work = candidate.make(place, {**settings, **candidate.settings})
    getattr(work, "check", _nothing)()
    return work


def _guarded(answer: Answer, do: Callable[[], Any]) -> Any:
    """Call `do` and return its result; on failure keep the reason and return None."""
    try:
        return do()
    except Exception as error:
        _fail(answer, error)
        return None


def _fail(answer: Answer, error: Exception) -> None:
    """Keep the reason; the first failure is the cause of those after it."""
    traceback.print_exception(error)
    reason = " ".join(str(error).split())
    answer.failed = answer.failed or f"{type(error).__name__}: {reason}"[:500]


def _measure(
    question: Question,
    place: Place,
    answers: dict[str, Answer],
    works: dict[str, Work],
    rounds: int,
) -> None:
    names = list(works)
    gc.collect()
    gc.freeze()  # so that a collection before each run takes no time
    due = time.monotonic() + question.limit_s
    for index in range(-1, rounds):  # the first one warms up
        if index >= min(3, rounds) and time.monotonic() > due:
            break
        shift = index % len(names) if names else 0
        for name in names[shift:] + names[:shift]:
            answer = answers[name]
            if answer.failed is None:
                seconds = _guarded(
                    answer, lambda n=name: _round(place, n, works, answers)
                )
                if seconds is not None and index >= 0:
                    answer.rounds_s.append(seconds)
    for name, work in works.items():
        facts = getattr(work, "facts", dict)
        answers[name].facts = _guarded(answers[name], facts) or {}


def _round(
    place: Place, name: str, works: dict[str, Work], answers: dict[str, Answer]
) -> float:
    work = works[name]
    getattr(work, "begin", _nothing)()
    gc.collect()
    gc.disable()
    try:
        seconds, units = place.timed(answers[name].clock, work.run)
    finally:
        gc.enable()
    return seconds / units
