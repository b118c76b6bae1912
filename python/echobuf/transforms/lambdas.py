"""`Lambda`: a function of the caller's on whole batches, after the fused part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from echobuf.errors import SpecError, message, shorten, show
from echobuf.field import Field, is_ragged
from echobuf.ragged import Packed, Padded, Ragged
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

__all__ = ["Lambda"]

_FORMS = (Ragged, Padded, Packed)


@dataclass(frozen=True)
class BatchFunction:
    """A function on a leaf of whole batches, and the field that it must return.

    Attributes:
        function: the caller's.
        shown: its name in messages.
        name: the leaf's name in messages.
        field: of one example of its result.
    """

    function: Callable[[Any], Any]
    shown: str
    name: str
    field: Field

    def with_dtype(
        self, convert: Callable[[np.dtype[Any]], np.dtype[Any]]
    ) -> BatchFunction:
        """Return a copy for arrays that have other dtypes than NumPy's."""
        return replace(self, field=Field(self.field.shape, convert(self.field.dtype)))

    def apply(self, leaf: Any) -> Any:
        """Call the function on the leaf of a batch, and return its result.

        Raises:
            SpecError: the function raised, or returned another shape or dtype than
                declared.
        """
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


@dataclass(frozen=True, eq=False)
class Lambda(Operation):
    """A Python function, applied to a leaf of each batch after the rest of the chain.

    It runs on the thread that asks for the batch, in Python: all other operations are
    cheaper. All operations after it must be `Lambda`s, too.

    Args:
        function: takes the leaf of a batch, `[batch_size, *shape]` (fewer rows in the
            last batch), as the caller gets it: an array of NumPy or CuPy, or a tensor
            of torch; returns one of as many rows. For a ragged leaf it takes the
            `Ragged`, `Padded` or `Packed`, and returns such a one of as many examples,
            or an array of fixed shape, as `shape` says. It must draw no random numbers
            of another generator, or a resumed run differs.
        shape: of one example of the result, if the function changes it; None as axis 0
            for a ragged one.
        dtype: of the result, if the function changes it.

    Examples:
        >>> image = np.full((2, 2, 3), 5, np.uint8)
        >>> mean = T.Lambda(
        ...     lambda images: images.mean((1, 2)), shape=3, dtype=np.float64
        ... )
        >>> next(iter(EchoLoader([image], batch_size=1, transform=[mean])))
        array([[5., 5., 5.]])
    """

    function: Callable[[Any], Any]
    shape: Any = None
    dtype: Any = None
    on_batches = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise self.refusal("function", self.function, "a function")
        try:
            shape = () if self.shape is None else self.shape
            Field(shape, np.uint8 if self.dtype is None else self.dtype)
        except Exception as error:  # of any type that is no shape and no dtype
            said = f"those of an array: {shorten(message(error))}"
            raise self.refusal(
                "shape and dtype", (self.shape, self.dtype), said
            ) from None

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"Lambda({name})"

    def add_to(self, chain: Chain) -> None:
        shape = chain.shape if self.shape is None else self.shape
        field = Field(shape, chain.dtype if self.dtype is None else self.dtype)
        name = f"transform{chain.name}"
        chain.then(BatchFunction(self.function, repr(self), name, field), field)


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
