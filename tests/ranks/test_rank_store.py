"""The store of ranks: its values, waiting for them, and a store that is gone."""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("torch")

import torch.distributed as dist

from echobuf import UpstreamError
from echobuf.ranks import store as store_module
from echobuf.ranks.liveness import Liveness
from echobuf.ranks.store import RankStore
from ranks.rank_stores import make_stores, never


def test_a_wait_for_a_living_rank_warns_and_then_times_out(monkeypatch):
    one, two = make_stores(2, timeout=0.4)
    two.set({"begin/1": {}})
    monkeypatch.setattr(store_module, "WARN_S", 0.2)
    missing = functools.partial(one.missing, "begin")
    with (
        pytest.raises(
            UpstreamError,
            match=r"waited 0:00:00.4\d* for rank 10 \(with its loader number 7",
        ),
        pytest.warns(UserWarning, match="has waited 0 s for rank 10"),
    ):
        one.wait_for(never, missing)


def test_ranks_share_values_over_a_store_in_a_file(tmp_path):
    one, two = make_stores(2, dist.FileStore(str(tmp_path / "store"), 2))
    one.set({"x/0": {"a": [1]}})
    assert one.get_all("x") is None
    assert two.get("x/0") == {"a": [1]}
    assert two.get("x/1") is None
    two.set({"x/1": 2, "y": 3})
    assert one.get_all("x") == one.read_all("x") == [{"a": [1]}, 2]
    one.delete("x/0")
    assert one.get_all("x") is None


class LostStore:
    """A store whose process has ended; counts its calls."""

    def __init__(self):
        self.calls = 0

    def has_extended_api(self):
        return True

    def __getattr__(self, name):
        def fail(*_):
            self.calls += 1
            raise dist.DistNetworkError("Connection reset by peer")

        return fail


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda one: one.set({"x": 1}), id="set"),
        pytest.param(lambda one: one.get("x"), id="get"),
        pytest.param(lambda one: one.get_all("x"), id="get_all"),
        pytest.param(lambda one: one.read_all("x"), id="read_all"),
        pytest.param(lambda one: one.delete("x"), id="delete"),
    ],
)
def test_each_call_on_a_lost_store_raises_and_calls_the_store_once(call):
    lost = LostStore()
    liveness = Liveness(dist.HashStore(), [10], 0)
    one = RankStore(lost, liveness, 7, timeout=60)
    for _ in range(2):
        with pytest.raises(UpstreamError, match="the process group was destroyed"):
            call(one)
    assert lost.calls == 1
