"""The work of a device on items of upstream, which goes on when `next` has returned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from echobuf.device_arrays import is_cupys, is_jaxs, is_on_device, is_tensor
from echobuf.trees import flatten

Wait = Callable[[], Any]
"""Returns once the device has done some work."""


def waits_for(item: Any) -> list[Wait]:
    """Return what waits for the work so far on the streams that an item is valid on.

    Arrays of torch and CuPy are valid on their current streams: an event is recorded
    there. Those of JAX are waited for themselves. Other arrays are not waited for.

    Args:
        item: a pytree, of upstream or of a loader.
    """
    leaves = [leaf for leaf in flatten(item)[0] if is_on_device(leaf)]
    waits = [leaf.block_until_ready for leaf in leaves if is_jaxs(leaf)]
    tensors = {leaf.device.index for leaf in leaves if is_tensor(leaf)}
    waits += [_torch_event(ordinal) for ordinal in tensors]
    arrays = {leaf.device.id for leaf in leaves if is_cupys(leaf)}
    waits += [_cupy_event(ordinal) for ordinal in arrays]
    return waits


def _torch_event(ordinal: int) -> Wait:
    cuda = sys.modules["torch"].cuda
    event = cuda.Event()
    event.record(cuda.current_stream(ordinal))
    wait: Wait = event.synchronize
    return wait


def _cupy_event(ordinal: int) -> Wait:
    cuda = sys.modules["cupy"].cuda
    with cuda.Device(ordinal):
        event = cuda.Event()
        event.record(cuda.get_current_stream(ordinal))
    wait: Wait = event.synchronize
    return wait


class ItemsInTurn:
    """Items of upstream, of which the device has one more to finish at any time.

    A clock that is read after each of them tells the time of an item, whichever of the
    host and the device takes longer: upstream makes an item on the host while the
    device works on the one before.

    Args:
        items: of upstream.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._is_on_host: bool | None = None  # what the first item says
        self._behind: list[Wait] = []  # for the last item

    def next(self, end: Any) -> Any:
        """Return the next item, or `end`, once the device has done the one before."""
        item = next(self._items, end)
        if self._is_on_host:
            return item
        waits = waits_for(item)
        self.finish()
        self._behind = waits
        self._is_on_host = not waits
        return item

    def finish(self) -> None:
        """Wait for the device's work on the last item."""
        waits, self._behind = self._behind, []
        for wait in waits:
            wait()
