"""Refusals of `max_staleness`, and of what is gone: `reuse`, `thin` and `report`."""

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, EchoLoader, OptionError
from echobuf.transforms import MixUp
from helpers import make, stack


@pytest.mark.parametrize("staleness", [-1, 1.5, "1", True, 2**63])
def test_staleness_is_a_whole_number(staleness):
    with pytest.raises(OptionError, match=r"`max_staleness` is "):
        make(max_staleness=staleness)


def test_packed_rows_hold_all_records():
    spec = {"x": echobuf.Field((None,), np.int32, max_length=8)}
    with pytest.raises(OptionError, match=r"with `pack_to`, which is 8, passes serve"):
        EchoBuffer(spec, batch_size=2, window=8, pack_to=8, max_staleness=1)


def test_mixes_with_partners_are_refused():
    spec = {"image": np.zeros((2, 2, 3), np.float32), "label": np.zeros(4, np.float32)}
    mix = MixUp()
    with pytest.raises(
        OptionError, match=r"mixes examples with a partner.*leave `max_staleness` out"
    ):
        EchoBuffer(
            spec,
            batch_size=2,
            window=8,
            transform={"image": [mix], "label": [mix]},
            max_staleness=1,
        )


def test_a_state_is_of_the_same_staleness():
    with make(max_staleness=1) as buffer:
        buffer.put_batch(stack(range(12)))
        buffer.next_batch()
        state = buffer.state_dict()
    for other in ({}, {"max_staleness": 2}):
        with (
            make(**other) as second,
            pytest.raises(echobuf.StateError, match=r"`max_staleness` 1, but here it"),
        ):
            second.load_state_dict(state)


# ---- what is gone


@pytest.mark.parametrize("gone", [{"reuse": "loss"}, {"reuse": None}, {"thin": 0.5}])
def test_arguments_that_are_gone_are_those_of_no_call(gone):
    with pytest.raises(TypeError, match=rf"argument '{next(iter(gone))}'"):
        make(with_info=True, **gone)
    with pytest.raises(TypeError, match=rf"argument '{next(iter(gone))}'"):
        EchoLoader(range(8), batch_size=2, with_info=True, **gone)
    assert not hasattr(EchoBuffer, "report")
    assert not hasattr(EchoLoader, "report")
