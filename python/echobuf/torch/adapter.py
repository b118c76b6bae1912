"""Torch's part of a loader: items of tensors, and batches of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from echobuf import nodes
from echobuf.buffer import EchoBuffer, engine_of
from echobuf.host_backend import HostBackend
from echobuf.loader.adapter import Adapter
from echobuf.torch import tensors
from echobuf.tree import flatten_with_paths


class TorchAdapter(Adapter):
    """Reads items as the first one was: its leaves come back as what they were."""

    def read_first(self, item: Any) -> Any:
        """The first item, of arrays; what its leaves are is kept for the rest."""
        nodes.learn(item)
        self._paths, leaves, self._treespec = flatten_with_paths(item)
        self._dtypes = [tensors.carried_dtype(leaf) for leaf in leaves]
        return self.reader()(item)

    def reader(self) -> Callable[[Any], Any]:
        """What makes an item of arrays, each leaf as it was in the first one."""
        return functools.partial(
            tensors.read_item, self._treespec, self._dtypes, self._paths
        )

    def carried(self) -> list[str | None]:
        """Return of each leaf of items the name of its dtype, if NumPy lacks it."""
        return [
            None if dtype is None else str(dtype).removeprefix("torch.")
            for dtype in self._dtypes
        ]

    def fit(self, buffer: EchoBuffer) -> None:
        """Has the buffer give tensors."""
        engine = engine_of(buffer)
        dtypes = tensors.drawn_dtypes(engine.output, self._dtypes)
        if isinstance(engine.backend, HostBackend):
            engine.backend.use_tensors(functools.partial(tensors.to_tensors, dtypes))
        else:
            engine.backend.use_tensors(dtypes)
