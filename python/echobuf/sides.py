"""Where a buffer keeps its window: on the CPU, or on a CUDA device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echobuf import _core, capacity
from echobuf.made import Made
from echobuf.options import Options
from echobuf.side_host import HostSide
from echobuf.tree import Spec

if TYPE_CHECKING:
    from echobuf.cuda.side import DeviceSide


def make_side(
    spec: Spec,
    made: Made,
    options: Options,
    epoch: int,
    *,
    shared: bool = False,
    lent: _core.LentSlots | None = None,
) -> HostSide | DeviceSide:
    """Allocates a buffer where `options.device` says.

    Args:
        spec: of one example, or of one whole batch.
        made: what batches are made of.
        options: the buffer's.
        epoch: the first.
        shared: the slots lie where worker processes can write them.
        lent: slots that another process writes, in place of some of its own.

    Raises:
        CapacityError: it does not fit.
        DeviceError: the device cannot be used.
    """
    capacity.check_size(spec, options)
    core_options = make_core_options(
        spec, made, options, epoch, shared=shared, lent=lent
    )
    if options.device == "cpu":
        return HostSide(spec, made, options, core_options)
    from echobuf.cuda.side import DeviceSide

    return DeviceSide(spec, made, options, core_options)


def make_core_options(
    spec: Spec,
    made: Made,
    options: Options,
    epoch: int = 0,
    *,
    shared: bool = False,
    lent: _core.LentSlots | None = None,
) -> _core.BufferOptions:
    """What the core is told; nothing is allocated."""
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
        lent=lent,
        made=list(made.plans),
    )
