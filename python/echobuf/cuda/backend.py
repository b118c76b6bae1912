"""The backend of buffers on a CUDA device: a window, and batches, in its memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from echobuf import _core, capacity
from echobuf.cuda.arrays import Arrays
from echobuf.cuda.codegen import stage_source
from echobuf.cuda.device import device_error, fork_error, is_out_of_memory, open_device
from echobuf.errors import CapacityError, DeviceError
from echobuf.field import core_leaf
from echobuf.options import Options
from echobuf.out import RaggedOut
from echobuf.output_spec import OutputSpec
from echobuf.resources import enough_threads
from echobuf.spec import Spec

Convert = Callable[[list[Any], int], list[Any]]
"""Converts leaves, which were drawn on the stream with this handle, to a batch's."""


class CudaBackend:
    """A window in device memory; batches are drawn on the caller's current stream.

    Args:
        spec: of one example, or of one whole batch.
        output: of batches.
        options: the buffer's.
        core_options: the same in the core's form.

    Attributes:
        core: the native buffer.
        ragged_out: takes apart leaves of `out`, where some are ragged.

    Raises:
        DeviceError: the device cannot be used.
        CapacityError: the window does not fit its memory, or `max_bytes`.
    """

    buffer_class: type[_core.DeviceBuffer | _core.RaggedDeviceBuffer] = (
        _core.DeviceBuffer
    )

    def __init__(
        self,
        spec: Spec,
        output: OutputSpec,
        options: Options,
        core_options: _core.BufferOptions,
    ) -> None:
        self._options = options
        self._device = open_device(options.device)
        self._needs = self.buffer_class.needs(core_options)
        self._check_capacity(core_options)
        kernels = self._device.kernels()
        plans = [
            plan or rows
            for (_, plan), rows in zip(output.plans, output.rows, strict=True)
        ]
        self._computes = any(plan is not None for plan in plans)
        self._source = stage_source(plans, listed=spec.is_ragged)
        self._stages = self._device.stages(self._source)  # keeps them loaded
        self._spec = output.drawn
        self._finished_spec = output.spec
        self._lead = () if options.whole_batches else (options.batch_size,)
        self._replayed_on: Any = None
        self._convert: Convert | None = None
        self.ragged_out = RaggedOut(output.spec, options)
        leaves, drawn = (
            [core_leaf(field) for field in of.fields] for of in (spec, output.drawn)
        )
        with enough_threads("a buffer on a device", "close other buffers"):
            try:
                self.core = self._make_core(leaves, drawn, core_options, kernels)
            except (MemoryError, _core.CudaError) as error:
                raise self._refusal(error) from None
        self._device.add(self.core)

    def _make_core(
        self,
        leaves: list[Any],
        drawn: list[Any],
        core_options: _core.BufferOptions,
        kernels: dict[str, int],
    ) -> _core.DeviceBuffer | _core.RaggedDeviceBuffer:
        """Return the native buffer, and lay out the arrays of batches."""
        self._full = (self._lead + self._spec.fields[0].shape)[0]
        self._arrays: Arrays = self._device.arrays(self._spec, self._lead)
        return _core.DeviceBuffer(
            leaves,
            drawn,
            core_options,
            self._device.core,
            kernels,
            self._stages.handles,
        )

    def _check_capacity(self, core_options: _core.BufferOptions) -> None:
        try:
            free, _ = self._device.core.memory()
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None
        capacity.check_device_capacity(
            self._needs, self._options, free, self._device.name
        )
        self._staging_bytes = self.buffer_class.staging_bytes(core_options)
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
        self._arrays = self._device.tensors(self._spec, self._lead, dtypes)

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
        leaves, addresses = self._allocate(self._arrays.empty, handle)
        count = self._draw(addresses, handle, timeout)
        if count < 0:
            return -count
        self._arrays.finish(leaves, leaves, count, handle)
        if count != self._full:
            leaves = [leaf[:count] for leaf in leaves]
        return leaves if self._convert is None else self._convert(leaves, handle)

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Draw the next batch into the caller's arrays.

        Returns:
            The length of the batch, or minus a code.

        Raises:
            SpecError: names the leaf that does not fit.
        """
        self._check_process()
        drawn, addresses, handle = self._allocate(self._arrays.out, leaves, stream)
        count = self._draw(addresses, handle, timeout)
        if count >= 0:
            self._arrays.finish(leaves, drawn, count, handle)
        return count

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
        """Prepare the next batch for a replay on `stream`; return 0, or a code."""
        self._check_process()
        handle = self._arrays.stream(stream)
        try:
            assert isinstance(self.core, _core.DeviceBuffer)
            code = -self.core.before_replay(handle, timeout)
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None
        if code == 0:
            self._replayed_on = stream  # alive until the next replay
        return code

    def is_capturing(self, stream: Any) -> bool:
        """Return whether `stream`, or the current one, is being captured."""
        self._check_process()
        handle = self._arrays.stream(stream)
        try:
            return self._device.core.is_capturing(handle)
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None

    def _draw(self, addresses: list[int], stream: int, timeout: float | None) -> int:
        assert isinstance(self.core, _core.DeviceBuffer)
        try:
            return self.core.next_at(addresses, stream, timeout)
        except _core.CudaError as error:
            raise device_error(self._device.name, error) from None

    def _allocate(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what `call` does, which allocates or finds the arrays of a batch."""
        try:
            return call(*arguments)
        except MemoryError as error:
            raise self._no_room_for_batch(error) from None
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

    def _no_room_for_batch(self, error: MemoryError) -> CapacityError:
        return CapacityError(
            f"a batch of {self._batch_bytes():,} bytes does not fit the memory of "
            f"{self._device.name}: {error}. Drop batches that you no longer need, make "
            f"`batch_size`, which is {self._options.batch_size}, smaller, or draw into "
            f"`out`.{capacity.jax_preallocation()}"
        )

    def _batch_bytes(self) -> int:
        size: int = sum(
            math.prod(field.shape) * field.dtype.itemsize for field in self._spec.fields
        )
        return math.prod(self._lead) * size
