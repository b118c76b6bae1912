"""Named tuples in batches, pytrees in JAX, optree and torch: ragged leaves, infos."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np


class Ragged(NamedTuple):
    """Arrays that differ in length on axis 0, one after the other.

    A batch has one for each ragged leaf with `ragged="packed"`; `put_batch` takes it.

    Attributes:
        values: `[total, *shape]`, the rows of all arrays in order. With `pad_to`,
            `total` is a multiple of it, and the rows from `offsets[-1]` on hold
            `pad_value`.
        offsets: int64 `[n + 1]`, from 0 on, never decreasing: array i is
            `values[offsets[i]:offsets[i + 1]]`. Functions of attention over sequences
            of different lengths take `offsets` as int32, as `cu_seqlens`.

    Examples:
        >>> spec = Field((None,), np.int32, max_length=8)
        >>> buffer = EchoBuffer(spec, batch_size=3, window=3, factor=1)
        >>> for length in (2, 0, 3):
        ...     buffer.put(np.full(length, length, np.int32))
        >>> batch = buffer.next_batch()
        >>> batch.values.shape, batch.offsets.dtype, sorted(batch.lengths.tolist())
        ((5,), dtype('int64'), [0, 2, 3])
        >>> all((each == len(each)).all() for each in batch.to_list())
        True
    """

    values: Any
    offsets: Any

    @property
    def lengths(self) -> Any:
        """The lengths of the arrays, int64 `[n]`."""
        return self.offsets[1:] - self.offsets[:-1]

    def to_list(self) -> list[Any]:
        """Return the arrays, `[length, *shape]` each, as views of `values`."""
        bounds = itertools.pairwise(self.offsets.tolist())
        return [self.values[start:end] for start, end in bounds]


class Padded(NamedTuple):
    """Arrays that differ in length on axis 0, filled up to one length.

    A batch has one for each ragged leaf with `ragged="padded"`.

    Attributes:
        values: `[n, longest, *shape]`, the arrays, followed by `pad_value` up to the
            longest of the batch; with `pad_to`, `longest` is a multiple of it.
        lengths: int64 `[n]`: array i is `values[i, :lengths[i]]`.

    Examples:
        >>> spec = Field((None,), np.int32, max_length=8)
        >>> buffer = EchoBuffer(
        ...     spec, batch_size=2, window=2, factor=1, ragged="padded", pad_value=-1
        ... )
        >>> buffer.put_batch([np.array([7], np.int32), np.array([5, 6], np.int32)])
        >>> batch = buffer.next_batch()
        >>> sorted(batch.values.tolist()), sorted(batch.lengths.tolist())
        ([[5, 6], [7, -1]], [1, 2])
        >>> sorted(batch.mask.tolist())
        [[True, False], [True, True]]
        >>> sorted(each.tolist() for each in batch.to_list())
        [[5, 6], [7]]
    """

    values: Any
    lengths: Any

    @property
    def mask(self) -> Any:
        """The places that hold rows of arrays and not `pad_value`, bool `[n, longest]`.

        Attention masks of Hugging Face's models are such.
        """
        longest = self.values.shape[1]
        if hasattr(self.lengths, "new_ones"):  # torch's, on any device
            steps = self.lengths.new_ones(longest).cumsum(0) - 1
        else:
            steps = np.arange(longest)
        return steps < self.lengths[:, None]

    def to_list(self) -> list[Any]:
        """Return the arrays, `[length, *shape]` each, as views of `values`."""
        lengths = self.lengths.tolist()
        return [row[:length] for row, length in zip(self.values, lengths, strict=True)]


class Packed(NamedTuple):
    """Arrays that differ in length on axis 0, packed into rows of one length L.

    Attributes:
        values: `[rows, L, *shape]`; each row holds whole arrays, one after the other,
            and padding after the last.
        segment_ids: int32 `[rows, L]`: 1 for the first array of a row, 2 for the next,
            and so on; 0 where there is padding. Block-diagonal attention is between
            places of equal, positive ids.
        positions: int32 `[rows, L]`: 0, 1, ... within each array; 0 where there is
            padding.
        lengths: int64 `[rows]`, the places of each row that hold no padding: row i
            holds `values[i, :lengths[i]]`.

    Examples:
        >>> packed = echobuf.Packed(
        ...     values=np.array([[7, 8, 9, 0]]),
        ...     segment_ids=np.array([[1, 1, 2, 0]], np.int32),
        ...     positions=np.array([[0, 1, 0, 0]], np.int32),
        ...     lengths=np.array([3]),
        ... )
        >>> ids = packed.segment_ids
        >>> attends = (ids[:, :, None] == ids[:, None, :]) & (ids > 0)[:, :, None]
        >>> attends[0].astype(int).tolist()
        [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
        >>> [each.tolist() for each in packed.to_list()]
        [[7, 8], [9]]
    """

    values: Any
    segment_ids: Any
    positions: Any
    lengths: Any

    def to_list(self) -> list[Any]:
        """Return the arrays, `[length, *shape]` each, as views of `values`, by row."""
        arrays = []
        for row, ids, length in zip(
            self.values, self.segment_ids, self.lengths.tolist(), strict=True
        ):
            starts = np.flatnonzero(np.diff(np.asarray(ids[:length]), prepend=0))
            bounds = itertools.pairwise([*starts.tolist(), length])
            arrays += [row[start:end] for start, end in bounds]
        return arrays


class BatchInfo(NamedTuple):
    """A description of the examples of a batch, one entry for each of them.

    With `with_info=True` each batch is a tuple `(batch, info)`. It is a named tuple,
    and so a pytree in JAX, optree and torch; its arrays are NumPy's, CuPy's, tensors
    or `jax.Array`s, as those of the batch are. (JAX makes int32 of int64 unless its 64
    bits are enabled.) With `unit="batch"` all examples of a batch have the same
    entries, those of the batch that was put.

    Attributes:
        index: int64 `[n]`, the number of the fresh example in its epoch, in the order
            of `put`, from 0 on; with `unit="batch"` that of the batch.
        echo: int32 `[n]`, how many times the example was served before in its epoch: 0
            for the first use.
        version: int64 `[n]`, the `version` that the example was put with, else 0.

    Examples:
        >>> buffer = EchoBuffer(
        ...     np.float32(0), batch_size=2, window=4, factor=2, with_info=True
        ... )
        >>> buffer.put_batch(np.arange(4, dtype=np.float32) / 10, version=7)
        >>> buffer.close()
        >>> for batch, info in buffer:
        ...     assert (batch == info.index.astype(np.float32) / 10).all()
        ...     print(info.echo.tolist(), info.version.tolist())
        [0, 0] [7, 7]
        [1, 0] [7, 7]
        [0, 1] [7, 7]
        [1, 1] [7, 7]
    """

    index: Any
    echo: Any
    version: Any
