"""`echobuf doctor`: versions, devices, and a self-test."""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

__all__ = ["configure", "run"]

_PACKAGES = ("numpy", "optree", "torch", "jax")
_CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
_LIBRARY = "libcuda.so.1"
_WIDTH = 24


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes: nothing, but a word on what it does."""
    parser.epilog = (
        "The self-test takes about five seconds on the CPU: several threads put "
        "checksummed records through a buffer, and it is checked that each comes back "
        "as often as it should, in an order that can be repeated and resumed. Exits "
        "with 1 if a check fails."
    )


def run(options: argparse.Namespace) -> int:
    """Prints what there is, and tests it; the exit code is 1 if a check fails."""
    for part, lines in (("Versions", _versions()), ("Devices", _devices())):
        print(f"{part}:")
        for name, text in lines:
            print(f"  {name:<{_WIDTH}} {text}")
    print("Self-test:", flush=True)
    return 0 if _self_test() else 1


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _versions() -> Iterator[tuple[str, str]]:
    import echobuf

    yield "echobuf", echobuf.__version__
    yield "Python", f"{platform.python_version()} ({platform.machine()})"
    for name in _PACKAGES:
        yield name, _installed(name) or "not installed"


def _devices() -> Iterator[tuple[str, str]]:
    from echobuf._core import cpu_features

    yield "CPU cores", str(os.cpu_count())
    yield "CPU features", ", ".join(cpu_features()) or "none beyond the baseline"
    driver, text = _driver()
    yield "CUDA driver", text
    yield "CuPy", _cupy(driver)


def _driver() -> tuple[int, str]:
    """The version of CUDA that the driver supports (13000 is 13.0; 0 for none)."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return 0, f"none ({_LIBRARY} cannot be loaded): only device='cpu' is there"
    status = library.cuInit(0)
    if status != 0:
        return 0, f"{_LIBRARY} is there, but cuInit fails with error {status}"
    number, devices = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(number))
    library.cuDeviceGetCount(ctypes.byref(devices))
    major, minor = number.value // 1000, number.value % 1000 // 10
    return number.value, f"CUDA {major}.{minor}, devices: {devices.value}"


def _cupy(driver: int) -> str:
    for name in _CUPY:
        found = _installed(name)
        if found:
            return f"{found} ({name})"
    if not driver:
        return "not installed (nor needed without a CUDA driver)"
    extra = "cuda13" if driver >= 13000 else "cuda12"
    return f"not installed: pip install 'echobuf[{extra}]'"


def _self_test() -> bool:
    from echobuf.cli.selftest import CHECKS

    results = []
    for check in CHECKS:
        begin = time.perf_counter()
        try:
            detail, passed = check.run(), True
        except Exception as error:  # whatever it is, it is what the user asked for
            detail, passed = f"{type(error).__name__}: {error}", False
        results.append(passed)
        mark = "OK  " if passed else "FAIL"
        took = f"{time.perf_counter() - begin:.1f} s"
        print(f"  {mark} {check.title:<{_WIDTH}} {took:>6}  {detail}", flush=True)
    return all(results)
