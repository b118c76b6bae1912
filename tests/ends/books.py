"""Examples that follow from their index, the upstreams that make them, and the books.

In a module of its own: worker processes import it.
"""

from __future__ import annotations

import json
import math
import os
import resource
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from plans import RUNS, STRIDE

CAUSE = "the disk is gone"


class OddError(Exception):
    """An error that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__


class UnpicklableError(Exception):
    """An error that holds a lock, and takes two arguments."""

    def __init__(self, text: str, lock: Any) -> None:
        super().__init__(text)
        self.lock = lock


def raise_as(end: str) -> None:
    """Raise what the end of that name raises."""
    if end == "odd_surrogates":
        raise OSError(f"{CAUSE} \udcff\ud800 \x00\n\x1b[31m")
    if end == "odd_long":
        raise ValueError(f"{CAUSE} " + "\u00e9\u4e16\U0001f600" * 700)
    if end == "odd_repr":
        raise OddError
    if end == "odd_unpicklable":
        raise UnpicklableError(CAUSE, threading.Lock())
    raise OSError(CAUSE)


def say(**what: Any) -> None:
    """Write one line for the driver, whichever process and thread this is."""
    os.write(1, (json.dumps(what) + "\n").encode())


def content(indices: np.ndarray, words: int) -> dict[str, np.ndarray]:
    """Return the examples of these indices, stacked; no record of them is zero."""
    index = np.asarray(indices, np.int64).reshape(-1)
    x = (index[:, None] * 7919 + np.arange(words) + 1).astype(np.int32)
    y = np.broadcast_to((index % 251 + 1)[:, None, None], (len(index), 3, 2))
    return {"id": index, "x": x, "y": y.astype(np.uint8)}


class Data:
    """A map-style dataset, at one example of which something happens."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.armed = True

    def __len__(self) -> int:
        return RUNS * STRIDE

    def __getitem__(self, index: int) -> dict[str, Any]:
        if self.plan["pace_s"]:
            time.sleep(self.plan["pace_s"])
        self.trouble(*divmod(int(index), STRIDE))
        stacked = content(np.array([index]), self.plan["words"])
        return {name: leaf[0] for name, leaf in stacked.items()}

    def trouble(self, run: int, at: int) -> None:
        """Do what the end says, if this is the place."""
        plan = self.plan
        if plan["end"] == "disk" and plan["setting"] == "workers" and at == 10:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        if plan["trouble"] != [run, at] or not self.armed:
            return
        if plan["end"] != "hangs":
            raise_as(plan["end"])
        say(at="hangs", pid=os.getpid())
        end = time.monotonic() + (0.5 if plan["leave"] == "resolves" else 1e6)
        while time.monotonic() < end:
            time.sleep(0.01)


class Sampler:
    """The indices of a run; each is iterated once."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.run = -1

    def __iter__(self) -> Iterator[int]:
        self.run += 1
        run = self.run % RUNS
        self.data.trouble(run, -1)
        start = run * STRIDE
        return iter(range(start, start + self.data.plan["lengths"][run]))


class Examples(Sampler):
    """The same, with the examples."""

    def __iter__(self) -> Iterator[Any]:
        return map(self.data.__getitem__, super().__iter__())


class _Numbered:
    """A server says which epoch it is, so that another server goes on in it."""

    run: int

    def set_epoch(self, epoch: int) -> None:
        self.run = epoch - 1


class ServedSampler(_Numbered, Sampler):
    """A sampler for a server."""


class ServedExamples(_Numbered, Examples):
    """Examples for a server."""


def bounds_of(factor: Any) -> tuple[int, int]:
    """Return how often a fresh example is served at least and at most."""
    if factor == "auto":
        return 1, 8
    return math.floor(factor), math.ceil(factor)


class Books:
    """The examples that an epoch has served so far.

    Args:
        plan: of the cell.
        lengths: how many examples each run of upstream has.
    """

    def __init__(self, plan: dict[str, Any], lengths: list[int]) -> None:
        self._plan, self._lengths = plan, lengths
        self._low, self._high = bounds_of(plan["kwargs"]["factor"])
        self.uses = np.zeros(RUNS * STRIDE, int)

    def take(self, batch: Any) -> None:
        """Check every record of a batch, and count it."""
        got = {name: np.asarray(leaf) for name, leaf in batch.items()}
        want = content(got["id"], self._plan["words"])
        assert ((got["id"] >= 0) & (got["id"] < len(self.uses))).all(), got["id"]
        for name, leaf in want.items():
            bad = ~(got[name] == leaf).reshape(len(leaf), -1).all(1)
            assert not bad.any(), (
                f"torn records {got['id'][bad].tolist()}: `{name}` is {got[name][bad]}"
            )
        np.add.at(self.uses, got["id"], 1)
        runs = np.flatnonzero(self.uses) // STRIDE
        assert len(set(runs.tolist())) <= 1, f"examples of several epochs: {set(runs)}"
        assert self.uses.max(initial=0) <= self._high, self._show("more than allowed")

    def finish(self) -> None:
        """Check that each example of the epoch was served as often as it should."""
        used = np.flatnonzero(self.uses)
        if len(used) == 0:
            assert 0 in self._lengths, "an epoch is empty"
            return
        run = used[0] // STRIDE
        ours = self.uses[run * STRIDE : run * STRIDE + self._lengths[run]]
        exact = self._low <= ours.min() and ours.max() <= self._high
        assert exact, self._show(f"not {self._low} to {self._high} times each")

    def _show(self, what: str) -> str:
        used = np.flatnonzero(self.uses)
        run = used[0] // STRIDE * STRIDE
        return f"{what}: {self.uses[run : used[-1] + 1].tolist()}"
