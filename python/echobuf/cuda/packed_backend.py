"""The backend of buffers on a CUDA device that pack examples into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf.cuda.arrays import Shapes
from echobuf.cuda.ragged_backend import Memory, RaggedCudaBackend
from echobuf.ragged import Packed

_IDS = 3  # arrays: segments, positions, lengths


class PackedCudaBackend(RaggedCudaBackend):
    """A window in device memory, drawn into rows of one length."""

    def _shapes(self, count: int, rows: list[int]) -> Shapes:
        length = rows[0]
        shapes = [(count, length, *field.shape[1:]) for field in self._spec.fields]
        return [*shapes, (count, length), (count, length), (count,)]

    def _flat(self, of_leaves: list[Any], of_index: Any) -> list[Any]:
        # Segments and positions are int32, as attention kernels want them.
        of_ids = None if of_index is None else np.dtype(np.int32)
        return [*of_leaves, of_ids, of_ids, of_index]

    def _memory(self, addresses: list[int], rows: list[int]) -> Memory:
        segments, positions, lengths = addresses[-_IDS:]
        values = zip(addresses[:-_IDS], rows, strict=True)
        return Memory(
            [(address, 0, length) for address, length in values],
            (segments, positions, lengths),
        )

    def _join(self, leaves: list[Any]) -> list[Any]:
        return [Packed(values, *leaves[-_IDS:]) for values in leaves[:-_IDS]]
