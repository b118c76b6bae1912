"""What a server is doing, and its jobs."""

from __future__ import annotations

from dataclasses import dataclass

from echobuf.serve import address
from echobuf.serve.calls import ask


@dataclass(frozen=True)
class Job:
    """A job that is attached.

    Attributes:
        job: its name.
        process: its number.
        epoch: that it is in, or waits for.
        waiting: whether that has still to begin.
        rate: fresh examples a second.
        lag: fresh examples that the server has for it and it has not taken yet.
        held: fresh examples that are kept for it: its window, and the lag.
        silent_s: seconds since its last sign of life.
    """

    job: str
    process: int
    epoch: int
    waiting: bool
    rate: float
    lag: int
    held: int
    silent_s: float


@dataclass(frozen=True)
class Status:
    """A server.

    Attributes:
        name: of it.
        process: its number.
        version: of echobuf.
        spec: of one example.
        epoch: that it is in, or waits to begin.
        running: whether it is in one.
        published: fresh examples that it has served, in all epochs.
        rate: fresh examples a second.
        slots: fresh examples that it can keep.
        lease_s: seconds of silence after which a job is dropped.
        jobs: those attached.
    """

    name: str
    process: int
    version: str
    spec: str
    epoch: int
    running: bool
    published: int
    rate: float
    slots: int
    lease_s: float
    jobs: tuple[Job, ...]


def status(name: str) -> Status:
    """Asks a server, which takes half a second to measure rates.

    Raises:
        OptionError: there is no such server, or it has not answered within 5 seconds:
            it is stopped, or upstream has not yielded its first example yet.
        CapacityError: this process has no file descriptor left.
    """
    answer = ask(name, "status", {"jobs": list})
    try:
        jobs = tuple(Job(**job) for job in answer.pop("jobs"))
        return Status(**answer, jobs=jobs)
    except TypeError as error:
        raise address.stranger(name, error) from None


def names() -> list[str]:
    """The servers of this user on this machine."""
    return address.names()
