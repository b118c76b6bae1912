"""The step alone, on a batch that is there already."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from echobuf.analysis.phases import Clock, Phase
from echobuf.analysis.reading import Reading
from echobuf.analysis.source import at
from echobuf.analysis.synchronising import Synchroniser
from echobuf.describe_error import describe
from echobuf.errors import OptionError, StepError
from echobuf.tree import NAMESPACE

_WARM_UP = 0.4  # of the time of the phase, at most
_SETTLED = 1.25  # the slowest of the last calls against the quickest
_LAST = 3
_BLOCK = 1 / 40  # of the time of the phase: calls between two waits for the device
_AT_ONCE_S = 1e-5  # no step that trains is quicker


class Step:
    """The caller's training step.

    Args:
        function: takes a batch.
        synchroniser: waits for the device.
        clock: seconds.

    Raises:
        OptionError: it cannot be called.
    """

    def __init__(
        self, function: Callable[[Any], Any], synchroniser: Synchroniser, clock: Clock
    ) -> None:
        if not callable(function):
            raise OptionError(
                f"`step` is {function!r:.60}; it must be a function that takes one "
                "batch and trains on it."
            )
        self._function = function
        self._synchroniser = synchroniser
        self._clock = clock
        self._is_checked = False
        self.changes_batch = False

    def run(self, batch: Any) -> Any:
        """Calls it, without waiting for the device.

        Raises:
            StepError: it raised, or returned what has yet to be run.
            DeviceError: it works on a device that cannot be waited for.
        """
        try:
            result = self._function(batch)
        except (Exception, SystemExit) as error:
            raise StepError(f"`step` raised {describe(error)}{at(error)}") from error
        if not self._is_checked:
            _check_result(result)
            self._synchroniser.check(result)
            self._is_checked = True
        return result

    def wait(self, result: Any) -> None:
        """Returns when the device is done.

        Raises:
            StepError: the device reports an error of the step's, or the caller's
                `synchronize` raised.
        """
        try:
            self._synchroniser.wait(result)
        except Exception as error:
            raise StepError(
                "waiting for the device after `step` raised "
                f"{describe(error)}{at(error)}"
            ) from error

    # ---- alone

    def measure(self, batch: Any, batch_size: int, phase: Phase) -> Reading:
        """Seconds per example, of calls on one batch, one after the other.

        Calls of the warm-up (compiling, caches) are left out. The device is waited for
        after several calls, so that they overlap on it as they do in training.

        Raises:
            StepError: it raised, or returns at once.
        """
        kept = _copied(batch)
        call_s = self._warm_up(batch, kept, phase)
        reading = Reading()
        calls = max(1, int(phase.allowed_s * _BLOCK / max(call_s, 1e-9)))
        if self.changes_batch:
            calls = 1
        while not phase.is_over(reading):
            seconds = self._timed(batch, kept, calls)
            reading.add(seconds, calls * batch_size, times=calls)
        mean_s = reading.estimate().mean * batch_size
        if mean_s < _AT_ONCE_S:
            raise StepError(
                f"`step` returned after {mean_s * 1e6:.2g} microseconds on average: "
                "too soon to have trained on a batch, and R = t_upstream / "
                "t_downstream would mean nothing; give the function that does one "
                "step of training."
            )
        return reading

    def _warm_up(self, batch: Any, kept: Any, phase: Phase) -> float:
        """Calls until their times settle; the seconds of the quickest late one."""
        times = [self._timed(batch, kept, 1)]
        self.changes_batch = not _are_equal(batch, kept)
        while True:
            times.append(self._timed(batch, kept, 1))
            last = times[-_LAST:]
            if len(times) > _LAST and max(last) <= _SETTLED * min(last):
                return min(last)
            share = _WARM_UP if len(times) > _LAST else 1.0
            if phase.elapsed_s >= share * phase.allowed_s:
                return min(last)

    def _timed(self, batch: Any, kept: Any, calls: int) -> float:
        if self.changes_batch:
            batch = copy.deepcopy(kept)
        begin = self._clock()
        for _ in range(calls):
            result = self.run(batch)
        self.wait(result)
        return self._clock() - begin


def _check_result(result: Any) -> None:
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        kind = type(result).__name__
        result.close()
        raise StepError(
            f"`step` returned a {kind}, which has yet to be run; give a plain function "
            "that trains on the batch."
        )
    if inspect.isfunction(result):
        raise StepError(
            "`step` returned a function and did not train; give that function itself."
        )


def _copied(batch: Any) -> Any:
    try:
        return copy.deepcopy(batch)
    except Exception:  # then it cannot be told whether the step changes it
        return batch


def _are_equal(one: Any, other: Any) -> bool:
    """Whether structures are, and bytes of leaves, where NumPy can read them."""
    mine, structure = optree.tree_flatten(one, namespace=NAMESPACE)
    others, other_structure = optree.tree_flatten(other, namespace=NAMESPACE)
    if structure != other_structure:
        return False
    pairs = zip(mine, others, strict=True)
    try:
        return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
    except Exception:  # on a device, donated, or no array
        return True
