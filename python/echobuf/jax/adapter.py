"""JAX's part of a loader: items as JAX sees them, and batches of its arrays."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from echobuf import hints, nodes
from echobuf._engine.backends import HostBackend
from echobuf._engine.ragged_forms import RaggedLeaf
from echobuf.cuda.device import is_simulated
from echobuf.errors import OptionError
from echobuf.jax import arrays
from echobuf.jax.arrays import Placement
from echobuf.loader.items import Adapter
from echobuf.loader_buffer import LoaderBuffer
from echobuf.spec import refuse_dtypes
from echobuf.trees import flatten, map_leaves


class ItemAdapter(Adapter):
    """An adapter that only reads items, as JAX sees them."""

    takes_none = True  # a node without leaves, as in JAX

    def __init__(self) -> None:
        self._has_tensors = False

    def learn(self, item: Any) -> None:
        """Make nodes of the containers that JAX knows."""
        nodes.learn_of_jax(item)

    def read_first(self, item: Any) -> Any:
        """Read the first item, and register its containers."""
        self.learn(item)
        self._has_tensors = _has_tensors(item)
        return self.decoder()(item)

    def decoder(self) -> Callable[[Any], Any]:
        """Return a function that reads tensors of torch's that NumPy cannot read."""
        return _read_tensors if self._has_tensors else super().decoder()


class JaxAdapter(ItemAdapter):
    """An adapter that makes batches of `jax.Array`s.

    Args:
        place: the device or sharding of the arrays.
        is_sharded: whether they are a process's part of global arrays.
    """

    def __init__(self, place: Placement, is_sharded: bool) -> None:
        super().__init__()
        self._place = place
        self._is_sharded = is_sharded

    def in_worker(self) -> Adapter:
        """Return an adapter for a worker, which uses no device."""
        return ItemAdapter()

    def fit(self, buffer: LoaderBuffer) -> None:
        """Make the buffer return JAX's arrays.

        Raises:
            SpecError: a leaf has a dtype that JAX lacks.
            OptionError: batches of ragged leaves are to be sharded.
        """
        _check_dtypes(buffer)
        target = self._place.target
        backend = buffer.backend
        if self._is_sharded and buffer.output.drawn.is_ragged:
            raise OptionError(
                "`sharding` is given, and examples have ragged leaves, whose batches "
                "are not there yet as global arrays; leave `sharding` out, or pad the "
                "examples to one length."
            )
        if self._is_sharded:
            assert isinstance(backend, HostBackend)
            lead = buffer.options.lead
            backend.use_tensors(arrays.to_global(target, buffer.output.drawn, lead))
        elif isinstance(backend, HostBackend):
            if buffer.spec.is_ragged:  # `Ragged` and `Padded` are pytrees
                backend.use_tensors(arrays.from_numpy(target))
            elif backend.exportable() and arrays.exportable(buffer.output.drawn):
                backend.use_tensors(arrays.from_exported(target), exported=True)
            else:
                backend.use_tensors(arrays.from_numpy(target))
        elif is_simulated():
            backend.use_converted(arrays.copies_of_numpy)
        else:
            from echobuf.cuda.cupy_arrays import use_stream

            on_stream = functools.partial(use_stream, backend.ordinal)
            backend.use_converted(arrays.FromCupy(on_stream))
        if buffer.functions is not None:
            buffer.functions.use_dtypes(arrays.canonical)


def _check_dtypes(buffer: LoaderBuffer) -> None:
    spec = buffer.output.spec
    lacking: dict[str, np.dtype[Any]] = {}
    for field, path in zip(spec.fields, spec.paths, strict=True):
        try:
            arrays.canonical(field.dtype)
        except TypeError:
            lacking[path] = field.dtype
    refuse_dtypes("JAX", lacking)


def _has_tensors(item: Any) -> bool:
    """Return whether a leaf of `item` is a tensor of torch's."""
    if "torch" not in sys.modules:
        return False
    kind = sys.modules["torch"].Tensor
    leaves, _ = flatten(item)
    return any(isinstance(leaf, kind | RaggedLeaf) for leaf in leaves)


def _read_tensors(item: Any) -> Any:
    """Return `item` with arrays, bit for bit, for tensors that NumPy cannot read."""
    return map_leaves(_read, item)


def _read(leaf: Any) -> Any:
    torch = sys.modules["torch"]
    if isinstance(leaf, RaggedLeaf):
        return leaf.map(_read)
    if not isinstance(leaf, torch.Tensor):
        return leaf
    name = str(leaf.dtype).removeprefix("torch.")
    is_plain = leaf.device.type == "cpu" and leaf.layout == torch.strided
    if name not in hints.FOREIGN or not is_plain:
        return leaf
    carrier = torch.int16 if leaf.dtype.itemsize == 2 else torch.uint8
    bits = leaf.detach().contiguous().view(carrier).numpy()
    return bits.view(np.dtype(getattr(ml_dtypes, name)))
