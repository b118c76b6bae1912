"""`Lambda`: a function of the caller's on whole batches, after the fused part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.errors import SpecError
from echobuf.field import Field
from echobuf.transforms.after import After
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation


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
        chain.then(After(self.function, repr(self), name, field), field)
