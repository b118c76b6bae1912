"""`BatchInfo`: which uses of which fresh examples a batch is made of."""

from __future__ import annotations

from typing import Any, NamedTuple


class BatchInfo(NamedTuple):
    """A description of the examples of a batch, one entry for each of them.

    With `with_info=True` each batch is a tuple `(batch, info)`. It is a named tuple,
    and so a pytree in JAX, optree and torch; its arrays are NumPy's, CuPy's, tensors
    or `jax.Array`s, as those of the batch are. (JAX makes int32 of int64 unless its 64
    bits are enabled.) With `unit="batch"` all examples of a batch have the same
    entries, those of the batch that was put.

    Attributes:
        index: int64 `[n]`, the number of the fresh example in its epoch, in the order
            of `put`, from 0 on; with `unit="batch"` that of the batch.
        echo: int32 `[n]`, how many times the example was served before in its epoch: 0
            for the first use.
        version: int64 `[n]`, the `version` that the example was put with, else 0.

    Examples:
        >>> buffer = EchoBuffer(
        ...     np.float32(0), batch_size=2, window=4, factor=2, with_info=True
        ... )
        >>> buffer.put_batch(np.arange(4, dtype=np.float32) / 10, version=7)
        >>> buffer.close()
        >>> for batch, info in buffer:
        ...     assert (batch == info.index.astype(np.float32) / 10).all()
        ...     print(info.echo.tolist(), info.version.tolist())
        [0, 0] [7, 7]
        [1, 0] [7, 7]
        [0, 1] [7, 7]
        [1, 1] [7, 7]
    """

    index: Any
    echo: Any
    version: Any
