"""Tensors on a device, as the loader of torch reads them: no GPU is asked."""

import optree
import pytest
import torch

from echobuf import SpecError
from echobuf._engine import ragged_forms
from echobuf.torch.adapter import TorchAdapter
from echobuf.trees import NAMESPACE


class OnDevice(torch.Tensor):
    """A tensor that says it is on a device."""

    is_cuda = True


def read(tensor):
    """What the loader puts."""
    item = TorchAdapter().read_first({"x": tensor.as_subclass(OnDevice)})
    (leaf,) = optree.tree_leaves(item, namespace=NAMESPACE)
    return leaf


def test_a_tensor_stays_where_it_is():
    tensor = torch.arange(6.0).reshape(2, 3)
    leaf = read(tensor)
    assert isinstance(leaf, OnDevice)
    assert leaf.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize(
    ("dtype", "carrier"),
    [(torch.bfloat16, torch.int16), (torch.float8_e4m3fn, torch.uint8)],
)
def test_a_dtype_that_numpy_lacks_is_carried(dtype, carrier):
    tensor = torch.zeros(4).to(dtype)
    leaf = read(tensor)
    assert leaf.dtype == carrier
    assert leaf.data_ptr() == tensor.data_ptr()


def test_what_a_tensor_has_yet_to_do_is_done():
    tensor = torch.tensor([1 + 2j, 3j]).requires_grad_()
    leaf = read(tensor.conj())
    assert not leaf.is_conj()
    assert not leaf.requires_grad
    assert leaf.tolist() == [1 - 2j, -3j]
    assert not read(tensor.conj().imag).is_neg()


def test_lengths_of_a_nested_tensor_must_be_on_the_host(monkeypatch):
    rows = [torch.zeros(n) for n in (2, 3)]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    monkeypatch.setattr(ragged_forms, "is_on_device", lambda leaf: True)
    with pytest.raises(SpecError, match="the host must know the lengths"):
        ragged_forms.split(nested, "x")
