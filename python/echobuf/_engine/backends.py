"""Backends of a buffer: the CPU's, whose window lies in host memory, and the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from echobuf import _core, capacity
from echobuf._engine import ragged
from echobuf.errors import CapacityError, OptionError, SpecError
from echobuf.field import core_leaf
from echobuf.options import Options
from echobuf.out import Array, OutArrays, RaggedOut, memory_of
from echobuf.output_spec import OutputSpec
from echobuf.resources import enough_threads
from echobuf.spec import Spec

if TYPE_CHECKING:
    from echobuf.cuda.backend import CudaBackend


class HostBackend:
    """A window in host memory, from which batches are drawn.

    Args:
        spec: of one example, or of one whole batch.
        output: of batches.
        options: the buffer's.
        core_options: the same in the core's form.

    Attributes:
        core: the native buffer.
        next: returns the leaves of the next batch, or a code: a call of the core
            without Python in between.
        ragged_out: takes apart leaves of `out`, where some are ragged.
        names_records: the last leaf that is drawn, an array of its records' numbers,
            is no part of the batch, and stays as it is.

    Raises:
        CapacityError: the window does not fit `max_bytes`, or the memory.
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
        self._needs = core_options.needs()
        capacity.check_capacity(self._needs, options)
        core_options.idle = capacity.idle_blocks(self._needs, options)
        leaves, drawn = (
            [core_leaf(field) for field in of.fields] for of in (spec, output.drawn)
        )
        self._is_ragged = spec.is_ragged
        with enough_threads("`prefetch`", "leave it out"):
            try:
                self.core = _core.Buffer(
                    leaves, drawn, core_options, ragged.makers(output.drawn, options)
                )
            except MemoryError:
                raise self.out_of_memory() from None
        self.next: Callable[[float | None], list[Any] | int] = self.core.next
        self._out = OutArrays(output.drawn, options.lead)
        self._out_finished = OutArrays(output.spec, options.lead)
        self._drawn = output.drawn
        self.ragged_out = RaggedOut(output.spec, options)

    @property
    def slots(self) -> int:
        """The number of slots of the ring."""
        return self._needs[0]

    def use_tensors(
        self, convert: Callable[[list[Any]], list[Any]], *, exported: bool = False
    ) -> None:
        """Convert the leaves of each batch from now on.

        Args:
            convert: takes NumPy arrays, and returns the leaves that the caller gets.
            exported: `convert` takes leaves that have `__dlpack__` in place of arrays,
                whose memory is freed without Python. DLPack must have all their dtypes:
                `exportable()`.
        """
        draw = self.core.next_exported if exported else self.core.next
        names_records = self.names_records  # not `self`, which would hold itself

        def next_converted(timeout: float | None) -> list[Any] | int:
            leaves = draw(timeout)
            if not isinstance(leaves, list):
                return leaves
            if not names_records:
                return convert(leaves)
            records = leaves.pop()
            return [*convert(leaves), np.from_dlpack(records) if exported else records]

        self.next = next_converted

    def exportable(self) -> bool:
        """Return whether DLPack has types for all leaves of batches."""
        return self.core.exportable()

    def next_on(self, stream: Any, timeout: float | None) -> NoReturn:
        """Raise `OptionError`: the CPU has no streams."""
        raise _no_stream(stream)

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Draw the next batch into the caller's arrays.

        Returns:
            The length of the batch, or minus a code.

        Raises:
            SpecError: names the leaf that does not fit.
        """
        if stream is not None:
            raise _no_stream(stream)
        if self._is_ragged:
            return self._next_rows_into(leaves, timeout)
        count = self.core.next_into(leaves, timeout)
        if count == -_core.MISMATCH:
            return self._next_into_checked(self._out.check(leaves), timeout)
        return count

    def _next_into_checked(self, arrays: list[Array], timeout: float | None) -> int:
        if not all(array.flags.c_contiguous for array in arrays):
            return self._next_through_copy(arrays, timeout)
        count = self.core.next_into(arrays, timeout)
        if count == -_core.MISMATCH:
            raise SpecError("an array of `out` was changed by another thread.")
        return count

    def _next_through_copy(self, arrays: list[Array], timeout: float | None) -> int:
        drawn = self.core.next(timeout)
        if isinstance(drawn, int):
            return -drawn
        count = int(drawn[0].shape[0])
        for array, leaf in zip(arrays, drawn, strict=True):
            np.copyto(array[:count], leaf)
        return count

    def _next_rows_into(self, leaves: list[Any], timeout: float | None) -> int:
        parts, layout = self.ragged_out.take_apart(leaves)
        arrays = OutArrays(layout.spec, ()).check(parts)
        drawn = [
            array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
            for array in arrays
        ]
        memory, ids = memory_of(
            self._drawn,
            layout.rows,
            [array.ctypes.data for array in drawn],
            packs=self._options.packs,
        )
        code, count, needed = self.core.next_rows(memory, ids, layout.room, timeout)
        if code == _core.RESIZE:
            raise self.ragged_out.refusal(layout, needed, count)
        if code:
            return -code
        for array, made, valid in zip(arrays, drawn, layout.valid(count), strict=True):
            if made is not array:
                np.copyto(array[:valid], made[:valid])
        return count

    def copier(self, leaves: list[Any], stream: Any) -> Callable[[list[Any]], int]:
        """Return a function that copies a finished batch into the caller's arrays.

        Raises:
            SpecError: names the leaf that does not fit.
            OptionError: functions make ragged leaves.
        """
        if stream is not None:
            raise _no_stream(stream)
        self.ragged_out.refuse_functions()
        arrays = self._out_finished.check(leaves)

        def copy(finished: list[Any]) -> int:
            count = int(finished[0].shape[0])
            for array, leaf in zip(arrays, finished, strict=True):
                np.copyto(array[:count], leaf)
            return count

        return copy

    def before_replay(self, stream: Any, timeout: float | None) -> NoReturn:
        """Raise `OptionError`: the CPU has no graphs."""
        raise OptionError(
            "`before_replay` is for graphs on a CUDA device; this buffer has "
            "device='cpu'."
        )

    def stream_of(self, leaves: list[Any], stream: Any) -> int:
        """Raise `OptionError`: the CPU has no streams."""
        raise _no_stream(stream)

    def is_capturing(self, stream: Any) -> bool:
        """Return False: the CPU has no graphs."""
        return False

    def why_lost(self) -> None:
        """Return None: the CPU is never lost."""

    def out_of_memory(self) -> CapacityError:
        """Return the error for an allocation that the system refused after all."""
        return capacity.out_of_memory(self._needs, self._options)


def _no_stream(stream: Any) -> OptionError:
    return OptionError(f"`stream` is {stream!r}; on device 'cpu' it must be None.")


def make_backend(
    spec: Spec,
    output: OutputSpec,
    options: Options,
    *,
    shared: bool = False,
    borrowed: _core.BorrowedSlots | None = None,
) -> HostBackend | CudaBackend:
    """Allocate a window, and batch memory, on `options.device`.

    Args:
        spec: of one example, or of one whole batch.
        output: of batches.
        options: the buffer's.
        shared: the slots lie in memory that worker processes can write.
        borrowed: slots of a server, which the window uses in place of slots that it
            allocates.

    Raises:
        CapacityError: the window does not fit `max_bytes`, or the memory.
        DeviceError: the device cannot be used.
    """
    capacity.check_size(spec, options)
    core_options = make_core_options(
        spec, output, options, shared=shared, borrowed=borrowed
    )
    if options.device == "cpu":
        return HostBackend(spec, output, options, core_options)
    from echobuf.cuda.backend import CudaBackend

    return CudaBackend(spec, output, options, core_options)


def make_core_options(
    spec: Spec,
    output: OutputSpec,
    options: Options,
    *,
    shared: bool = False,
    borrowed: _core.BorrowedSlots | None = None,
) -> _core.BufferOptions:
    """Return the options in the core's form; nothing is allocated."""
    return _core.BufferOptions(
        leaves=[core_leaf(field) for field in spec.fields],
        shared=shared,
        borrowed=borrowed,
        output=list(output.plans),
        examples=max(1, spec.most_examples) if spec.batch_axis else 0,
        **options.in_core(),
        **ragged.core_arguments(spec, output, options),
    )
