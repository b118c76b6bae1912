"""`Lambda`: a function of the caller's on whole batches, after the fused part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from echobuf.describe_error import message
from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation


@dataclass(frozen=True)
class BatchFunction:
    """A function on a leaf of whole batches, and what must come out.

    Attributes:
        function: the caller's.
        shown: what it is called in messages.
        name: of the leaf, likewise.
        field: of one example of what must come out.
    """

    function: Callable[[Any], Any]
    shown: str
    name: str
    field: Field

    def with_dtype(
        self, convert: Callable[[np.dtype[Any]], np.dtype[Any]]
    ) -> BatchFunction:
        """The same for arrays that have other dtypes than NumPy's."""
        return replace(self, field=Field(self.field.shape, convert(self.field.dtype)))

    def apply(self, leaf: Any) -> Any:
        """What the function makes of the leaf of a batch.

        Raises:
            SpecError: the function raised, or returned something else than it said.
        """
        rows = len(leaf)
        try:
            result = self.function(leaf)
        except Exception as error:
            raise SpecError(
                f"`{self.name}`: {self.shown} raised {type(error).__name__}: "
                f"{message(error)}. The batch is not lost: the next call tries again."
            ) from error
        wanted = (rows, *self.field.shape)
        shape = getattr(result, "shape", None)
        if shape is None or tuple(shape) != wanted or not self._has_dtype(result):
            raise SpecError(
                f"`{self.name}`: {self.shown} returned {_show(result)}; it must "
                f"return {self.field.dtype}{list(wanted)}. Say `shape=` and `dtype=` "
                "of one example where the function changes them."
            )
        return result

    def _has_dtype(self, result: Any) -> bool:
        name = str(getattr(result, "dtype", "")).removeprefix("torch.")
        return name == self.field.dtype.name


@dataclass(frozen=True, eq=False)
class Lambda(Operation):
    """Applies a function to a leaf of each batch, once the rest of the chain is done.

    It runs on the thread that asks for the batch, in Python: all other operations are
    cheaper. Whatever stands behind it must be a `Lambda`, too.

    Args:
        function: takes the leaf of a batch, `[batch_size, *shape]` (fewer rows in a
            ragged tail), as the caller gets it: an array of NumPy or CuPy, or a tensor
            of torch; returns one of as many rows. What it does must not depend on
            chance of its own, or a resumed run differs.
        shape: of one example afterwards, if the function changes it.
        dtype: afterwards, if the function changes it.
    """

    function: Callable[[Any], Any]
    shape: Any = None
    dtype: Any = None
    on_batches = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise self.refusal("function", self.function, "a function")
        try:
            Field(() if self.shape is None else self.shape, self.dtype or np.uint8)
        except SpecError as error:
            raise self.refusal(
                "shape and dtype",
                (self.shape, self.dtype),
                f"those of an array: {error}",
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
