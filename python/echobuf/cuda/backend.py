"""The backend of buffers on a CUDA device: a window, and batches, in its memory."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from echobuf import _core, capacity
from echobuf.cuda.arrays import Arrays
from echobuf.cuda.codegen import stage_source
from echobuf.cuda.device import device_error, fork_error, is_out_of_memory, open_device
from echobuf.cuda.graphs import why_no_graph
from echobuf.cuda.rows_arrays import NO_MEMORY, Memory, RowsArrays
from echobuf.errors import CapacityError, DeviceError, OptionError
from echobuf.field import core_leaf, is_ragged
from echobuf.options import Options
from echobuf.out import Layout, RaggedOut
from echobuf.output_spec import OutputSpec
from echobuf.resources import enough_threads
from echobuf.spec import Spec

_SHAPES = 64  # of the caller's arrays, whose checks are made once

Convert = Callable[[list[Any], int], list[Any]]
"""Converts leaves, which were drawn on the stream with this handle, to a batch's."""


class CudaBackend:
    """A window in device memory; batches are drawn on the caller's current stream.

    Where examples have ragged leaves, the core says how large the next batch is; then
    arrays of that size are allocated, and it is drawn into these.

    Args:
        spec: of one example, or of one whole batch.
        output: of batches.
        options: the buffer's.
        core_options: the same in the core's form.

    Attributes:
        core: the native buffer.
        ragged_out: takes apart leaves of `out`, where some are ragged.
        names_records: the leaves of a batch end with a list of its records' numbers.

    Raises:
        DeviceError: the device cannot be used.
        CapacityError: the window does not fit its memory, or `max_bytes`.
    """

    def __init__(
        self,
        spec: Spec,
        output: OutputSpec,
        options: Options,
        core_options: _core.BufferOptions,
    ) -> None:
        self.names_records = False
        self._options = options
        self._device = open_device(options.device)
        self._needs = _core.DeviceBuffer.needs(core_options)
        self._check_capacity(core_options)
        kernels = self._device.kernels()
        plans = [
            plan or rows
            for (_, plan), rows in zip(output.plans, output.rows, strict=True)
        ]
        self._source = stage_source(plans, listed=spec.is_ragged)
        self._stages = self._device.stages(self._source)  # keeps them loaded
        self._spec = output.drawn
        self._finished_spec = output.spec
        self._lead = options.lead
        self._full = (self._lead + self._spec.fields[0].shape)[0]
        self._rows: RowsArrays | None = None
        self._arrays_of_batch = self._spec, self._lead
        if spec.is_ragged:
            self._rows = RowsArrays(self._spec, options)
            self._arrays_of_batch = self._rows.spec, ()
        self._arrays: Arrays = self._device.arrays(*self._arrays_of_batch)
        self._arrays_of_out: OrderedDict[tuple[int, ...], Arrays] = OrderedDict()
        self._why_no_graph = why_no_graph(options, spec, plans)
        self._captured: list[int] = []  # rows that captured leaves have room for
        self._replayed_on: Any = None
        self._convert: Convert | None = None
        self.ragged_out = RaggedOut(output.spec, options)
        leaves, drawn = (
            [core_leaf(field) for field in of.fields] for of in (spec, output.drawn)
        )
        with enough_threads("a buffer on a device", "close other buffers"):
            try:
                self.core = _core.DeviceBuffer(
                    leaves,
                    drawn,
                    core_options,
                    self._device.core,
                    kernels,
                    self._stages.handles,
                )
            except (MemoryError, _core.CudaError) as error:
                raise self._refusal(error) from None
        self._device.add(self.core)

    def _check_capacity(self, core_options: _core.BufferOptions) -> None:
        free, _ = self._ask(self._device.core.memory)
        capacity.check_device_capacity(
            self._needs, self._options, free, self._device.name
        )
        self._staging_bytes = _core.DeviceBuffer.staging_bytes(core_options)
        capacity.check_pinned(self._staging_bytes, self._options)

    def _refusal(self, error: Exception) -> DeviceError | CapacityError:
        if is_out_of_memory(error):
            return capacity.refused_by_device(
                self._needs, self._options, self._device.name, str(error.args[-1])
            )
        return device_error(self._device.name, error)

    @property
    def slots(self) -> int:
        """The number of slots of the staging ring."""
        return self._staging_bytes // self._needs[1]

    def use_tensors(self, dtypes: list[Any]) -> None:
        """Draw batches into tensors of torch from now on.

        Args:
            dtypes: torch's, of the leaves; None where it is the spec's.
        """
        if self._rows is not None:
            dtypes = self._rows.of_each(dtypes, None, None)
        self._arrays = self._device.tensors(*self._arrays_of_batch, dtypes)

    def use_maker(self, make: Callable[..., Any], sources: list[int]) -> None:
        """Make ragged leaves by `make(values, index)` from now on.

        Args:
            make: makes a leaf.
            sources: which leaf of the records each is made from.
        """
        assert self._rows is not None
        self._rows.use_maker(make, sources)

    @property
    def ordinal(self) -> int:
        """The device's number."""
        return self._device.ordinal

    def use_converted(self, convert: Convert) -> None:
        """Convert the leaves of each batch from now on."""
        self._convert = convert

    # ---- batches

    def next(self, timeout: float | None) -> list[Any] | int:
        """Return the next batch's leaves, valid on the current stream; or a code."""
        return self.next_on(None, timeout)

    def next_on(self, stream: Any, timeout: float | None) -> list[Any] | int:
        """Return the leaves of the next batch, valid on `stream`; or a code."""
        self._check_process()
        handle = self._arrays.stream(stream)
        if self._rows is not None:
            return self._next_rows(self._rows, handle, timeout)
        records: list[int] | None = [] if self.names_records else None
        leaves, addresses = self._allocate(self._arrays.empty, handle)
        count = self._draw(addresses, handle, timeout, records)
        if count < 0:
            return -count
        self._arrays.finish(leaves, leaves, count, handle)
        if count != self._full:
            leaves = [leaf[:count] for leaf in leaves]
        if self._convert is not None:
            leaves = self._convert(leaves, handle)
        return leaves if records is None else [*leaves, records]

    def _next_rows(
        self, of_batch: RowsArrays, stream: int, timeout: float | None
    ) -> list[Any] | int:
        memory, count = NO_MEMORY, 0
        records: list[int] | None = [] if self.names_records else None
        while True:
            code, count, rows = self._draw_rows(
                memory, count, stream, timeout, records=records
            )
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
            shapes = of_batch.shapes(count, rows)
            arrays, addresses = self._allocate(self._arrays.empty, stream, shapes)
            memory = of_batch.memory(rows, addresses)
        self._arrays.finish(arrays, arrays, count, stream)
        if self._convert is not None:
            arrays = self._convert(arrays, stream)
        leaves = of_batch.join(arrays)
        return leaves if records is None else [*leaves, records]

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Draw the next batch into the caller's arrays, or into a graph.

        Returns:
            The length of the batch, or minus a code.

        Raises:
            SpecError: names the leaf that does not fit, or has too little room.
            OptionError: such batches cannot be captured.
        """
        self._check_process()
        if self._rows is not None:
            return self._next_rows_into(self._rows, leaves, timeout, stream)
        drawn, addresses, handle = self._allocate(self._arrays.out, leaves, stream)
        count = self._draw(addresses, handle, timeout)
        if count >= 0:
            self._arrays.finish(leaves, drawn, count, handle)
        return count

    def _next_rows_into(
        self,
        of_batch: RowsArrays,
        leaves: list[Any],
        timeout: float | None,
        stream: Any,
    ) -> int:
        parts, layout = self.ragged_out.take_apart(leaves)
        arrays = self._arrays_for(layout)
        drawn, addresses, handle = self._allocate(arrays.out, parts, stream)
        if self._why_no_graph and self.is_capturing(handle):
            raise OptionError(
                f"the stream is being captured, and {self._why_no_graph}."
            )
        memory = of_batch.memory(layout.rows, addresses)
        code, count, needed = self._draw_rows(memory, 0, handle, timeout, layout)
        if code == _core.RESIZE:
            raise self.ragged_out.refusal(layout, needed, count)
        if code:
            return -code
        arrays.finish(parts, drawn, layout.valid(count), handle)
        return count

    def _arrays_for(self, layout: Layout) -> Arrays:
        """Return the checks of the caller's arrays, and others in their place."""
        key = (layout.room, *layout.rows)
        arrays = self._arrays_of_out.get(key)
        if arrays is None:
            arrays = self._arrays_of_out[key] = self._device.arrays(layout.spec, ())
            while len(self._arrays_of_out) > _SHAPES:
                self._arrays_of_out.popitem(last=False)
        return arrays

    def copier(self, leaves: list[Any], stream: Any) -> Callable[[list[Any]], int]:
        """Return a function that copies a finished batch into the caller's arrays.

        Raises:
            SpecError: names the leaf that does not fit.
            OptionError: functions make ragged leaves.
        """
        self.ragged_out.refuse_functions()
        arrays = self._device.arrays(self._finished_spec, self._lead)
        arrays.check(leaves)
        handle = arrays.stream_of(leaves, stream)

        def copy(finished: list[Any]) -> int:
            count = len(finished[0])
            arrays.finish(leaves, finished, count, handle)
            return count

        return copy

    def before_replay(self, stream: Any, timeout: float | None) -> int:
        """Prepare the next batch for a replay on `stream`; return 0, or a code.

        Raises:
            SpecError: the batch is larger than what was captured.
            OptionError: such batches cannot be captured.
        """
        self._check_process()
        if self._why_no_graph:
            raise OptionError(
                f"`before_replay` is for draws in a graph, and {self._why_no_graph}."
            )
        handle = self._arrays.stream(stream)
        code: int
        code, needed = self._ask(
            self.core.before_replay, self._captured, handle, timeout
        )
        if code == _core.RESIZE:
            raise self.ragged_out.refusal_of_replay(self._captured, needed)
        if code == 0:
            self._replayed_on = stream  # alive until the next replay
        return code

    def stream_of(self, leaves: list[Any], stream: Any) -> int:
        """Return the handle of `stream`; of None, that on which leaves are used."""
        self._check_process()
        return self._arrays.stream_of_put(leaves, stream)

    def is_capturing(self, stream: Any) -> bool:
        """Return whether `stream`, or the current one, is being captured."""
        self._check_process()
        handle = self._arrays.stream(stream)
        capturing: bool = self._ask(self._device.core.is_capturing, handle)
        return capturing

    def _draw(
        self,
        addresses: list[int],
        stream: int,
        timeout: float | None,
        records: list[int] | None = None,
    ) -> int:
        try:  # as _ask() does, in fewer steps: a draw takes but microseconds
            return self.core.next_at(addresses, stream, timeout, records)
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None

    def _draw_rows(
        self,
        memory: Memory,
        count: int,
        stream: int,
        timeout: float | None,
        out: Layout | None = None,
        records: list[int] | None = None,
    ) -> tuple[int, int, list[int]]:
        """Return a code, and the records and the rows of the next batch."""
        room = 0 if out is None else out.room
        try:
            code, count, rows, captured = self.core.next_rows(
                *memory, count, room, stream, timeout, records
            )
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None
        if captured and out is not None:
            bounds = self._captured or out.rows
            # Of several graphs any may be replayed.
            self._captured = [*map(min, bounds, out.rows)]
        return code, count, rows

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `call` of the core returns."""
        try:
            return call(*arguments)
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None

    def _allocate(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `call` does, which allocates or finds the arrays of a batch."""
        try:
            return call(*arguments)
        except MemoryError as error:
            raise capacity.no_room_for_batch(
                self._batch_bytes(), self._options, self._device.name, error
            ) from None
        except DeviceError:
            self.core.notice_loss()  # producers may wait for room
            raise

    def _check_process(self) -> None:
        if self._device.gone is not None:
            raise DeviceError(self._device.gone)
        if os.getpid() != self._device.pid:
            raise fork_error()

    # ---- errors

    def why_lost(self) -> DeviceError | None:
        """Return the error that has ended the device, or None."""
        if self._device.gone is not None:
            return DeviceError(self._device.gone)
        text = self.core.error()
        if not text:
            return None
        return device_error(self._device.name, text)

    def out_of_memory(self) -> CapacityError:
        """Return the error for an allocation that was refused after all."""
        return capacity.refused_by_device(
            self._needs, self._options, self._device.name, "it refused them"
        )

    def _batch_bytes(self) -> int:
        fixed: int = sum(
            math.prod(field.shape) * field.dtype.itemsize
            for field in self._spec.fields
            if not is_ragged(field)
        )
        # Of rows what it is on average: the payload of the window for its records.
        rows = self._needs[4] * self._options.batch_size // self._options.window
        return rows + math.prod(self._lead) * fixed
