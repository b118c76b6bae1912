"""Whole batches with ragged leaves on the device, which are put one by one."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from echobuf import _core
from echobuf._engine.arrays import split_batches
from echobuf._engine.device_puts import DevicePut, DevicePuts, Outcome
from echobuf._engine.versions import Versions
from echobuf.errors import SpecError, message


def device_put(
    puts: DevicePuts, leaves: list[Any], *, stacked: bool, stream: Any
) -> DevicePut | DeviceBatches:
    """Return a put of leaves some of which lie on the device: see `DevicePut`."""
    if stacked and puts.spec.batch_axis and puts.spec.is_ragged:
        return DeviceBatches(puts, leaves, stream)
    return DevicePut(puts, leaves, stacked=stacked, stream=stream)


class DeviceBatches:
    """A put of several whole batches with ragged leaves.

    Args:
        puts: of the buffer.
        leaves: of all batches, in a list at each ragged leaf.
        stream: as for `DevicePut`.

    Raises:
        SpecError, CapacityError, OptionError: one of them cannot be put.
    """

    def __init__(self, puts: DevicePuts, leaves: list[Any], stream: Any) -> None:
        self._puts = []
        for number, batch in enumerate(split_batches(leaves, puts.spec)):
            try:
                put = DevicePut(puts, batch, stacked=False, stream=stream)
                put.check()
            except SpecError as error:
                text = f"batch {number} of those put: {message(error)}"
                raise SpecError(text) from None
            self._puts.append(put)
        self._done = 0

    def run(self, timeout: float | None, versions: Versions | None) -> Outcome:
        """Put what has not been put: see `DevicePut.run`."""
        each = versions if isinstance(versions, np.ndarray) else None
        if each is not None and len(each) != len(self._puts):
            return _core.VERSIONS, len(self._puts)
        end = None if timeout is None else time.monotonic() + timeout
        for number in range(self._done, len(self._puts)):
            left = None if end is None else max(0.0, end - time.monotonic())
            version = versions if each is None else int(each[number])
            outcome = self._puts[number].run(left, version)
            if outcome is not None:
                return outcome[0], number
            self._done = number + 1
        return None
