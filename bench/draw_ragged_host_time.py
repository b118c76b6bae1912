"""Time of the host for a draw of ragged batches on a device that does nothing.

Batches of 256 token sequences (int32, log-normal lengths, mean 512, cut at 8,192) from
a window of 4,096: packed, where nearly every batch has another length, and padded; both
also with lengths rounded up to multiples of 4,096. The driver is that of
draw_host_time.py; a batch's arrays are views of one block, made for each, so that what
is not timed is the allocation. It needs a C++ compiler, and no GPU.
"""

from __future__ import annotations

import numpy as np

import echobuf
from draw_host_time import WINDOW, Case, main

MEAN, LONGEST, SIGMA = 512, 8192, 1.0
FORMS = {
    "packed": {"ragged": "packed"},
    "packed, pad_to=4096": {"ragged": "packed", "pad_to": 4096},
    "padded": {"ragged": "padded"},
    "padded, pad_to=4096": {"ragged": "padded", "pad_to": 4096},
}


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(0)
    lengths = rng.lognormal(np.log(MEAN) - SIGMA**2 / 2, SIGMA, WINDOW)
    offsets = np.zeros(WINDOW + 1, np.int64)
    np.cumsum(lengths.astype(np.int64).clip(1, LONGEST), out=offsets[1:])
    spec = echobuf.Field((None,), np.int32, max_length=LONGEST)
    records = np.zeros(offsets[-1], np.int32), offsets
    return {name: Case(spec, records, options=form) for name, form in FORMS.items()}


if __name__ == "__main__":
    main("draw_ragged_host_time", __doc__, cases())
