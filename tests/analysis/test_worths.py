"""Prices of echoes in a report: beside the predictions, in words, in text and JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from echobuf.analysis import Repeats, Report
from measured import measurements

LONG = {"length": 1_000_000}  # the window fills and drains in no time


def by_factor(report):
    return {each.factor: each for each in report.worths}


@settings(max_examples=15)
@given(st.floats(0.3, 30), st.sampled_from([1, 3, 40]), st.sampled_from([0, 2, 15.4]))
def test_the_gain_is_the_speed_up_times_what_a_draw_is_worth(ratio, epochs, lifetime):
    repeats = Repeats(epochs, lifetime)
    report = Report(measurements(ratio), repeats=repeats)
    assert len(report.worths) == len(report.predictions)
    for price, predicted in zip(report.worths, report.predictions, strict=True):
        assert price.factor == predicted.factor
        uses = predicted.effective_factor
        assert price.worth == pytest.approx(repeats.worth(uses))
        share = repeats.mean_worth(uses) / repeats.mean_worth(1)
        assert price.gain == pytest.approx(predicted.speedup * share)
        assert price.gain <= predicted.speedup * (1 + 1e-12)
        taught = price.worth * report.epoch_examples
        assert price.worth_per_s == pytest.approx(taught / predicted.epoch_s)


def test_gains_grow_up_to_r_and_fall_beyond():
    report = Report(measurements(6.0, **LONG))
    gains = [by_factor(report)[factor].gain for factor in range(1, 17)]
    assert gains[:6] == sorted(gains[:6])
    assert gains[5:] == sorted(gains[5:], reverse=True)
    assert gains[5] == pytest.approx(Repeats().worth(6), rel=0.01)


def test_without_echoes_there_is_no_last_echo():
    prices = by_factor(Report(measurements(4.0)))
    assert math.isnan(prices[1].last_echo)
    assert 0.8 < prices[4].last_echo < prices[2].last_echo < 1


def test_the_hint_names_the_factors_and_the_source():
    report = Report(measurements(4.0))
    hint, source = [line for line in report.advice if "ormula" in line]
    assert "factor=4 is worth 0.85 of a fresh example" in hint
    assert "stop paying at 4.00" in hint
    assert "97 % of the most is reached at 3.86" in hint
    assert "Muennighoff" in source
    assert "language models" in source
    assert "lifetime" not in source
    text = " ".join(str(report).split())
    assert hint in text
    assert source in text


def test_the_hint_knows_epochs_and_lifetime():
    report = Report(measurements(4.0), repeats=Repeats(30, 5))
    said = " ".join(report.advice)
    assert "reached at 1.00" in said
    assert "for 30 epochs" in said
    assert "lifetime is 5.00 repeats" in said
    assert "the mean of 30 epochs" in " ".join(str(report).split())


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_where_echoing_does_not_pay_there_is_no_hint(ratio):
    report = Report(measurements(ratio))
    assert not [line for line in report.advice if "ormula" in line]
    assert "last echo" not in str(report)
    assert by_factor(report)[2].gain < 1.05


def test_the_table_has_the_advised_factor():
    report = Report(measurements(7.5))
    rows = str(report).partition("last echo")[2].splitlines()
    (advised,) = [row.split() for row in rows if "<- advised" in row]
    assert advised[0] == "7.5"
    assert float(advised[1]) == pytest.approx(Repeats().worth(7.5), abs=0.01)


def test_json_has_prices_and_the_factors_where_echoes_stop_paying():
    repeats = Repeats(2, 10)
    content = json.loads(Report(measurements(4.0), repeats=repeats).to_json())
    assert content["repeats"] == {"epochs": 2, "lifetime": 10}
    assert content["stop_factor"] == pytest.approx(4)
    assert content["enough_factor"] == pytest.approx(repeats.enough_factor(4.0))
    first, second = content["worths"][:2]
    assert first["last_echo"] is None
    assert second["worth"] == pytest.approx(repeats.worth(2), rel=1e-3)


def test_repeats_of_another_type_are_refused_before_anything_is_measured():
    def never(batch):
        raise AssertionError("measured")

    with pytest.raises(echobuf.OptionError, match=r"^`repeats` is 3; it must be an"):
        echobuf.analyze([1, 2, 3], never, repeats=3)
