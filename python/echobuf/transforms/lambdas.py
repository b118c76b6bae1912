"""`Lambda`: a function of the caller's on whole batches, after the fused part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.errors import message, shorten
from echobuf.field import Field
from echobuf.output_spec import BatchFunction
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

__all__ = ["Lambda"]


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
