"""The arguments of a buffer: checked, and brought into the form that the core takes."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from echobuf.errors import DeviceError, OptionError, show

Factor: TypeAlias = float | Fraction | Decimal | Literal["auto"]
Unit: TypeAlias = Literal["example", "batch"]

MAX_WINDOW = 2**31 - 1  # records: a place in a pass is a 32-bit number
_MAX_SEED = 2**64 - 1
_MAX_EPOCH = 2**63 - 1
_MAX_ORDINAL = 2**15
# Floating-point factors are read as the nearest ratio with a denominator up to this:
# 3.3 means 33/10, and drifts by less than a record in 10^6 of them.
_MAX_DENOMINATOR = 1_000_000
_EXACT = (numbers.Rational, Decimal)
_REAL = (numbers.Real, Decimal)


@dataclass(frozen=True)
class Options:
    """The arguments of an `EchoBuffer`, checked. `factor` is None for "auto"."""

    batch_size: int
    window: int
    factor: Fraction | None
    max_factor: int
    unit: str
    device: str
    seed: int
    prefetch: int
    drop_last: bool
    max_bytes: int | None

    @property
    def ragged(self) -> bool:
        """True with `unit="batch"`: batches may be shorter than the spec."""
        return self.unit == "batch"

    @property
    def ratio(self) -> tuple[int, int] | None:
        """The factor as the core takes it."""
        if self.factor is None:
            return None
        return self.factor.numerator, self.factor.denominator


def check_options(
    *,
    batch_size: Any,
    window: Any,
    factor: Any,
    max_factor: Any,
    unit: Any,
    device: Any,
    seed: Any,
    transform: Any,
    prefetch: Any,
    drop_last: Any,
    max_bytes: Any,
) -> Options:
    """Check every argument.

    Raises:
        OptionError: an argument is out of range; the message names it.
        DeviceError: the device cannot be used here.
    """
    if unit not in ("example", "batch"):
        raise OptionError(f"`unit` is {show(unit)}; it must be 'example' or 'batch'.")
    if isinstance(transform, str) or not _may_be_transform(transform):
        raise OptionError(
            f"`transform` is {show(transform)}; it must be a mapping from leaves to "
            "lists of operations of `echobuf.transforms`."
        )
    options = Options(
        batch_size=_check_batch_size(batch_size, unit),
        window=check_int("window", window, 1, None),
        factor=check_factor(factor),
        max_factor=check_int("max_factor", max_factor, 1, 2**31 - 1),
        unit=unit,
        device=check_device(device),
        seed=check_int("seed", seed, 0, _MAX_SEED),
        prefetch=check_int("prefetch", prefetch, 0, 2**20),
        drop_last=check_bool("drop_last", drop_last),
        max_bytes=None
        if max_bytes is None
        else check_int("max_bytes", max_bytes, 0, None),
    )
    _check_together(options)
    return options


def _may_be_transform(transform: Any) -> bool:
    """Check the form of `transform`; its leaves are checked with the spec."""
    kinds = (Mapping, Sequence)
    return (
        transform is None
        or isinstance(transform, kinds)
        or hasattr(transform, "add_to")
    )


def _check_batch_size(batch_size: Any, unit: str) -> int:
    if unit == "example":
        if batch_size is None:
            raise OptionError(
                "`batch_size` is None; with unit='example' it must be an int >= 1, the "
                "number of examples in a batch."
            )
        return check_int("batch_size", batch_size, 1, None)
    if batch_size is not None:
        raise OptionError(
            f"`batch_size` is {show(batch_size)}; with unit='batch' leave it out: "
            "batches are served as they were put."
        )
    return 1


def _check_together(options: Options) -> None:
    window, batch_size, factor = options.window, options.batch_size, options.factor
    if window < batch_size:
        raise OptionError(
            f"`window` is {window}; it must be at least `batch_size`, which is "
            f"{batch_size}. Make the window larger."
        )
    if factor is None:
        return
    if window < factor:
        raise OptionError(
            f"`window` is {window}; it must be at least `factor`, which is "
            f"{show_factor(factor)}. Make the window larger or the factor smaller."
        )
    if factor.denominator == 1:
        return
    most = math.floor(factor) * (window // math.ceil(factor))
    if batch_size > most:
        raise OptionError(
            f"`batch_size` is {batch_size}; with the fractional `factor` "
            f"{show_factor(factor)} and `window` {window} it must be at most "
            f"floor(factor) * (window // ceil(factor)) = {most}. Make the window "
            "larger, or round the factor."
        )


def show_factor(factor: Fraction | None) -> str:
    """Return the factor as the caller may have written it."""
    if factor is None:
        return "'auto'"
    return str(factor) if factor.denominator == 1 else repr(float(factor))


def check_int(name: str, value: Any, least: int, most: int | None) -> int:
    """Return `value` as an int within bounds; raise `OptionError` otherwise."""
    result = as_int(value)
    if result is None or result < least or (most is not None and result > most):
        bounds = f">= {least}" if most is None else f"from {least} to {most}"
        raise OptionError(f"`{name}` is {show(value)}; it must be an int {bounds}.")
    return result


def as_int(value: Any) -> int | None:
    """Return an int, one of NumPy too, as an int; None for anything else, and bools."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except Exception:  # `TypeError` mostly; an `__index__` of users may raise anything
        return None


