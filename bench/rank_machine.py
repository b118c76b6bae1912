"""Ranks as threads: where their examples come from, and what that takes.

Storage and the network are shared: who reads at the same time shares the rate. Ranks
prepare and train on their own. All of it only waits.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass

import numpy as np

from echobuf.analysis.cost_model import Costs
from pacing import PacedWork

SEED = 11
AHEAD = 4  # batches that a rank may be ahead of the others
MODES = ("stages in step", "batches in step", "ahead")


@dataclass(frozen=True)
class Job:
    """Way of loading an epoch.

    Attributes:
        way: "no cache", "partitioned" or "locality-aware".
        share: of the examples, that the caches hold together.
        ranks: how many.
        local_batch: examples that each takes in a step.
        steps: in the epoch.
    """

    way: str
    share: float
    ranks: int
    local_batch: int
    steps: int

    @property
    def examples(self) -> int:
        return self.ranks * self.local_batch * self.steps


def sources(job: Job) -> np.ndarray:
    """Count examples from storage and peers, [step, rank, 2], of a random epoch."""
    chance = np.random.default_rng(SEED)
    examples = np.arange(job.examples)
    kept = round(job.share * job.examples)
    holders = np.where(examples < kept, examples % job.ranks, -1)
    batches = chance.permutation(holders).reshape(job.steps, -1)
    count = _in_step if job.way == "locality-aware" else _in_slices
    return np.array([count(batch, job) for batch in batches])


def _in_slices(holders: np.ndarray, job: Job) -> list[tuple[int, int]]:
    """Load by slices of the batch, from whichever cache holds them."""
    slices = holders.reshape(job.ranks, -1)
    return [
        (int((part < 0).sum()), int(((part >= 0) & (part != rank)).sum()))
        for rank, part in enumerate(slices)
    ]


def _in_step(holders: np.ndarray, job: Job) -> list[tuple[int, int]]:
    """Load from the rank's own cache first, then from storage, then the surplus."""
    short = [
        job.local_batch - int((holders == rank).sum()) for rank in range(job.ranks)
    ]
    moved = sum(max(0, -each) for each in short)
    rows = []
    for each in short:
        fetched = min(max(0, each), moved)
        moved -= fetched
        rows.append((max(0, each) - fetched, fetched))
    return rows


class Shared:
    """Hands out examples at a rate that all who ask at the same time share.

    Who woke up late was served for longer, and asks for so much less the next time.
    """

    def __init__(self, example_s: float, users: int) -> None:
        self._example_s = example_s
        self._changed = threading.Condition()
        self._active = 0
        self._each = 0.0  # examples that each who is active was given
        self._at = time.perf_counter()
        self._credit = [0.0] * users

    def fetch(self, user: int, count: int) -> None:
        """Wait until `count` examples have arrived."""
        with self._changed:
            self._advance()
            goal = self._each + count - self._credit[user]
            self._credit[user] = 0.0
            if goal <= self._each:
                self._credit[user] = self._each - goal
                return
            self._active += 1
            self._changed.notify_all()
            while self._each < goal:
                left_s = (goal - self._each) * self._active * self._example_s
                self._changed.wait(left_s)
                self._advance()
            self._credit[user] = self._each - goal
            self._active -= 1
            self._changed.notify_all()

    def _advance(self) -> None:
        now = time.perf_counter()
        if self._active:
            self._each += (now - self._at) / (self._active * self._example_s)
        self._at = now


class Machine:
    """Runs one epoch.

    Args:
        job: what is loaded.
        costs: what it takes.
        mode: "stages in step": none fetches from peers before all have read from
            storage, nor begins a batch before all have prepared the last one;
            "batches in step": the second only; "ahead": neither.
    """

    def __init__(self, job: Job, costs: Costs, mode: str) -> None:
        self._job = job
        self._costs = costs
        self._plan = sources(job)
        self._storage = Shared(costs.storage_s, job.ranks)
        self._peers = Shared(costs.peer_s, job.ranks)
        self._read, self._prepared = (
            threading.Barrier(job.ranks if together else 1)
            for together in (mode == MODES[0], mode != MODES[2])
        )
        self._trained = threading.Barrier(job.ranks)
        self._room = 1 if mode != MODES[2] else AHEAD
        self._first_s = self._last_s = 0.0  # of rank 0, a batch loaded, and trained on

    def run(self) -> float:
        """Return the seconds of an epoch, less those of its first batch."""
        threads = []
        for rank in range(self._job.ranks):
            batches: queue.Queue[int] = queue.Queue(self._room)
            threads += [
                threading.Thread(target=self._load, args=(rank, batches)),
                threading.Thread(target=self._train, args=(rank, batches)),
            ]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        step_s = self._job.local_batch * self._costs.step_s
        return self._last_s - start - min(self._first_s - start, step_s)

    def _load(self, rank: int, batches: queue.Queue[int]) -> None:
        pace, prepare_s = PacedWork(), self._job.local_batch * self._costs.prepare_s
        for step, (stored, held) in enumerate(self._plan[:, rank]):
            self._storage.fetch(rank, int(stored))
            self._read.wait()
            self._peers.fetch(rank, int(held))
            pace.work(prepare_s)
            self._prepared.wait()
            batches.put(step)

    def _train(self, rank: int, batches: queue.Queue[int]) -> None:
        pace, step_s = PacedWork(), self._job.local_batch * self._costs.step_s
        for step in range(self._job.steps):
            batches.get()
            if rank == 0 and step == 0:
                self._first_s = time.perf_counter()
            pace.work(step_s)
            self._trained.wait()
        if rank == 0:
            self._last_s = time.perf_counter()
