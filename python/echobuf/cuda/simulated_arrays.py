"""Batches in the memory of a simulated device, as NumPy arrays that view it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from echobuf.arrays import Array
from echobuf.cuda.arrays import handle_of
from echobuf.cuda.simulated_driver import Block, Lender, driver
from echobuf.errors import DeviceError, SpecError
from echobuf.out import OutArrays
from echobuf.tree import Spec

_ALIGNMENT = 256


class SimulatedArrays:
    """What makes and finds arrays; see `echobuf.cuda.arrays.Arrays`."""

    def __init__(self, device: Lender, spec: Spec, lead: tuple[int, ...]) -> None:
        self._device = device
        self._fields = [(lead + field.shape, field.dtype) for field in spec.fields]
        self._out = OutArrays(spec, lead)

    def stream(self, stream: Any) -> int:
        """The handle of `stream`, or of the current one of this thread."""
        if stream is None:
            return self._device.current_stream()
        return handle_of(stream, self._device.ordinal)

    def empty(self, stream: int) -> tuple[list[Any], list[int]]:
        """Views of one block, and their addresses."""
        offsets, end = [], 0
        for shape, dtype in self._fields:
            offsets.append(end)
            size = math.prod(shape) * dtype.itemsize
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        block = Block(self._device, end)
        view = np.asarray(block)
        leaves = [
            np.ndarray(shape, dtype, view, offset)
            for (shape, dtype), offset in zip(self._fields, offsets, strict=True)
        ]
        return leaves, [block.address + offset for offset in offsets]

    def out(self, leaves: list[Any], stream: Any) -> tuple[list[Any], list[int], int]:
        """Views of simulated memory are drawn into; other arrays by way of a copy."""
        arrays = self._out.check(leaves)
        handle = self.stream(stream)
        owners = [_owner(array) for array in arrays]
        for owner in owners:
            if owner not in (None, self._device):
                raise SpecError(
                    f"`out` has an array on {owner.name}; it must be on "
                    f"{self._device.name}, where the buffer is."
                )
        if all(
            owner is self._device and array.flags.carray
            for owner, array in zip(owners, arrays, strict=True)
        ):
            return arrays, [array.ctypes.data for array in arrays], handle
        return *self.empty(handle), handle

    def find(self, leaves: list[Any], stream: Any) -> int:
        """Checks the caller's arrays: the handle of the stream to copy to them on."""
        self._out.check(leaves)
        return self.stream(stream)

    def finish(
        self, leaves: list[Any], drawn: list[Any], count: int, stream: int
    ) -> None:
        """Waits for the batch, as NumPy must, and copies what was drawn elsewhere.

        That orders nothing. It does not wait for the stream by its handle, which may
        have ended with the simulation meanwhile.
        """
        if not driver().wait_for_all():
            raise DeviceError(self._device.gone)
        if drawn is leaves:
            return
        for array, leaf in zip(self._out.check(leaves), drawn, strict=True):
            if array is not leaf:
                np.copyto(array[:count], leaf[:count])


class SimulatedTensors(SimulatedArrays):
    """The same as tensors of torch; `dtypes`: None where it is the spec's."""

    def __init__(
        self,
        device: Lender,
        spec: Spec,
        lead: tuple[int, ...],
        dtypes: list[Any],
    ) -> None:
        super().__init__(device, spec, lead)
        self._dtypes = dtypes

    def empty(self, stream: int) -> tuple[list[Any], list[int]]:
        """Views of one block, and their addresses."""
        import torch

        leaves, addresses = super().empty(stream)
        tensors = []
        for leaf, dtype in zip(leaves, self._dtypes, strict=True):
            if dtype is None:
                tensors.append(torch.from_numpy(leaf))
            else:  # NumPy lacks it: by way of an integer of its size
                carrier = leaf.view(f"i{leaf.dtype.itemsize}")
                tensors.append(torch.from_numpy(carrier).view(dtype))
        return tensors, addresses


def _owner(array: Array) -> Lender | None:
    """The simulated device in whose memory it lies; None where that has ended."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, Block) and base.owner.gone is None:
        return base.owner
    return None
