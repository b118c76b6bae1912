"""Loaders with `with_info=True`."""

import itertools

import numpy as np
import pytest

import echobuf
from schedule_reference import draw_infos

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("no_leaked_threads")]

KWARGS = {"batch_size": 5, "window": 20, "with_info": True}


def items(n=47):
    return [{"id": np.int64(number)} for number in range(n)]


def infos_of(batches):
    """The infos of batches of the items above."""
    infos = []
    for batch, info in batches:
        assert type(info) is echobuf.BatchInfo
        assert info.index.tolist() == batch["id"].tolist()
        assert info.version.tolist() == [0] * len(info.index)
        infos += zip(info.index.tolist(), info.echo.tolist(), strict=True)
    return infos


@pytest.mark.parametrize("factor", [1, 3, 2.5, "auto"])
@pytest.mark.parametrize("more", [{}, {"prefetch": 2}, {"overlap_epochs": True}])
def test_each_epoch_counts_the_uses_of_its_examples(factor, more):
    with echobuf.EchoLoader(items(), factor=factor, **KWARGS, **more) as loader:
        for _ in range(3):
            infos = infos_of(loader)
            assert infos == draw_infos(index for index, _ in infos)
            assert {index for index, _ in infos} == set(range(47))


def test_after_a_resume_they_go_on():
    with echobuf.EchoLoader(items(), factor=2, **KWARGS) as loader:
        whole = infos_of(loader)
    with echobuf.EchoLoader(items(), factor=2, **KWARGS) as loader:
        before = infos_of(itertools.islice(loader, 7))
        state = loader.state_dict()
    with echobuf.EchoLoader(items(), factor=2, **KWARGS) as loader:
        loader.load_state_dict(state)
        assert before + infos_of(loader) == whole


def test_whole_batches_have_the_number_of_their_batch():
    batches = [{"id": np.full(4, number)} for number in range(9)]
    kwargs = {"unit": "batch", "batched": True, "window": 4, "with_info": True}
    with echobuf.EchoLoader(batches, factor=2, **kwargs) as loader:
        infos = infos_of(loader)
    assert infos[::4] == draw_infos(index for index, _ in infos[::4])
    assert len(infos) == 9 * 2 * 4


def test_ragged_leaves_have_infos_too():
    upstream = [np.arange(number % 5) for number in range(30)]
    kwargs = {**KWARGS, "payload_bytes": 4000, "ragged": "packed"}
    with echobuf.EchoLoader(upstream, factor=2, **kwargs) as loader:
        infos = []
        for batch, info in loader:
            assert batch.lengths.tolist() == [each % 5 for each in info.index.tolist()]
            infos += zip(info.index.tolist(), info.echo.tolist(), strict=True)
    assert infos == draw_infos(index for index, _ in infos)
    assert len(infos) == 60


def test_with_info_is_a_bool():
    with pytest.raises(echobuf.OptionError, match="`with_info`"):
        echobuf.EchoLoader(items(), batch_size=5, window=20, with_info=2)
