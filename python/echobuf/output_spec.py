"""Batches after `transform`: their leaves, and functions on whole batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import _core
from echobuf.errors import SpecError, message, show
from echobuf.field import Field, is_ragged
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.spec import Spec, describe

if TYPE_CHECKING:
    from pathlib import Path

_FORMS = (Ragged, Padded, Packed)


@dataclass(frozen=True)
class BatchFunction:
    """A function on a leaf of whole batches, and the field that it must return."""

    function: Callable[[Any], Any]  # the caller's
    shown: str  # its name in messages
    name: str  # the leaf's name in messages
    field: Field  # of one example of its result

    def with_dtype(
        self, convert: Callable[[np.dtype[Any]], np.dtype[Any]]
    ) -> BatchFunction:
        """Return a copy for arrays that have other dtypes than NumPy's."""
        return replace(self, field=Field(self.field.shape, convert(self.field.dtype)))

    def apply(self, leaf: Any) -> Any:
        """Call the function on the leaf of a batch, and return its result."""
        count = _count(leaf)
        try:
            result = self.function(leaf)
        except Exception as error:
            raise SpecError(
                f"`{self.name}`: {self.shown} raised {type(error).__name__}: "
                f"{message(error)}. The batch is not lost: the next call tries again."
            ) from error
        if is_ragged(self.field):
            self._check_ragged(result, leaf, count)
            return result
        wanted = (count, *self.field.shape)
        shape = getattr(result, "shape", None)
        if shape is None or tuple(shape) != wanted or not self._has_dtype(result):
            raise SpecError(
                f"`{self.name}`: {self.shown} returned {_show(result)}; it must "
                f"return {self.field.dtype}{list(wanted)}. Say `shape=` and `dtype=` "
                "of one example where the function changes them."
            )
        return result

    def _check_ragged(self, result: Any, leaf: Any, count: int) -> None:
        """Raise unless the result is in a form of ragged leaves, and as declared."""
        if getattr(result, "is_nested", False):
            result = Ragged(result.values(), result.offsets())
        if not isinstance(result, _FORMS):
            of = type(leaf).__name__ if isinstance(leaf, _FORMS) else "Ragged"
            raise SpecError(
                f"`{self.name}`: {self.shown} returned {_show(result)}; it must "
                f"return an echobuf.{of}, such as `leaf._replace(values=...)`. Say "
                "`shape=` of one example where the result is an array of fixed shape."
            )
        lead = 1 if isinstance(result, Ragged) else 2
        shape = tuple(getattr(result.values, "shape", ()))
        rest = tuple(self.field.shape[1:])
        fits = len(shape) == lead + len(rest) and shape[lead:] == rest
        if fits and self._has_dtype(result.values) and _count(result) == count:
            return
        raise SpecError(
            f"`{self.name}`: {self.shown} returned {type(result).__name__} of "
            f"{_count(result)} examples, whose values are {_show(result.values)}; it "
            f"must return {count} examples of {self.field.dtype}"
            f"{show(list(self.field.shape))}. Say `shape=`, None as axis 0, and "
            "`dtype=` of one example where the function changes them."
        )

    def _has_dtype(self, result: Any) -> bool:
        name = str(getattr(result, "dtype", "")).removeprefix("torch.")
        return name == self.field.dtype.name


def _show(result: Any) -> str:
    shape = getattr(result, "shape", None)
    if shape is None:
        return f"a {type(result).__name__}"
    return f"{getattr(result, 'dtype', type(result).__name__)}{list(shape)}"


def _count(leaf: Any) -> int:
    """Return the number of examples of a leaf, of rows where these are packed."""
    if isinstance(leaf, Ragged):
        return len(leaf.offsets) - 1
    return len(leaf.values if isinstance(leaf, _FORMS) else leaf)


@dataclass(frozen=True)
class OutputSpec:
    """The specification of batches: their leaves, and how each is made."""

    spec: Spec  # of one example (of one whole batch) as batches have it
    drawn: Spec  # the same before functions on whole batches
    # Of each leaf: its field of the record, and the plan of its chain; None: the field
    # as it is
    plans: tuple[tuple[int, _core.ChainPlan | None], ...]
    # Of each leaf that is made of a ragged one: the plan of its chain. None: the field
    # as it is, or `plans` says how.
    rows: tuple[_core.RowsPlan | None, ...]
    # Of each leaf: functions on whole batches
    functions: tuple[tuple[BatchFunction, ...], ...]
    # The chains in words, by leaf; empty if there are none
    chains: dict[str, list[str]]
    # Of the operations of chains in random draws, by leaf
    numbers: dict[str, list[int]]

    def show(self) -> str:
        """Return the chains and their results in words, for `repr`."""
        if not self.chains:
            return ""
        chains = ", ".join(
            f"{leaf}: [{', '.join(chain)}]" for leaf, chain in self.chains.items()
        )
        return f", transform={{{chains}}} -> {describe(self.spec)}"


# ---- operations of the caller's in C++, `transforms.Custom`, as kernels include them


@dataclass(eq=False, repr=False)
class CustomSource:
    """An operation that is a struct in a header."""

    header: Path  # the file
    digest: str  # of all headers that it is compiled from
    # Returns the struct with settings, which are its bytes, in C++
    literal: Callable[[bytes], str]


sources: dict[int, CustomSource] = {}
"""The operations that were compiled for the host, by the addresses of their tables."""
