"""The backend of buffers on a CUDA device whose spec has ragged leaves."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.cuda.arrays import Arrays, Shapes
from echobuf.cuda.backend import CudaBackend
from echobuf.cuda.device import device_error
from echobuf.errors import OptionError
from echobuf.field import Field, is_ragged, row_shape
from echobuf.out import Layout, memory_of
from echobuf.ragged import Padded, Ragged
from echobuf.spec import Spec, make_spec

_SHAPES = 64  # of the caller's arrays, whose checks are made once


@dataclass(frozen=True)
class Memory:
    """The addresses of a batch's arrays.

    Attributes:
        leaves: of each leaf its values, its offsets or lengths (0 if it has none), and
            the rows that it has.
        ids: of packed rows the segments, positions and lengths.
    """

    leaves: list[tuple[int, int, int]]
    ids: tuple[int, int, int] = (0, 0, 0)


_NO_MEMORY = Memory([])  # to learn the size of a batch


class RaggedCudaBackend(CudaBackend):
    """A window in device memory of examples that differ in length.

    The core says how large the next batch is; then arrays of that size are allocated,
    and it is drawn into these.
    """

    buffer_class: type[_core.RaggedDeviceBuffer] = _core.RaggedDeviceBuffer

    def _make_core(
        self,
        leaves: list[Any],
        drawn: list[Any],
        core_options: _core.BufferOptions,
        kernels: dict[str, int],
    ) -> _core.RaggedDeviceBuffer:
        self._is_packed = self._options.ragged == "packed"
        self._packs = self._options.packs
        self._why_no_graph = ""
        if self._options.max_rows is not None:
            self._why_no_graph = _BY_ROWS
        elif self._computes and not self._packs:
            self._why_no_graph = _BY_CHAINS
        self._captured: list[int] = []  # rows that captured leaves have room for
        self._make: Callable[..., Any] = Ragged if self._is_packed else Padded
        self._sources = [*range(len(self._spec.fields))]
        self._rests = [
            field.shape[1:]
            if self._options.whole_batches and not is_ragged(field)
            else row_shape(field)
            if is_ragged(field)
            else field.shape
            for field in self._spec.fields
        ]
        self._are_ragged = [is_ragged(field) for field in self._spec.fields]
        self._arrays = self._device.arrays(self._empty_batch(), ())
        self._made: OrderedDict[tuple[int, ...], Arrays] = OrderedDict()
        return self.buffer_class(
            leaves,
            drawn,
            core_options,
            self._device.core,
            kernels,
            self._stages.handles,
        )

    def use_tensors(self, dtypes: list[Any]) -> None:
        """Draw batches into tensors of torch from now on.

        Args:
            dtypes: torch's, of the leaves; None where it is the spec's.
        """
        spec = self._empty_batch()
        self._arrays = self._device.tensors(spec, (), self._flat(dtypes, None))

    def use_maker(self, make: Callable[..., Any], sources: list[int]) -> None:
        """Make ragged leaves by `make(values, index)` from now on.

        Args:
            make: makes a leaf.
            sources: which leaf of the records each is made from; those of one source
                are of equal lengths, and have one index.
        """
        self._make, self._sources = make, sources

    # ---- batches

    def next_on(self, stream: Any, timeout: float | None) -> list[Any] | int:
        """Return the leaves of the next batch, valid on `stream`; or a code."""
        self._check_process()
        handle = self._arrays.stream(stream)
        memory, count = _NO_MEMORY, 0
        while True:
            code, count, rows = self._draw_rows(memory, count, handle, timeout)
            if code == 0:
                break
            if code == _core.CAPTURING:
                raise OptionError(
                    "`out` is None, and the stream is being captured: replays would "
                    "write into arrays whose memory may be another's by then. Give "
                    "contiguous arrays with room for the longest batch, which live as "
                    "long as the graph."
                )
            if code != _core.RESIZE:
                return code
            shapes = self._shapes(count, rows)
            leaves, addresses = self._allocate(self._arrays.empty, handle, shapes)
            memory = self._memory(addresses, rows)
        self._arrays.finish(leaves, leaves, count, handle)
        if self._convert is not None:
            leaves = self._convert(leaves, handle)
        return self._join(leaves)

    def _draw_rows(
        self,
        memory: Memory,
        count: int,
        stream: int,
        timeout: float | None,
        out: Layout | None = None,
    ) -> tuple[int, int, list[int]]:
        core = self.core
        assert not isinstance(core, _core.DeviceBuffer)
        room = 0 if out is None else out.room
        try:
            code, count, rows, captured = core.next_at(
                memory.leaves, memory.ids, count, room, stream, timeout
            )
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None
        if captured and out is not None:
            bounds = self._captured or out.rows
            # Of several graphs any may be replayed.
            self._captured = [*map(min, bounds, out.rows)]
        return code, count, rows

    # ---- the arrays of a batch: each ragged leaf's values, and their index behind them

    def _shapes(self, count: int, rows: list[int]) -> Shapes:
        """Return the shapes of the arrays of a batch."""
        shapes: Shapes = []
        for ragged, rest, length in zip(
            self._are_ragged, self._rests, rows, strict=True
        ):
            if not ragged:
                shapes.append((count, *rest))
            elif self._is_packed:
                shapes += (length, *rest), (count + 1,)
            else:
                shapes += (count, length, *rest), (count,)
        return shapes

    def _flat(self, of_leaves: list[Any], of_index: Any) -> list[Any]:
        """Return what is known of the leaves for each array."""
        flat = []
        for ragged, known in zip(self._are_ragged, of_leaves, strict=True):
            flat += [known, of_index] if ragged else [known]
        return flat

    def _empty_batch(self) -> Spec:
        """Return the arrays of a batch without records: their dtypes are of any."""
        fields = self._spec.fields
        dtypes = self._flat([field.dtype for field in fields], np.dtype(np.int64))
        shapes = self._shapes(0, [0] * len(fields))
        return make_spec([*map(Field, shapes, dtypes)])

    def _memory(self, addresses: list[int], rows: list[int]) -> Memory:
        each = iter(addresses)
        return Memory(
            [
                (next(each), next(each) if ragged else 0, length)
                for ragged, length in zip(self._are_ragged, rows, strict=True)
            ]
        )

    def _join(self, leaves: list[Any]) -> list[Any]:
        each = iter(leaves)
        indices: dict[int, Any] = {}
        joined = []
        for ragged, source in zip(self._are_ragged, self._sources, strict=True):
            leaf = next(each)
            if ragged:
                index = next(each)
                leaf = self._make(leaf, indices.setdefault(source, index))
            joined.append(leaf)
        return joined

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Draw the next batch into the caller's arrays, or into a graph.

        Returns:
            The length of the batch, or minus a code.

        Raises:
            SpecError: names the leaf that does not fit, or has too little room.
            OptionError: batches of any number of examples cannot be captured.
        """
        self._check_process()
        parts, layout = self.ragged_out.take_apart(leaves)
        arrays = self._arrays_of(layout)
        drawn, addresses, handle = self._allocate(arrays.out, parts, stream)
        if self._why_no_graph and self.is_capturing(handle):
            raise _no_graph("the stream is being captured", self._why_no_graph)
        memory = Memory(*memory_of(self._spec, layout, addresses, packs=self._packs))
        code, count, needed = self._draw_rows(memory, 0, handle, timeout, layout)
        if code == _core.RESIZE:
            raise self.ragged_out.refusal(layout, needed, count)
        if code:
            return -code
        arrays.finish(parts, drawn, layout.valid(count), handle)
        return count

    def before_replay(self, stream: Any, timeout: float | None) -> int:
        """Prepare the next batch for a replay on `stream`; return 0, or a code.

        Raises:
            SpecError: the batch is larger than what was captured.
            OptionError: batches of any number of examples cannot be captured.
        """
        self._check_process()
        if self._why_no_graph:
            raise _no_graph(
                "`before_replay` is for draws in a graph", self._why_no_graph
            )
        handle = self._arrays.stream(stream)
        core = self.core
        assert not isinstance(core, _core.DeviceBuffer)
        try:
            code, _, needed, _ = core.before_replay(self._captured, handle, timeout)
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None
        if code == _core.RESIZE:
            raise self.ragged_out.refusal_of_replay(self._captured, needed)
        if code == 0:
            self._replayed_on = stream  # alive until the next replay
        return code

    def _arrays_of(self, layout: Layout) -> Arrays:
        """Return the checks of the caller's arrays, and others in their place."""
        key = (layout.room, *layout.rows)
        arrays = self._made.get(key)
        if arrays is None:
            arrays = self._made[key] = self._device.arrays(layout.spec, ())
            while len(self._made) > _SHAPES:
                self._made.popitem(last=False)
        return arrays

    def _batch_bytes(self) -> int:
        # What it is on average: the payload of the window for its records.
        rows = self._needs[4] * self._options.batch_size // self._options.window
        fixed: int = sum(
            math.prod(field.shape) * field.dtype.itemsize
            for field in self._spec.fields
            if not is_ragged(field)
        )
        return rows + self._options.batch_size * fixed


def _no_graph(why: str, reason: str) -> OptionError:
    return OptionError(f"{why}, and {reason}.")


_BY_ROWS = (
    "with `max_rows` batches differ in their number of examples; give `batch_size` in "
    "its place"
)
_BY_CHAINS = (
    "`transform` has chains, which graphs of ragged leaves do not have yet; draw with "
    "`next_batch` outside the graph, and copy the batch to where the graph reads it, "
    "or use `pack_to`"
)
