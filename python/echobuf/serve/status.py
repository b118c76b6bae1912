"""The state of a server, which it sends to those who ask."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """A job that is attached to a server.

    Attributes:
        job: name of the job.
        process: number of its process.
        epoch: number of the epoch that it is in, or waits for.
        waiting: True if that epoch has not begun yet.
        rate: fresh examples a second that it takes.
        lag: fresh examples that the server has and the job has not taken yet.
        held: fresh examples kept for the job: its window, and the lag.
        silent_s: seconds since its last heartbeat.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6, jobs=2):
        ...     upstream = echobuf.serve.attach("numbers", job="first")
        ...     (job,) = echobuf.serve.status("numbers").jobs
        ...     upstream.close()
        >>> job.job, job.epoch, job.waiting
        ('first', 0, True)
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
    """The state of a server, as `status` returns it.

    Attributes:
        name: of the server.
        process: number of its process.
        version: of echobuf.
        spec: of one example, as text.
        epoch: number of the epoch that it is in, or will begin.
        running: True if it is in an epoch.
        published: fresh examples that it has served, in all epochs.
        rate: fresh examples a second that it serves.
        slots: fresh examples that it can keep.
        lease_s: seconds without a heartbeat after which a job is dropped.
        jobs: the attached jobs.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6):
        ...     status = echobuf.serve.status("numbers")
        >>> status.spec, status.published, status.lease_s
        ('int64[]', 0, 10.0)
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
