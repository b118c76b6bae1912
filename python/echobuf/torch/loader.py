"""`EchoLoader` for torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from echobuf import nodes
from echobuf.errors import EchobufError
from echobuf.loader.loader import EchoLoader as _EchoLoader
from echobuf.loader.source import yields_batches
from echobuf.side_host import HostSide
from echobuf.torch import tensors
from echobuf.torch.epoch_setter import EpochSetter
from echobuf.tree import flatten_with_paths


class EchoLoader(_EchoLoader):
    """Echoes what an iterable or a DataLoader yields, in batches of tensors.

    Takes the arguments of `echobuf.EchoLoader`. A `torch.utils.data.DataLoader` that
    makes batches is taken as it is: `batched` is True, and `batch_size` that of the
    DataLoader, unless told.

    On the CPU the tensors of a batch share the memory that the batch was drawn into; it
    stays valid as long as one of them lives, and is the caller's to change. On a CUDA
    device they come from torch's caching allocator, and are drawn on torch's current
    stream.
    """

    @property
    def batch_sampler(self) -> EpochSetter:
        """Where trainers look for `sampler.set_epoch`: it is that of the loader."""
        return EpochSetter(self)

    def _default_batched(self) -> bool:
        return yields_batches(self._upstream.iterable)

    def _read_first(self, item: Any) -> Any:
        nodes.learn(item)
        self._paths, leaves, self._treespec = flatten_with_paths(item)
        self._dtypes = [tensors.carried_dtype(leaf) for leaf in leaves]
        return self._reader()(item)

    def _reader(self) -> Callable[[Any], Any]:
        return functools.partial(
            tensors.read_item, self._treespec, self._dtypes, self._paths
        )

    def _make_buffer(self, first: Any) -> Any:
        buffer = super()._make_buffer(first)
        try:
            dtypes = tensors.drawn_dtypes(buffer._made, self._dtypes)
            if isinstance(buffer._side, HostSide):
                buffer._side.use_tensors(functools.partial(tensors.to_tensors, dtypes))
            else:
                buffer._side.use_tensors(dtypes)
        except EchobufError:
            buffer._core.release()  # though the error may keep hold of it
            raise
        return buffer
