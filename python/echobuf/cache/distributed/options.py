"""The arguments of a partitioned cache, checked."""

from __future__ import annotations

from typing import Any

from echobuf.errors import OptionError
from echobuf.options import check_timeout


def check_on_lost(on_lost: Any) -> str:
    """What to do then, or an `OptionError`."""
    if on_lost in ("storage", "raise"):
        return str(on_lost)
    raise OptionError(f"`on_lost` is {on_lost!r}; it must be 'storage' or 'raise'.")


def check_wait(timeout_s: Any) -> float:
    """Seconds, or an `OptionError`."""
    try:
        seconds = check_timeout(timeout_s)
    except OptionError:
        seconds = None
    if seconds is None or not 0 < seconds <= 1e6:
        raise OptionError(
            f"`timeout_s` is {timeout_s!r}; it must be seconds > 0, at most 1e6."
        )
    return seconds


def check_host(host: Any) -> str | None:
    """An address or None, or an `OptionError`."""
    if host is None or (isinstance(host, str) and host):
        return host
    raise OptionError(
        f"`host` is {host!r}; it must be an address of this machine, or None."
    )


def name_of(function: Any) -> str | None:
    """What tells functions apart in the same program on several ranks."""
    if function is None:
        return None
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}.{kind.__qualname__}"
