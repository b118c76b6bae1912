"""`echobuf doctor`: versions, devices, and a self-test."""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import echobuf
from echobuf import _distributions
from echobuf._installed import __version__
from echobuf.cli.output import add_json_option, print_json, wrapped
from echobuf.errors import message

if TYPE_CHECKING:
    from echobuf.cli.selftest import Check

_PACKAGES = ("numpy", "optree", "torch", "jax")
_CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
_LEVELS = ("portable", "avx2", "avx512")
_VECTORS = {"avx512": "AVX-512", "avx2": "AVX2", "f16c": "F16C"}
_LIBRARY = "libcuda.so.1"
_WIDTH = 24


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the option of the command, and its help."""
    parser.epilog = (
        "The self-test takes about five seconds on the CPU: several threads put "
        "checksummed records through a buffer, and it is checked that each comes back "
        "as often as it should, in an order that can be repeated and resumed. Exit "
        "codes: 0 when all is well, 1 if a check fails or files of echobuf are not as "
        "they were installed. JSON: format, versions, devices, troubles (sentences), "
        "checks (title, passed, seconds, detail) and passed."
    )
    add_json_option(parser, "what there is, and the checks,")


def run(options: argparse.Namespace) -> int:
    """Print versions and devices, and run the checks; return 1 if a check fails."""
    show = (lambda *_: None) if options.json else _print
    parts = {"versions": dict(_versions())}
    changed = _distributions.changed_files()
    is_ours = hasattr(echobuf, "EchoBuffer")  # else another package's `__init__.py`
    if is_ours:
        parts["devices"] = dict(devices())
    for part, lines in parts.items():
        show(f"{part.capitalize()}:")
        for name, text in lines.items():
            show(f"  {name:<{_WIDTH}} {text or 'not installed'}", 3 + _WIDTH)
    troubles = _distributions.troubles()
    if troubles:
        show("In the way:")
        for line in troubles:
            show(f"  {line}", 2)
    checks: list[dict[str, Any]] = []
    if is_ours:
        from echobuf.cli import selftest

        show("Self-test:")
        checks = [_checked(check, show) for check in selftest.CHECKS]
    passed = not changed and is_ours and all(check["passed"] for check in checks)
    if options.json:
        result = {"troubles": troubles, "checks": checks, "passed": passed}
        print_json({"format": 1, **parts, **result})
    return 0 if passed else 1


def _print(line: str, indent: int = 0) -> None:
    print(wrapped(line, indent), flush=True)


def _checked(check: Check, show: Callable[[str, int], None]) -> dict[str, Any]:
    """Run a check, print its result, and return it for JSON."""
    begin = time.perf_counter()
    try:
        detail, passed = check.run(), True
    except Exception as error:  # any error is the result of the check
        detail, passed = f"{type(error).__name__}: {message(error)}", False
    seconds = time.perf_counter() - begin
    mark, took = "OK  " if passed else "FAIL", f"{seconds:.1f} s"
    detail = " ".join(detail.split())
    show(f"  {mark} {check.title:<{_WIDTH}} {took:>6}  {detail}", 7)
    return {
        "title": check.title,
        "passed": passed,
        "seconds": round(seconds, 3),
        "detail": detail,
    }


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _versions() -> Iterator[tuple[str, str | None]]:
    yield "echobuf", __version__
    yield "Python", f"{platform.python_version()} ({platform.machine()})"
    for name in _PACKAGES:
        yield name, _installed(name)


def devices() -> Iterator[tuple[str, str]]:
    """Yield names and descriptions of the processor, the driver and CuPy."""
    from echobuf._core import CPU_VARIABLE, cpu_features

    yield "CPU cores", str(os.cpu_count())
    used, there = cpu_features(), cpu_features(in_use=False)
    value = os.environ.get(CPU_VARIABLE)
    yield "Instructions", instructions(used, there, CPU_VARIABLE, value)
    driver, text = _driver()
    yield "CUDA driver", text
    yield "CuPy", cupy_version(driver)


def instructions(
    used: Sequence[str], there: Sequence[str], variable: str, value: str | None
) -> str:
    """Return the vector instructions that run, and why the CPU's best ones do not.

    Args:
        used: the CPU's features that native code uses, the plain architecture first.
        there: the features that the CPU has.
        variable: the environment variable that lowers the level.
        value: its value, None if it is not set.
    """
    text = _vectors(used)
    if value is not None and value not in _LEVELS:
        levels = ", ".join(_LEVELS)
        return f"{text} ({variable}={value} is none of {levels}: it changes nothing)"
    if used != there:
        return f"{text} ({variable}={value}; this CPU has {_vectors(there)})"
    return f"{text} (all of this CPU's that are used)"


def _vectors(features: Sequence[str]) -> str:
    names = [
        _VECTORS[name]
        for name in features
        if name in _VECTORS and not (name == "avx2" and "avx512" in features)
    ]
    return ", ".join(names) or f"portable code for {features[0]}"


def _driver() -> tuple[int, str]:
    """Return the driver's version of CUDA (13000 is 13.0; 0 for none), and a text."""
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


def cupy_version(driver: int) -> str:
    """Return the version of CuPy, or how to install it for a driver's CUDA version."""
    for name in _CUPY:
        found = _installed(name)
        if found:
            return f"{found} ({name})"
    if not driver:
        return "not installed (nor needed without a CUDA driver)"
    extra = "cuda13" if driver >= 13000 else "cuda12"
    return f"not installed: pip install 'data-echoing[{extra}]'"
