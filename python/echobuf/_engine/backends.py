"""Backends of a buffer: its window, on the CPU or on a CUDA device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echobuf import _core
from echobuf._engine import capacity
from echobuf._engine.host import HostBackend
from echobuf._engine.output_spec import OutputSpec
from echobuf.options import Options
from echobuf.tree import Spec

if TYPE_CHECKING:
    from echobuf.cuda.backend import CudaBackend


def make_backend(
    spec: Spec,
    output: OutputSpec,
    options: Options,
    epoch: int,
    *,
    shared: bool = False,
    borrowed: _core.BorrowedSlots | None = None,
) -> HostBackend | CudaBackend:
    """Allocate a window, and batch memory, on `options.device`.

    Args:
        spec: of one example, or of one whole batch.
        output: of batches.
        options: the buffer's.
        epoch: the first.
        shared: the slots lie in memory that worker processes can write.
        borrowed: slots of a server, which the window uses in place of slots that it
            allocates.

    Raises:
        CapacityError: the window does not fit `max_bytes`, or the memory.
        DeviceError: the device cannot be used.
    """
    capacity.check_size(spec, options)
    core_options = make_core_options(
        spec, output, options, epoch, shared=shared, borrowed=borrowed
    )
    if options.device == "cpu":
        return HostBackend(spec, output, options, core_options)
    from echobuf.cuda.backend import CudaBackend

    return CudaBackend(spec, output, options, core_options)


def make_core_options(
    spec: Spec,
    output: OutputSpec,
    options: Options,
    epoch: int = 0,
    *,
    shared: bool = False,
    borrowed: _core.BorrowedSlots | None = None,
) -> _core.BufferOptions:
    """Return the options in the core's form; nothing is allocated."""
    return _core.BufferOptions(
        leaves=[(field.dtype, field.shape) for field in spec.fields],
        ragged=options.ragged,
        batch_size=options.batch_size,
        window=options.window,
        factor=options.ratio,
        max_factor=options.max_factor,
        seed=options.seed,
        epoch=epoch,
        drop_last=options.drop_last,
        prefetch=options.prefetch,
        shared=shared,
        borrowed=borrowed,
        output=list(output.plans),
    )
