"""Memory that a buffer would take: its own books, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from echobuf import _core
from echobuf.backends import make_core_options
from echobuf.capacity import check_size, own_bytes
from echobuf.options import check_options
from echobuf.output_spec import make_output_spec
from echobuf.tree import make_spec


@dataclass(frozen=True)
class Memory:
    """Bytes that a buffer holds itself; batches in your hands come on top.

    Attributes:
        bytes_device: on the accelerator; 0 on the CPU.
        bytes_host: of host memory; on an accelerator the pinned staging area.
    """

    bytes_device: int
    bytes_host: int


def buffer_memory(
    spec: Any,
    *,
    batch_size: int,
    window: int,
    factor: float | Fraction | str,
    max_factor: int = 8,
    device: str = "cpu",
) -> Memory:
    """What an `EchoBuffer` with these arguments would take.

    Raises:
        OptionError: an argument is out of range.
        SpecError: the spec is empty or has leaves that cannot be stored.
        CapacityError: more than any machine has.
    """
    options = check_options(
        batch_size=batch_size,
        window=window,
        factor=factor,
        max_factor=max_factor,
        unit="example",
        device=device,
        seed=0,
        transform=None,
        prefetch=0,
        drop_last=False,
        max_bytes=None,
    )
    read = make_spec(spec)
    check_size(read, options)
    core_options = make_core_options(
        read, make_output_spec(read, None, ragged=False), options
    )
    if options.device == "cpu":
        return Memory(0, own_bytes(core_options.needs()))
    return Memory(
        own_bytes(_core.DeviceBuffer.needs(core_options)),
        _core.DeviceBuffer.staging_bytes(core_options),
    )
