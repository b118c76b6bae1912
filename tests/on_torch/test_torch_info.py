"""`echobuf.torch.EchoLoader` with `with_info=True`."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import echobuf.torch
from schedule_reference import draw_infos

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]


@pytest.mark.parametrize("more", [{}, {"prefetch": 2}, {"factor": "auto"}])
def test_infos_are_tensors_beside_those_of_the_batch(more):
    numbers = torch.arange(50)
    halves = numbers.to(torch.bfloat16)  # which NumPy lacks
    upstream = DataLoader(TensorDataset(numbers, halves), batch_size=10)
    kwargs = {"window": 20, "factor": 3, **more}
    loader = echobuf.torch.EchoLoader(upstream, **kwargs, with_info=True)
    infos = []
    for (ids, same), info in loader:
        assert type(info) is echobuf.BatchInfo
        assert all(type(leaf) is torch.Tensor for leaf in info)
        types = [torch.int64, torch.int32, torch.int64]
        assert [leaf.dtype for leaf in info] == types
        assert {leaf.device for leaf in info} == {ids.device}
        assert torch.equal(info.index, ids)
        assert torch.equal(ids.to(torch.bfloat16), same)
        infos += zip(info.index.tolist(), info.echo.tolist(), strict=True)
    assert infos == draw_infos(index for index, _ in infos)
    assert {index for index, _ in infos} == set(range(50))
