"""What a device that windows can be on has, whoever opened it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from echobuf import _core
from echobuf.cuda.arrays import Arrays
from echobuf.cuda.stages import StageSource
from echobuf.tree import Spec

LIBRARY = "libcuda.so.1"


@dataclass(frozen=True)
class Stages:
    """The kernels of chains, loaded as long as this lives.

    Attributes:
        handles: of each stage: what makes it, and what sums for its mean, or 0.
        loaded: what keeps them loaded.
    """

    handles: list[tuple[int, int]]
    loaded: Any = None


class Device(Protocol):
    """A CUDA device, and what draws on it need.

    Attributes:
        name: such as "cuda:0".
        ordinal: its number.
        core: the device as the core knows it.
        pid: the process that opened it.
        gone: why it can no longer be used, or None.
    """

    name: str
    ordinal: int
    core: _core.Device
    pid: int
    gone: str | None

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """A buffer was made here."""

    def kernels(self) -> dict[str, int]:
        """The handles of the kernels, compiled for this device, by name."""

    def stages(self, source: StageSource) -> Stages:
        """The kernels of chains, compiled for this device."""

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> Arrays:
        """What makes the arrays of batches.

        Args:
            spec: of one example, or of one whole batch.
            lead: extents before the shape that the spec says.
        """

    def tensors(self, spec: Spec, lead: tuple[int, ...], dtypes: list[Any]) -> Arrays:
        """The same for tensors of torch; `dtypes`: None where it is the spec's."""
