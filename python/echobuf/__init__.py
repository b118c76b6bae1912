"""Data echoing without the copies.

Training often waits for its input. echobuf uses each fresh example several times
meanwhile (Choi et al. 2019, arXiv:1907.05550): it keeps a window of examples, each
stored once, and serves them in shuffled batches from native code.
"""

import importlib
from typing import TYPE_CHECKING, Any

from echobuf._installed import __version__, get_include
from echobuf._lifetime import warmup
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
from echobuf.loader import EchoLoader
from echobuf.stats import Stats

if TYPE_CHECKING:
    from echobuf.analysis.measure import analyze


def __getattr__(name: str) -> Any:
    if name in ("metrics", "transforms"):  # imported when it is first wanted
        return importlib.import_module(f"echobuf.{name}")
    if name == "analyze":
        from echobuf.analysis.measure import analyze

        return analyze
    raise AttributeError(f"module 'echobuf' has no attribute {name!r}")


__all__ = [
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
    "SpecError",
    "StateError",
    "Stats",
    "StepError",
    "UpstreamError",
    "UpstreamStateError",
    "__version__",
    "analyze",
    "get_include",
    "warmup",
]
