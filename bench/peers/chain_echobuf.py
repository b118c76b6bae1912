"""echobuf: batches drawn and augmented in one."""

from __future__ import annotations

from typing import Any

import numpy as np

import echobuf
from echobuf import transforms
from peers.chain_images import Chained


class Draw(Chained):
    """A window of all images, swept again and again."""

    packages = ("numpy", "echobuf")
    guarantees = (
        ("exact use", "once a pass"),
        ("shuffled", "uniformly, over the window"),
        ("duplicates in a batch", "none"),
        ("batch", "recycled memory, or the same of `numpy.empty` as `out=`"),
        ("timed", "the draw, shuffling included"),
    )
    operations = frozenset(transforms.__all__)
    dtypes = frozenset({"uint8", "float32", "float16", "bfloat16"})

    def open(self) -> None:
        chains = {"image": self._operations(self.chain)}
        for view in range(1, self.views):
            made = self._operations(self.chain)
            chains[f"view{view}"] = [transforms.Source("image"), *made]
        spec = {"image": echobuf.Field(self.images.shape[1:], self.images.dtype)}
        items = {"image": self.images}
        if {"MixUp", "CutMix"} & {name for name, _ in self.chain}:
            spec["label"] = echobuf.Field((), np.int64)
            items["label"] = self.labels
        self.buffer = echobuf.EchoBuffer(
            spec,
            batch_size=self.batch,
            window=len(self.images),
            factor="auto",
            max_factor=2**31 - 1,
            transform=chains,
        )
        self.buffer.put_batch(items)
        self.out = None
        if self.settings.get("out"):
            batch = self.buffer.next_batch()
            # As large arrays of NumPy's lie: 16 bytes past a page.
            self.out = {
                name: np.empty(array.shape, array.dtype)
                for name, array in batch.items()
            }

    def _operations(self, chain: Any) -> list[Any]:
        return [self._operation(*operation) for operation in chain]

    def _operation(self, name: str, arguments: dict[str, Any]) -> Any:
        if "transforms" in arguments:
            inner = self._operations(arguments["transforms"])
            arguments = {**arguments, "transforms": inner}
        return getattr(transforms, name)(**arguments)

    def make(self, first: int) -> Any:
        return self.buffer.next_batch(out=self.out)

    def to_numpy(self, batch: Any) -> tuple[Any, str]:
        images = [batch[name] for name in batch if name != "label"]
        return np.concatenate(images).astype(np.float32), str(images[0].dtype)
