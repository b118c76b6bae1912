"""Refusals of `reuse`, `thin`, `max_staleness` and `report`."""

import math

import numpy as np
import pytest

import echobuf
from echobuf import EchoBuffer, OptionError, SpecError
from echobuf.transforms import MixUp
from helpers import make, stack

INFO = {"with_info": True, "reuse": "loss"}


@pytest.mark.parametrize("reuse", ["losses", "", b"loss", True, 1, ["loss"]])
def test_reuse_is_loss_or_none(reuse):
    with pytest.raises(OptionError, match=r"`reuse` is .*it must be 'loss', or None"):
        make(with_info=True, reuse=reuse)


@pytest.mark.parametrize("thin", [1, 1.0, -0.1, math.nan, math.inf, "0.5", None, True])
def test_thin_is_a_probability_below_one(thin):
    with pytest.raises(OptionError, match=r"`thin` is .*from 0 to below 1"):
        make(**INFO, thin=thin)


@pytest.mark.parametrize("staleness", [-1, 1.5, "1", True, 2**63])
def test_staleness_is_a_whole_number(staleness):
    with pytest.raises(OptionError, match=r"`max_staleness` is "):
        make(max_staleness=staleness)


def test_reuse_wants_infos():
    with pytest.raises(OptionError, match=r"`reuse` is 'loss'.*Give with_info=True"):
        make(reuse="loss")


@pytest.mark.parametrize("more", [{"max_staleness": 1}])
def test_packed_rows_hold_all_records(more):
    spec = {"x": echobuf.Field((None,), np.int32, max_length=8)}
    with pytest.raises(OptionError, match=r"with `pack_to`, which is 8, passes serve"):
        EchoBuffer(spec, batch_size=2, window=8, pack_to=8, **more)


@pytest.mark.parametrize("more", [INFO, {"max_staleness": 1}])
def test_mixes_with_partners_are_refused(more):
    spec = {"image": np.zeros((2, 2, 3), np.float32), "label": np.zeros(4, np.float32)}
    mix = MixUp()
    with pytest.raises(
        OptionError,
        match=r"mixes examples with a partner.*leave `(reuse|max_staleness)` out",
    ):
        EchoBuffer(
            spec,
            batch_size=2,
            window=8,
            transform={"image": [mix], "label": [mix]},
            **more,
        )


def test_a_report_without_reuse_is_refused():
    with make(with_info=True) as buffer:
        buffer.put_batch(stack(range(12)))
        _, info = buffer.next_batch()
        with pytest.raises(OptionError, match=r"`report` is for a buffer with reuse"):
            buffer.report(info, np.zeros(4))


@pytest.mark.parametrize(
    ("loss", "error", "says"),
    [
        (
            np.zeros(3),
            SpecError,
            r"`loss` has shape \[3\], and `info` is of 4 examples",
        ),
        (np.zeros((4, 1)), SpecError, r"`loss` has shape \[4, 1\]"),
        (1.0, SpecError, r"`loss` has shape \[\].*reduction='none'"),
        ([0, 1, math.nan, 2], OptionError, r"`loss` has nan in row 2; losses must be"),
        ([0, math.inf, 0, 0], OptionError, r"`loss` has inf in row 1"),
        (["a"] * 4, SpecError, r"`loss` is of dtype <U1"),
        (np.zeros(4, complex), SpecError, r"`loss` is of dtype complex128"),
        (np.zeros(4, bool), SpecError, r"`loss` is of dtype bool"),
        ([None] * 4, SpecError, r"`loss` is of dtype object"),
        ([[1], [1, 2]], SpecError, r"`loss` is no array"),
    ],
)
def test_losses_that_do_not_fit_change_nothing(loss, error, says):
    with make(**INFO) as buffer:
        buffer.put_batch(stack(range(12)))
        _, info = buffer.next_batch()
        before = buffer.state_dict()
        with pytest.raises(error, match=says):
            buffer.report(info, loss)
        assert buffer.state_dict() == before


@pytest.mark.parametrize("info", [None, 3, np.arange(4), {"index": np.arange(4)}])
def test_an_info_is_one(info):
    with make(**INFO) as buffer:
        buffer.put_batch(stack(range(12)))
        buffer.next_batch()
        with pytest.raises(SpecError, match=r"`info` is .*must be the `BatchInfo`"):
            buffer.report(info, np.zeros(4))


def test_examples_that_were_not_put_are_passed_over_and_negative_ones_refused():
    with make(**INFO) as buffer:
        buffer.put_batch(stack(range(12)))
        _, info = buffer.next_batch()
        buffer.report(info._replace(index=np.arange(12, 16)), np.zeros(4))
        with pytest.raises(OptionError, match=r"`info.index` has a negative number"):
            buffer.report(info._replace(index=np.array([-1, 0, 1, 2])), np.zeros(4))


def test_examples_that_have_left_are_passed_over():
    with make(**INFO, window=4, batch_size=4, factor=1) as buffer:
        infos = []
        for first in range(0, 16, 4):
            buffer.put_batch(stack(range(first, first + 4)))
            infos.append(buffer.next_batch()[1])
            for info in infos:
                buffer.report(info, np.arange(4.0))
        assert buffer.stats().served == 16


def test_of_a_part_of_a_batch_losses_can_be_reported():
    with make(**INFO) as buffer:
        buffer.put_batch(stack(range(12)))
        _, info = buffer.next_batch()
        buffer.report(echobuf.BatchInfo(*(leaf[:2] for leaf in info)), [1.0, 2.0])
        buffer.report(echobuf.BatchInfo(*(leaf[:0] for leaf in info)), [])


def test_a_state_is_of_the_same_reuse():
    with make(**INFO) as buffer:
        buffer.put_batch(stack(range(12)))
        buffer.next_batch()
        state = buffer.state_dict()
    for other, says in (
        ({}, r"`reuse` 'loss', but here it is None"),
        ({"reuse": "loss", "thin": 0.25}, r"`thin` 0.5, but here it is 0.25"),
        (
            {"reuse": "loss", "max_staleness": 1},
            r"`max_staleness` None, but here it is",
        ),
    ):
        with (
            make(with_info=True, **other) as second,
            pytest.raises(echobuf.StateError, match=says),
        ):
            second.load_state_dict(state)
