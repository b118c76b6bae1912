"""Examples with a leaf of any length, and batches of them as upstreams yield these."""

import numpy as np
import pyarrow as pa

from echobuf import Ragged


def text(number):
    """Return an example of a length that varies, of a fixed one, and of a scalar."""
    length = number * 7 % 12
    return {
        "ids": np.arange(number, number + length, dtype=np.int32),
        "image": np.full((2, 3), number, np.uint8),
        "label": number,
    }


def stacked(examples):
    """Return the leaves of fixed shape, stacked."""
    return {
        "image": np.stack([each["image"] for each in examples]),
        "label": np.array([each["label"] for each in examples]),
    }


def ragged_of(examples):
    arrays = [each["ids"] for each in examples]
    offsets = np.r_[0, np.cumsum([len(array) for array in arrays])]
    return Ragged(np.concatenate(arrays), offsets.astype(np.int64))


FORMS = {
    "lists": lambda part: {"ids": [each["ids"] for each in part], **stacked(part)},
    "Ragged": lambda part: {"ids": ragged_of(part), **stacked(part)},
    "arrow": lambda part: {
        "ids": pa.array([each["ids"] for each in part], pa.list_(pa.int32())),
        **stacked(part),
    },
    "examples": list,
}
