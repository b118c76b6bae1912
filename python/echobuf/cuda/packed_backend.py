"""The backend of buffers on a CUDA device that pack examples into rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from echobuf import _core
from echobuf.cuda.ragged_backend import Memory, RaggedCudaBackend
from echobuf.field import Field
from echobuf.ragged import Packed
from echobuf.spec import Spec, make_spec

_IDS = 3  # arrays: segments, positions, lengths


class PackedCudaBackend(RaggedCudaBackend):
    """A window in device memory, drawn into rows of one length."""

    buffer_class = _core.PackingDeviceBuffer
    worker_pool = _core.PackingDeviceWorkerPool

    def _flat(self, count: int, rows: list[int]) -> tuple[Spec, list[Any]]:
        length = rows[0]
        fields = [
            Field((count, length, *field.shape[1:]), field.dtype)
            for field in self._spec.fields
        ]
        ids = Field((count, length), np.int32)
        fields += [ids, ids, Field((count,), np.int64)]
        dtypes = self._dtypes or [None] * len(rows)
        return make_spec(fields), [*dtypes, None, None, None]

    def _memory(self, addresses: list[int], rows: list[int]) -> Memory:
        segments, positions, lengths = addresses[-_IDS:]
        values = zip(addresses[:-_IDS], rows, strict=True)
        return Memory(
            [(address, 0, length) for address, length in values],
            (segments, positions, lengths),
        )

    def _join(self, leaves: list[Any]) -> list[Any]:
        return [Packed(values, *leaves[-_IDS:]) for values in leaves[:-_IDS]]
