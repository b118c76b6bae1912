"""webdataset: a pipeline of a repeating stage, `shuffle` and `batched`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.echoing import Echoing


def pipeline(stream: Echoing, **collation: Any) -> Iterable[Any]:
    """Return a pipeline that repeats, shuffles and batches a stream."""
    import webdataset as wds

    return wds.DataPipeline(
        stream.repeated,
        wds.shuffle(stream.window, initial=stream.window),
        wds.batched(stream.batch, **collation),
    )


class Echo(Echoing):
    """Samples are arrays, stacked by NumPy; no workers, as nothing is decoded."""

    packages = ("webdataset", "numpy")
    guarantees = (
        ("exact use", "yes"),
        ("shuffled", "a shuffle buffer of repeated examples"),
        ("duplicates in a batch", "yes"),
        ("batch", "copied; the caller's"),
        ("timed", "everything; the buffer holds views of upstream, no copy in"),
    )

    def prepare(self) -> None:
        self.pipeline = pipeline(self, collation_fn=np.stack)

    def batches(self) -> Iterator[Any]:
        return iter(self.pipeline)
