"""Chains on ragged leaves around a loader of torch: the numbers of the NumPy loader."""

import numpy as np
import pytest
import torch

import echobuf.torch
from echobuf import Padded, Ragged
from echobuf import transforms as T

pytestmark = pytest.mark.contract

WINDOW = T.RandomWindow(8)
CHAINS = {
    "tokens": [T.TokenMask(1, 100, p=0.3)],
    "part": [T.Source("tokens"), WINDOW],
    "mask": [T.Source("tokens"), WINDOW.mask()],
    "wave": [T.GaussianNoise(clip=False), T.ToDtype("bfloat16")],
}
KWARGS = {"batch_size": 8, "window": 16, "factor": 2, "payload_bytes": 20_000}


def examples():
    rng = np.random.default_rng(1)
    return [
        {
            "tokens": rng.integers(5, 100, length).astype(np.int32),
            "wave": rng.random((length, 2), np.float32),
            "label": np.int64(length),
        }
        for length in (0, 7, 8, 31, 2, 9, 40, 1) * 4
    ]


def parts(leaf):
    return leaf if isinstance(leaf, Ragged | Padded) else (leaf,)


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_leaves_beside_those_of_items_are_made_too(form):
    kwargs = {**KWARGS, "transform": CHAINS, "ragged": form}
    arrays = list(echobuf.EchoLoader(examples(), **kwargs))
    tensors = list(echobuf.torch.EchoLoader(examples(), **kwargs))
    assert len(tensors) == len(arrays) == 8
    for one, other in zip(tensors, arrays, strict=True):
        assert one.keys() == other.keys() == {*CHAINS, "label"}
        assert one["wave"].values.dtype == torch.bfloat16
        for name, leaf in one.items():
            for tensor, array in zip(parts(leaf), parts(other[name]), strict=True):
                values = torch.as_tensor(tensor)
                if values.dtype == torch.bfloat16:
                    values = values.view(torch.int16)
                bits = np.asarray(array)
                np.testing.assert_array_equal(
                    values.numpy(), bits.view(values.numpy().dtype), name
                )
