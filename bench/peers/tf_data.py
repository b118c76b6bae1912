"""tf.data: `flat_map(repeat)` and `shuffle`, or `batch` and `repeat`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from echobuf.cli.bench.echoing import Echoing

BATCH = ("batch", "copied; read-only NumPy views of its tensors")
TIMED = ("timed", "everything; the source is a tensor made beforehand")


class _TfData(Echoing):
    packages = ("tensorflow-cpu", "numpy")

    def prepare(self) -> None:
        import os

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow as tf

        self.tf = tf
        source = tf.data.Dataset.from_tensor_slices(self.images)
        self.dataset = self.echo(source).prefetch(tf.data.AUTOTUNE)

    @abstractmethod
    def echo(self, source: Any) -> Any:
        """Return the dataset of batches."""

    def repeat(self, element: Any) -> Any:
        return self.tf.data.Dataset.from_tensors(element).repeat(self.factor)

    def batches(self) -> Iterator[Any]:
        return iter(self.dataset.as_numpy_iterator())


class Echo(_TfData):
    """Example echoing, with a shuffle buffer as large as the window."""

    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "a shuffle buffer of repeated examples"),
        ("duplicates in a batch", "yes"),
        BATCH,
        TIMED,
    )

    def echo(self, source: Any) -> Any:
        repeated = source.flat_map(self.repeat)
        return repeated.shuffle(self.window).batch(self.batch)


class BatchEcho(_TfData):
    """Batch echoing: examples are shuffled, and each batch comes e times in a row."""

    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "before batching; a batch is repeated as it is"),
        ("duplicates in a batch", "none"),
        BATCH,
        TIMED,
    )

    def echo(self, source: Any) -> Any:
        return source.shuffle(self.window).batch(self.batch).flat_map(self.repeat)