def check_epoch(epoch: Any) -> int:
    """Return `epoch` as an int; raise `OptionError` otherwise."""
    return check_int("epoch", epoch, 0, _MAX_EPOCH)


def check_bool(name: str, value: Any) -> bool:
    """Return a bool as it is; raise `OptionError` for anything else."""
    if value is True or value is False:
        return bool(value)
    raise OptionError(f"`{name}` is {show(value)}; it must be True or False.")


def check_factor(factor: Any) -> Fraction | None:
    """Return the factor as a ratio, None for "auto"."""
    if isinstance(factor, str) and factor == "auto":
        return None
    try:
        if isinstance(factor, bool) or not isinstance(factor, _REAL):
            raise TypeError
        exact = Fraction(factor if isinstance(factor, _EXACT) else float(factor))
    except (TypeError, ValueError, OverflowError):  # complex, NaN, infinity
        raise OptionError(
            f"`factor` is {show(factor)}; it must be a finite number >= 1, or 'auto'."
        ) from None
    if exact < 1:
        raise OptionError(
            f"`factor` is {show(factor)}; it must be a number >= 1 (each fresh example "
            "is served at least once), or 'auto'."
        )
    return exact.limit_denominator(_MAX_DENOMINATOR)


def check_device(device: Any) -> str:
    """Return the name of the device; whether it can be used is asked when it is."""
    if type(device).__module__ == "torch" and type(device).__name__ == "device":
        device = str(device)
    if not isinstance(device, str):
        raise OptionError(
            f"`device` is {show(device)}; it must be 'cpu', 'cuda' or 'cuda:N'."
        )
    if device == "cpu":
        return device
    kind, colon, number = device.partition(":")
    if kind != "cuda" or (colon and not (number.isascii() and number.isdigit())):
        raise OptionError(
            f"`device` is {show(device)}; it must be 'cpu', 'cuda' or 'cuda:N'."
        )
    if colon and int(number) > _MAX_ORDINAL:
        raise DeviceError(
            f"`device` is {show(device)}; no machine has so many devices."
        )
    return device


def check_timeout(timeout: Any) -> float | None:
    """Return `timeout` in seconds; raise `OptionError` otherwise."""
    if timeout is None:
        return None
    try:
        if isinstance(timeout, bool) or not isinstance(timeout, _REAL):
            raise TypeError
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not seconds >= 0:
        raise OptionError(
            f"`timeout` is {show(timeout)}; it must be seconds >= 0, or None to wait "
            "for as long as it takes."
        )
    return seconds
