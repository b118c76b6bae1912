"""What a function on whole batches makes of a leaf, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from echobuf.describe_error import message
from echobuf.errors import SpecError
from echobuf.field import Field


@dataclass(frozen=True)
class After:
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

    def with_dtype(self, convert: Callable[[np.dtype[Any]], np.dtype[Any]]) -> After:
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


def _show(result: Any) -> str:
    shape = getattr(result, "shape", None)
    if shape is None:
        return f"a {type(result).__name__}"
    return f"{getattr(result, 'dtype', type(result).__name__)}{list(shape)}"
