"""Import and exit of the package: the exit hook, and `warmup`."""

from __future__ import annotations

import atexit

from echobuf import _core
from echobuf.options import check_device

atexit.register(_core.interpreter_exits)


def warmup(device: str = "cpu") -> None:
    """Compile what `device` needs ahead of the first buffer; on the CPU, nothing.

    What is compiled is kept on disk (in CuPy's cache, `CUPY_CACHE_DIR`), also for
    other processes.

    Args:
        device: "cpu", "cuda" (the current device) or "cuda:N".

    Raises:
        OptionError: no such kind of device.
        DeviceError: the device cannot be used.
    """
    name = check_device(device)
    if name != "cpu":
        from echobuf.cuda.device import open_device

        open_device(name).kernels()
