"""Reports for jobs of several ranks: what a cache that they share brings."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from any_measurements import absurd_measurements
from echobuf.analysis import Cluster
from echobuf.analysis.report import Report
from measured import estimate, measurements, remedy

COLD = {"upstream_second_s": estimate(1e-3), "upstream_first_s": estimate(3e-3)}


def test_on_one_rank_a_cache_is_what_the_remedies_say():
    report = Report(measurements(**COLD), Cluster(1))
    for way in report.across[1:]:
        never = remedy(report, f"cache of {way.share:.0%}, never")
        assert way.loading_s / report.epoch_examples == pytest.approx(never.upstream_s)
        assert way.speedup == pytest.approx(never.speedup)
        assert way.least_s == pytest.approx(way.epoch_s)
        assert way.moved == 0


def test_on_several_ranks_what_was_measured_is_the_fetching_and_the_preparing():
    report = Report(measurements(**COLD), Cluster(4, peer_rate=5000, shares=[0.5]))
    per_example = {
        way.name: way.loading_s / report.epoch_examples for way in report.across
    }
    assert per_example["no cache"] == pytest.approx(2e-3 + 1e-3 / 4)
    assert per_example["partitioned"] == pytest.approx(1e-3 + 0.375 / 5000 + 1e-3 / 4)
    aware = per_example["locality-aware"]
    assert aware == pytest.approx(1e-3 + 1e-3 / 4, rel=1e-3)
    text = " ".join(str(report).split())
    assert "epoch on 4 ranks" in text
    assert "500 examples/s from storage, as one process had; 5,000 from peers" in text


def test_a_rate_of_storage_that_is_given_is_taken():
    report = Report(measurements(0.5), Cluster(8, storage_rate=100, shares=[1]))
    bare, partitioned, aware = report.across
    assert bare.loading_s == pytest.approx(report.epoch_examples * (0.01 + 0.5e-3 / 8))
    assert partitioned.epoch_s == aware.epoch_s < bare.epoch_s
    assert "as given; peers cost nothing" in " ".join(str(report).split())


def test_where_nothing_is_known_of_storage_that_is_said():
    report = Report(measurements(), Cluster(8))
    (bare,) = report.across
    assert bare.epoch_s == pytest.approx(report.epoch_examples * 4e-3 / 8)
    assert "--storage-rate" in str(report)
    assert Report(measurements()).across == ()


@settings(max_examples=15)
@given(absurd_measurements(), st.integers(1, 2**31 - 1), st.floats(1e-300, 1e300))
def test_any_measurements_give_a_report_for_ranks(measured, ranks, rate):
    for storage_rate in (None, rate):
        cluster = Cluster(ranks, storage_rate=storage_rate, peer_rate=rate)
        report = Report(measured, cluster)
        assert max(map(len, str(report).splitlines())) <= 80
        content = json.loads(report.to_json(), parse_constant=pytest.fail)
        assert len(content["across"]) == len(report.across)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"ranks": 0}, "`ranks` is 0"),
        ({"storage_rate": 0}, "`storage_rate` is 0; it must be a number > 0"),
        ({"peer_rate": "fast"}, "`peer_rate` is 'fast'"),
        ({"peer_rate": math.nan}, "`peer_rate` is nan"),
        ({"shares": [0.5, 1.5]}, "`shares` has 1.5"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(arguments, line):
    with pytest.raises(echobuf.OptionError, match=line):
        Cluster(**{"ranks": 2, **arguments})
