"""The arguments of a buffer: checked by the table of options, and with each other."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeVar

from echobuf.arguments import BUFFER, REQUIRED, Option, Owner, show_factor
from echobuf.errors import OptionError, show
from echobuf.option_table import OptionTable

_Init = TypeVar("_Init", bound=Callable[..., None])


def options_of(owner: Owner) -> Iterator[tuple[str, Option[Any]]]:
    """Yield the names and rows of the options that an owner has."""
    for name, row in vars(OptionTable).items():
        if isinstance(row, Option) and row.is_of(owner):
            yield name, row


def defaults_of(owner: Owner) -> dict[str, Any]:
    """Return the default of each option that an owner need not be given."""
    defaults = {name: row.of(owner).default for name, row in options_of(owner)}
    return {name: value for name, value in defaults.items() if value is not REQUIRED}


def check_each(
    given: Mapping[str, Any], owner: Owner, *, beside: Owner = ()
) -> dict[str, Any]:
    """Return the values of an owner's options, each checked by itself.

    Raises:
        OptionError: an argument is out of range; the message names it.
    """
    return {
        name: row.check.read(name, given[name])
        for name, row in options_of(owner)
        if not row.is_of(beside)
    }


def shared_of(given: Mapping[str, Any], owner: Owner) -> dict[str, Any]:
    """Return those of the arguments that are an owner's."""
    return {name: given[name] for name, _ in options_of(owner) if name in given}


def takes_options(owner: Owner) -> Callable[[_Init], _Init]:
    """Make of an `__init__` without a body one that calls the method `_set_up`.

    That gets what is given by position, and the owner's options by name: those that
    are left out have their defaults. So the options that `__init__` declares, for
    readers and type checkers, are named nowhere else; `tests/written_options.py` writes
    them.
    """

    def decorate(init: _Init) -> _Init:
        code = init.__code__
        declared = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]}

        @functools.wraps(init)
        def collect(self: Any, *args: Any, **given: Any) -> None:
            defaults = defaults_of(owner)
            added = defaults.keys() - declared  # to the table, at run time
            # Raises Python's own TypeError for a wrong name.
            init(self, *args, **{n: v for n, v in given.items() if n not in added})
            self._set_up(*args, **{**defaults, **given})

        return collect  # type: ignore[return-value]

    return decorate


class Options(OptionTable):
    """The arguments of an `EchoBuffer`, checked: each attribute is one's value.

    `factor` is None for "auto", and `batch_size` 1 where it is left out.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def replaced(self, **values: Any) -> Options:
        """Return the same with other values, which are not checked."""
        return Options({**self.__dict__, **values})

    @property
    def whole_batches(self) -> bool:
        """True with `unit="batch"`: each record is a batch."""
        return self.unit == "batch"

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes of batches before those of a record's fields."""
        return () if self.whole_batches else (self.batch_size,)

    @property
    def noun(self) -> str:
        """The word for what is put: "examples", or "batches"."""
        return "batches" if self.whole_batches else "examples"

    @property
    def packs(self) -> bool:
        """True if whole examples are packed into rows."""
        return self.pack_to is not None

    @property
    def row_length(self) -> int:
        """The length of the rows that examples are packed into; 0 for no such rows."""
        return self.pack_to or 0

    @property
    def cuts(self) -> bool:
        """True if examples longer than a row are cut."""
        return self.overlong == "cut"

    @property
    def ratio(self) -> tuple[int, int] | None:
        """The numerator and the denominator of the factor."""
        if self.factor is None:
            return None
        return self.factor.numerator, self.factor.denominator

    @property
    def for_rows(self) -> str:
        """An argument that makes sense with ragged leaves alone, and its value.

        As `payload_bytes` is 1000; empty if none is given.
        """
        for name, row, value in self._values():
            if row.for_rows and row.is_given(value):
                return f"`{name}` is {value!r}"
        return ""

    def taking_memory(self) -> Iterator[tuple[str, int]]:
        """Yield the options that make the window, or its batches, larger."""
        for name, row, value in self._values():
            if row.takes_memory and value is not None and value > 1:
                yield name, value

    def in_core(self) -> dict[str, Any]:
        """Return the options that the core knows, by their names there."""
        return {
            row.core: row.to_core(value) if row.to_core else value
            for name, row, value in self._values()
            if row.core and (value is not None or row.to_core)
        }

    def in_state(self) -> dict[str, Any]:
        """Return the options that are part of a state, in its form."""
        return {
            name: row.to_state(value, self) if row.to_state else value
            for name, row, value in self._values()
            if row.state == "always" or (row.state and row.is_given(value))
        }

    def _values(self) -> Iterator[tuple[str, Option[Any], Any]]:
        for name, row in options_of(BUFFER):
            yield name, row, getattr(self, name)

    def show_size(self, batch_size: int | None) -> str:
        """Return what a batch holds, for `repr`."""
        if self.whole_batches:
            return ""
        if self.max_rows is not None:
            return f"max_rows={self.max_rows}, "
        rows = f"pack_to={self.pack_to}, " if self.packs else ""
        return f"batch_size={batch_size}, {rows}"


