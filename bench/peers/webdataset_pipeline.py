"""webdataset: a pipeline of a repeating stage, `shuffle` and `batched`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from echobuf.cli.bench.candidates.base import Echoing


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
        import webdataset

        self.webdataset = webdataset

    def batches(self) -> Iterator[Any]:
        wds = self.webdataset
        return iter(
            wds.DataPipeline(
                self.repeated,
                wds.shuffle(self.window, initial=self.window),
                wds.batched(self.batch, collation_fn=np.stack),
            )
        )
