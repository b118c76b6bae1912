"""What happens when the package is imported and when the interpreter exits."""

from __future__ import annotations

import atexit
from pathlib import Path

from echobuf import _core
from echobuf.options import check_device

atexit.register(_core.interpreter_exits)


def get_include() -> str:
    """The folder of the C++ headers, for `#include <echobuf/buffer.hpp>`."""
    return str(Path(__file__).parent / "include")


def warmup(device: str = "cpu") -> None:
    """Compiles what `device` needs ahead of the first batch; on the CPU, nothing.

    Raises:
        OptionError: no such kind of device.
        DeviceError: the device cannot be used.
    """
    check_device(device)
