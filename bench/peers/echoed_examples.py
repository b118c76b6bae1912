"""Peers that echo a generator of examples, as their users would write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.data_loader import BUFFERED
from echobuf.cli.bench.echoing import TIMED, Echoing
from peers.replay import REPLAY
from peers.webdataset_pipeline import pipeline


class Webdataset(Echoing):
    """A pipeline of a repeating stage, `shuffle` and `batched`."""

    packages = ("webdataset", "numpy")
    guarantees = (*BUFFERED, ("batch", "copied; the caller's"), TIMED)

    def prepare(self) -> None:
        self.pipeline = pipeline(self)

    def batches(self) -> Iterator[Any]:
        return iter(self.pipeline)


class Cpprb(Echoing):
    """`add` of each example, and as many draws as e wants, uniform."""

    packages = ("cpprb", "numpy")
    guarantees = (*REPLAY, ("batch", "copied; the caller's"), TIMED)
    exact = False

    def prepare(self) -> None:
        from cpprb import ReplayBuffer

        fields = {
            name: {"shape": array.shape[1:] or 1, "dtype": array.dtype}
            for name, array in self.records.items()
        }
        self.buffer = ReplayBuffer(self.window, fields)

    def read(self, batch: Any) -> tuple[Any, Any]:
        images, labels = super().read(batch)
        return images, labels.ravel()

    def batches(self) -> Iterator[Any]:
        fresh = self.batch // self.factor
        for number, (image, label) in enumerate(self.examples(), start=1):
            self.buffer.add(image=image, label=label)
            if number % fresh == 0:
                drawn = self.buffer.sample(self.batch)
                yield drawn["image"], drawn["label"]


class TfData(Echoing):
    """`from_generator`, `flat_map(repeat)` and `shuffle`."""

    packages = ("tensorflow-cpu", "numpy")
    guarantees = (
        *BUFFERED,
        ("batch", "copied; read-only NumPy views of its tensors"),
        TIMED,
    )

    def prepare(self) -> None:
        import os

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow as tf

        data = tf.data.Dataset

        def repeat(*example: Any) -> Any:
            return data.from_tensors(example).repeat(self.factor)

        source = data.from_generator(
            self.examples,
            output_signature=(
                tf.TensorSpec(self.images.shape[1:], tf.uint8),
                tf.TensorSpec((), tf.int64),
            ),
        )
        echoed = source.flat_map(repeat).shuffle(self.window)
        self.dataset = echoed.batch(self.batch).prefetch(tf.data.AUTOTUNE)

    def batches(self) -> Iterator[Any]:
        return iter(self.dataset.as_numpy_iterator())
