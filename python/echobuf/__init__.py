"""Data echoing without the copies.

Training often waits for its input. echobuf uses each fresh example several times
meanwhile (Choi et al. 2019, arXiv:1907.05550): it keeps a window of examples, each
stored once, and serves them in shuffled batches from native code.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from echobuf._installed import __version__, get_include
from echobuf.buffer import EchoBuffer
from echobuf.errors import (
    CapacityError,
    ClosedError,
    DeviceError,
    EchobufError,
    ForkError,
    ItemError,
    MissingPackageError,
    OptionError,
    SpecError,
    StateError,
    StepError,
    UpstreamError,
    UpstreamStateError,
)
from echobuf.field import Field
from echobuf.progress import set_progress
from echobuf.ragged import BatchInfo, Packed, Padded, Ragged
from echobuf.stats import Stats

if TYPE_CHECKING:
    from echobuf.analysis.measure import analyze
    from echobuf.loader import EchoLoader
    from echobuf.loader.steps import schedule_epochs, schedule_steps

_LATER = {  # names that are imported when they are first wanted
    "EchoLoader": "echobuf.loader",
    "analyze": "echobuf.analysis.measure",
    "schedule_epochs": "echobuf.loader.steps",
    "schedule_steps": "echobuf.loader.steps",
}


def warmup(device: str = "cpu") -> None:
    """Compile what `device` needs ahead of the first buffer; on the CPU, nothing.

    What is compiled is kept on disk (in CuPy's cache, `CUPY_CACHE_DIR`), also for
    other processes.

    Args:
        device: "cpu", "cuda" (the current device) or "cuda:N".

    Raises:
        OptionError: no such kind of device.
        DeviceError: the device cannot be used.

    Examples:
        >>> echobuf.warmup()  # on the CPU there is nothing to compile
    """
    from echobuf.arguments import check_device

    name = check_device(device)
    if name != "cpu":
        from echobuf.cuda.device import open_device

        open_device(name).kernels()


def __getattr__(name: str) -> Any:
    if name in ("metrics", "transforms"):
        return importlib.import_module(f"echobuf.{name}")
    if name in _LATER:
        found = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'echobuf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "BatchInfo",
    "CapacityError",
    "ClosedError",
    "DeviceError",
    "EchoBuffer",
    "EchoLoader",
    "EchobufError",
    "Field",
    "ForkError",
    "ItemError",
    "MissingPackageError",
    "OptionError",
    "Packed",
    "Padded",
    "Ragged",
    "SpecError",
    "StateError",
    "Stats",
    "StepError",
    "UpstreamError",
    "UpstreamStateError",
    "__version__",
    "analyze",
    "get_include",
    "schedule_epochs",
    "schedule_steps",
    "set_progress",
    "warmup",
]
