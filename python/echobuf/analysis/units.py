"""Numbers with units as short text, a few characters each."""

from __future__ import annotations

import math

_TIMES = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_HUGE, _LEAST = 1e6, 1e-3  # beyond them numbers are written with powers of ten


def seconds(value: float) -> str:
    """Format a time as `1.25 ms`; minutes and hours from two of them on."""
    if not math.isfinite(value) or value == 0:
        return f"{number(value)} s"
    scale, unit = time_scale(abs(value))
    return f"{number(value / scale)} {unit}"


def interval(low: float, high: float) -> str:
    """Format two times in the unit of the upper one, as `1.20 .. 1.30 ms`."""
    scale, unit = time_scale(abs(high))
    least = low / scale
    return f"{number(least if least >= _LEAST else 0)} .. {number(high / scale)} {unit}"


def time_scale(value: float) -> tuple[float, str]:
    """Return the unit for a time, in seconds, and its name."""
    for unit, scale in _TIMES.items():
        if value >= (2 * scale if scale > 1 else scale):
            return scale, unit
    return (1e-9, "ns") if value > 0 else (1.0, "s")


def number(value: float) -> str:
    """Format with three digits: `1.25`, `12.5`, `125`, `1,250`, `1.2e+09`."""
    size = abs(value)
    if not math.isfinite(value):
        return "infinite" if size == math.inf else "unknown"
    if value == 0:
        return "0"
    if size >= _HUGE or 0 < size < _LEAST:
        return f"{value:.1e}"
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{1 if size >= 9.995 else 2 if size >= 0.9995 else 3}f}"


def times(value: float) -> str:
    """Format a ratio, with two decimals if that is enough: `0.86`, `4.05`, `12.5`."""
    return f"{value:.2f}" if 0.1 <= value < 1 else number(value)


def count(value: int) -> str:
    """Format a whole number, with commas as long as that is short."""
    return f"{value:,}" if abs(value) < 10**9 else f"{value:.1e}"


def factor(value: float | str) -> str:
    """Format a factor: `4`, `2.5`, `auto`."""
    return value if isinstance(value, str) else f"{value:g}"


def in_code(value: float | str) -> str:
    """Format a factor as Python code: `4`, `2.5`, `"auto"`."""
    return f'"{value}"' if isinstance(value, str) else factor(value)


def percent(share: float) -> str:
    """Format a share as `75 %`."""
    return f"{100 * share:.0f} %" if math.isfinite(share) else "unknown"


def size(value: int) -> str:
    """Format bytes as `1.25 GB` (powers of ten)."""
    left = float(value)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if left < 1000:
            return f"{number(left) if unit != 'bytes' else value} {unit}"
        left /= 1000
    return f"{number(left)} PB"
