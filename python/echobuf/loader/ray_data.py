"""Ray Data as upstream: a dataset, or one trainer's shard of it. Imports nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf import hints
from echobuf.errors import OptionError

_BATCH_SIZE = 256  # Ray's own


class RayBatches:
    """The batches of a `Dataset` or a `DataIterator`, read anew in each epoch.

    Args:
        data: has `iter_batches`, and is no iterable itself.
        batch_size: examples in each batch but the last.
    """

    def __init__(self, data: Any, batch_size: int) -> None:
        self._data = data
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[Any]:
        batches = self._data.iter_batches(
            batch_size=self._batch_size, batch_format="numpy"
        )
        return iter(batches)


def as_batches(
    upstream: Any, *, batch_size: Any, batched: Any, overlap_epochs: Any = False
) -> Any:
    """The batches of what is Ray's; anything else as it is.

    Args:
        upstream: as for `EchoLoader`, like the others.
        batch_size: those of Ray have as many examples; 256 unless told.
        batched: not False, where `upstream` is Ray's.
        overlap_epochs: not with one of several shards.

    Raises:
        OptionError: the others do not go with Ray's.
    """
    if not is_ray_s(upstream):
        return upstream
    kind = type(upstream).__name__
    if batched is False:
        raise OptionError(
            f"`batched` is False, but `upstream` is a {kind} of Ray, which is read in "
            "batches; leave `batched` out."
        )
    if overlap_epochs and hints.is_of(upstream, "ray", "StreamSplitDataIterator"):
        raise OptionError(
            "`overlap_epochs` is True, but `upstream` is one of several shards, all of "
            "which Ray begins together: a trainer that begins early would wait for "
            "the others, and they for its step. Leave `overlap_epochs` out."
        )
    is_size = isinstance(batch_size, int) and batch_size > 0  # else refused elsewhere
    return RayBatches(upstream, batch_size if is_size else _BATCH_SIZE)


def is_ray_s(upstream: Any) -> bool:
    """Whether it is a `ray.data.Dataset` or a `ray.data.DataIterator`."""
    return any(hints.is_of(upstream, "ray", n) for n in ("Dataset", "DataIterator"))