def check_options(**given: Any) -> Options:
    """Check the arguments of a buffer; those left out have their defaults.

    Raises:
        OptionError: an argument is out of range; the message names it.
        DeviceError: the device cannot be used here.
    """
    given = {**defaults_of(BUFFER), **given}
    options = Options(check_each(given, BUFFER))
    _check_packing(options)
    _check_size(options, given["batch_size"])
    _check_beside_rows(options)
    _check_window(options)
    return options


def check_nested(*, pad_to: Any, pack_to: Any, **_: Any) -> None:
    """Check the arguments of a loader whose batches are nested tensors."""
    if pad_to is not None:
        raise OptionError(
            f"`pad_to` is {pad_to!r}, but nested tensors have no padding; leave "
            "`pad_to` out, or say ragged='packed'."
        )
    if pack_to is not None:
        raise OptionError(
            f"`pack_to` is {pack_to!r} and `ragged` is 'nested'; leave one out: with "
            "`pack_to` whole examples share rows, and batches are `echobuf.Packed`."
        )


def _check_packing(options: Options) -> None:
    pack_to = options.pack_to
    if pack_to is None:
        if options.overlong == "cut":
            raise OptionError(
                "`overlong` is 'cut', but `pack_to` is None; leave `overlong` out, or "
                "give `pack_to`, the length that examples are cut to."
            )
        return
    if options.ragged == "padded":
        raise OptionError(
            f"`pack_to` is {pack_to} and `ragged` is 'padded'; leave one out: with "
            "`pack_to` whole examples share rows, and batches are `echobuf.Packed`."
        )
    for name in ("pad_to", "max_rows"):
        value = getattr(options, name)
        if value is not None:
            raise OptionError(
                f"`{name}` is {value} and `pack_to` is {pack_to}; leave `{name}` out: "
                "a batch is `batch_size` rows of `pack_to` values."
            )
    if options.with_info:
        raise OptionError(
            f"`with_info` is True, and with `pack_to`, which is {pack_to}, rows hold "
            "several examples, of which batches tell nothing yet: leave `with_info` "
            "out, or `pack_to`."
        )
    if options.max_staleness is not None:
        raise OptionError(
            f"`max_staleness` is {options.max_staleness}, and with `pack_to`, which is "
            f"{pack_to}, passes serve all records: leave `max_staleness` out, or "
            "`pack_to`."
        )


def _check_size(options: Options, given: Any) -> None:
    """Check `batch_size`, as it was given, beside what may take its place."""
    if options.whole_batches:
        if given is not None:
            raise OptionError(
                f"`batch_size` is {show(given)}; with unit='batch' leave it out: "
                "batches are served as they were put."
            )
    elif options.max_rows is not None:
        if given is not None:
            raise OptionError(
                f"`batch_size` is {given!r} and `max_rows` is {options.max_rows}; give "
                "one of them: `max_rows` makes batches of as many examples as fit."
            )
    elif given is None:
        raise OptionError(
            "`batch_size` is None; with unit='example' it must be an int >= 1, the "
            "number of examples in a batch. With ragged leaves `max_rows` may take "
            "its place."
        )


def _check_beside_rows(options: Options) -> None:
    """Refuse what does not go with `max_rows` and `pack_to`."""
    for name in ("max_rows", "pack_to"):
        value = getattr(options, name)
        if value is not None and options.whole_batches:
            raise OptionError(
                f"`{name}` is {value}, but `unit` is 'batch', and batches are served "
                f"with the examples that they were put with; leave `{name}` out, or "
                "say unit='example'."
            )
    if options.max_rows is not None and options.drop_last:
        raise OptionError(
            "`drop_last` is True, but with `max_rows` batches differ in size anyhow, "
            "and none is left out; leave `drop_last` out."
        )


def _check_window(options: Options) -> None:
    """Check that the window has room for what is drawn between two segments."""
    window, batch_size, factor = options.window, options.batch_size, options.factor
    if window < batch_size and not options.packs:
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
    if factor.denominator == 1 or options.packs:
        return
    most = _largest_batch(window, factor)
    if batch_size > most:
        raise OptionError(
            f"`batch_size` is {batch_size}; with the fractional `factor` "
            f"{show_factor(factor)} and `window` {window} it must be at most "
            f"floor(factor) * (window // ceil(factor)) = {most}. Make the window "
            "larger, or round the factor."
        )


def _largest_batch(window: int, factor: Fraction) -> int:
    return math.floor(factor) * (window // math.ceil(factor))
