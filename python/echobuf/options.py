"""The arguments of a buffer: checked, and brought into the form that the core takes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from echobuf.arguments import check_bool, check_int
from echobuf.errors import DeviceError, OptionError, show
from echobuf.ragged_options import RaggedOptions, check_ragged

Factor: TypeAlias = float | Fraction | Decimal | Literal["auto"]
Unit: TypeAlias = Literal["example", "batch"]

MAX_WINDOW = 2**31 - 1  # records: a place in a pass is a 32-bit number
_MAX_SEED = 2**64 - 1
_MAX_EPOCH = 2**63 - 1
_MAX_STALENESS = 2**63 - 1
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
    ragged: RaggedOptions
    with_info: bool = False
    max_staleness: int | None = None

    @property
    def whole_batches(self) -> bool:
        """True with `unit="batch"`: batches may be shorter than the spec."""
        return self.unit == "batch"

    def show_size(self, batch_size: int | None) -> str:
        """Return what a batch holds, for `repr`.

        Args:
            batch_size: as far as it is known.
        """
        if self.whole_batches:
            return ""
        if self.ragged.max_rows is not None:
            return f"max_rows={self.ragged.max_rows}, "
        packs = self.ragged.pack_to is not None
        rows = f"pack_to={self.ragged.pack_to}, " if packs else ""
        return f"batch_size={batch_size}, {rows}"

    @property
    def ratio(self) -> tuple[int, int] | None:
        """The factor as the core takes it."""
        if self.factor is None:
            return None
        return self.factor.numerator, self.factor.denominator


def check_options(  # noqa: PLR0913 - what users may say of a buffer
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
    payload_bytes: Any = None,
    ragged: Any = None,
    pad_value: Any = 0,
    pad_to: Any = None,
    max_rows: Any = None,
    pack_to: Any = None,
    overlong: Any = "error",
    with_info: Any = False,
    max_staleness: Any = None,
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
    of_ragged = check_ragged(
        payload_bytes=payload_bytes,
        ragged=ragged,
        pad_value=pad_value,
        pad_to=pad_to,
        max_rows=max_rows,
        pack_to=pack_to,
        overlong=overlong,
    )
    options = Options(
        batch_size=_check_batch_size(batch_size, unit, of_ragged.max_rows),
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
        ragged=of_ragged,
        with_info=check_bool("with_info", with_info),
        max_staleness=None
        if max_staleness is None
        else check_int("max_staleness", max_staleness, 0, _MAX_STALENESS),
    )
    _check_together(options)
    return options


def _may_be_transform(transform: Any) -> bool:
    """Check the form of `transform`; its leaves are checked with the spec."""
    if transform is None or isinstance(transform, Mapping | Sequence):
        return True
    return hasattr(transform, "add_to")


def _check_batch_size(batch_size: Any, unit: str, max_rows: int | None) -> int:
    if max_rows is not None and unit == "example":
        if batch_size is not None:
            raise OptionError(
                f"`batch_size` is {batch_size!r} and `max_rows` is {max_rows}; give "
                "one of them: `max_rows` makes batches of as many examples as fit."
            )
        return 1
    if unit == "example":
        if batch_size is None:
            raise OptionError(
                "`batch_size` is None; with unit='example' it must be an int >= 1, the "
                "number of examples in a batch. With ragged leaves `max_rows` may take "
                "its place."
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
    if options.whole_batches:
        _check_whole(options.ragged)
    if options.ragged.max_rows is not None and options.drop_last:
        raise OptionError(
            "`drop_last` is True, but with `max_rows` batches differ in size anyhow, "
            "and none is left out; leave `drop_last` out."
        )
    if options.with_info and options.ragged.pack_to is not None:
        raise OptionError(
            "`with_info` is True, and with `pack_to`, which is "
            f"{options.ragged.pack_to}, rows hold several examples, of which batches "
            "tell nothing yet: leave `with_info` out, or `pack_to`."
        )
    if options.max_staleness is not None and options.ragged.pack_to is not None:
        raise OptionError(
            f"`max_staleness` is {options.max_staleness}, and with `pack_to`, which is "
            f"{options.ragged.pack_to}, passes serve all records: leave "
            "`max_staleness` out, or `pack_to`."
        )
    if window < batch_size and options.ragged.pack_to is None:
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
    if factor.denominator == 1 or options.ragged.pack_to is not None:
        return
    most = math.floor(factor) * (window // math.ceil(factor))
    if batch_size > most:
        raise OptionError(
            f"`batch_size` is {batch_size}; with the fractional `factor` "
            f"{show_factor(factor)} and `window` {window} it must be at most "
            f"floor(factor) * (window // ceil(factor)) = {most}. Make the window "
            "larger, or round the factor."
        )


def _check_whole(ragged: RaggedOptions) -> None:
    """Raise `OptionError` for arguments that would make other batches of those put."""
    for name in ("max_rows", "pack_to"):
        value = getattr(ragged, name)
        if value is not None:
            raise OptionError(
                f"`{name}` is {value}, but `unit` is 'batch', and batches are served "
                f"with the examples that they were put with; leave `{name}` out, or "
                "say unit='example'."
            )


def show_factor(factor: Fraction | None) -> str:
    """Return the factor as the caller may have written it."""
    if factor is None:
        return "'auto'"
    return str(factor) if factor.denominator == 1 else repr(float(factor))


def check_epoch(epoch: Any) -> int:
    """Return `epoch` as an int; raise `OptionError` otherwise."""
    return check_int("epoch", epoch, 0, _MAX_EPOCH)


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
