"""Reports of given measurements: properties, text, JSON."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import echobuf
from any_measurements import absurd_measurements
from echobuf.analysis.measurements import Estimate, LoaderParts
from echobuf.analysis.prediction import buffer_memory
from echobuf.analysis.ragged_lengths import RaggedLengths
from echobuf.analysis.report import Report
from echobuf.testing import simulated_cuda
from measured import SPEC, estimate, measurements, remedy


@settings(max_examples=15)
@given(absurd_measurements())
def test_any_measurements_give_a_report(measured):
    report = Report(measured)
    text = str(report)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "\u2026" not in text  # nothing is cut off
    assert "\n" not in report.message
    content = json.loads(report.to_json(), parse_constant=pytest.fail)
    assert content["message"] == report.message
    assert isinstance(repr(report), str)


def test_the_table_is_of_characters_that_every_terminal_has():
    assert str(Report(measurements())).isascii()


def test_notes_are_in_the_text_as_they_are():
    text = str(Report(measurements(notes=("no [red]markup[/red] here",))))
    assert "no [red]markup[/red] here" in text


def test_a_ratio_above_one_pays():
    report = Report(measurements(4.0))
    assert report.pays
    assert report.factor == 4
    assert report.knee == 4
    assert report.ratio.mean == pytest.approx(4)
    assert report.ratio.low < 4 < report.ratio.high
    assert report.message.startswith("Echoing pays here: R = 4.00; factor=4")
    assert "<- advised" in str(report)


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 1.005, 1.03])
def test_a_ratio_of_one_or_hardly_more_does_not(ratio):
    report = Report(measurements(ratio))
    assert not report.pays
    assert report.factor == 1
    assert report.message.startswith("Echoing does not pay here: R = ")
    assert "<- advised" not in str(report)


@settings(max_examples=25)
@given(st.floats(1.2, 40), st.sampled_from([32, 1000]), st.integers(2, 20))
def test_the_advised_number_is_near_r_and_a_buffer_takes_it(ratio, batch, most):
    report = Report(measurements(ratio, batch_size=batch, max_factor=most))
    assert report.pays
    if report.factor != "auto":
        assert 1 < report.factor <= min(ratio * (1 + 1e-6), most)
        assert report.factor >= min(ratio, most) / 2
    assert report.memory().bytes_host > 0
    advised = report.predict(report.factor)
    assert advised.speedup > 1.05
    assert advised.factor in [p.factor for p in report.predictions]


@pytest.mark.parametrize(
    "changes",
    [
        {"step_s": estimate(1e-3, 0.2)},
        {"upstream_first_s": estimate(9e-3)},
    ],
)
def test_auto_is_advised_where_r_is_not_one_number(changes):
    assert Report(measurements(4.0, **changes)).factor == "auto"


@pytest.mark.parametrize("spread", [0.01, 0.4])  # R below 1, and perhaps above
def test_a_ratio_hidden_by_warm_caches_is_reported(spread):
    second = estimate(0.8e-3, spread)
    warm = measurements(0.8, upstream_second_s=second, upstream_first_s=estimate(6e-3))
    report = Report(warm)
    said = " ".join(report.advice)
    assert report.factor == 1
    assert "0.80 with warm caches (6.00 in the first pass)" in report.message
    assert "R of the first pass was 6.00" in said
    assert "does not fit in memory" in said
    assert 'factor="auto"' in said


def test_of_caches_nothing_is_said_where_they_decide_nothing():
    for ratio, first_s in ((0.5, 0.9e-3), (4.0, 9e-3), (0.8, 0.8e-3)):
        report = Report(measurements(ratio, upstream_first_s=estimate(first_s)))
        assert "warm caches" not in report.message + " ".join(report.advice)


def test_two_equal_passes_tell_nothing_of_caches():
    line = "cache or faster storage would bring cannot be told"
    assert line in " ".join(Report(measurements(4.0)).advice)
    once = measurements(4.0, upstream_second_s=None)
    cold = measurements(4.0, upstream_first_s=estimate(9e-3))
    for others in (once, cold, measurements(0.5)):
        assert line not in " ".join(Report(others).advice)


def test_above_the_largest_factor_that_is_advised():
    assert Report(measurements(30.0, max_factor=6)).factor == 6


def test_an_interval_that_reaches_one_is_not_enough():
    measured = measurements(1.4)
    wide = replace(measured, upstream_second_s=estimate(1.4e-3, 0.5))
    report = Report(wide)
    assert not report.pays
    assert "measure for longer" in report.message


def test_a_window_too_large_for_the_epoch_is_said():
    report = Report(measurements(1.2, length=1024))
    assert not report.pays
    assert "make `window` smaller" in report.message


def test_predictions_are_for_1_to_16_and_auto():
    report = Report(measurements(2.5))
    factors = [prediction.factor for prediction in report.predictions]
    assert factors == [1, 2, 2.5, *range(3, 17), "auto"]
    small = Report(measurements(2.0, window=5, batch_size=2))
    assert [p.factor for p in small.predictions] == [1, 2, 3, 4, 5, "auto"]


def test_an_epoch_of_unknown_length_is_assumed_and_said():
    report = Report(measurements(length=None))
    assert report.epoch_examples == 100 * 1024
    assert "assumed" in str(report)


def test_a_stall_is_waiting_of_more_than_50_microseconds_a_batch():
    assert not Report(measurements(wait_s=estimate(49e-6))).input_stall
    assert Report(measurements(wait_s=estimate(51e-6))).input_stall


def test_the_share_of_waiting_is_that_of_the_loop_as_it_is():
    waited = measurements(
        together_s=estimate(2e-3), wait_s=estimate(16e-3), batch_size=32
    )
    assert Report(waited).wait_share == pytest.approx(0.25)


def test_memory_is_what_a_buffer_takes():
    report = Report(measurements())
    for window, factor in ((1024, 4), (300, 2.5), (2000, "auto")):
        with echobuf.EchoBuffer(
            SPEC, batch_size=32, window=window, factor=factor
        ) as buffer:
            taken = buffer.stats()
        memory = report.memory(window, factor)
        # A batch that is drawn in parts has memory only when it comes to that.
        assert 0 <= memory.bytes_host - taken.bytes_host <= 32 * (8 * 8 * 3 + 8)
        assert memory.bytes_device == taken.bytes_device == 0


def test_memory_on_a_device_is_what_a_buffer_takes():
    memory = Report(measurements(device="cuda")).memory()
    with (
        simulated_cuda(),
        echobuf.EchoBuffer(
            SPEC, batch_size=32, window=1024, factor=4, device="cuda"
        ) as buffer,
    ):
        taken = buffer.stats()
    assert memory.bytes_device == taken.bytes_device > 0
    assert 0 <= taken.bytes_host - memory.bytes_host <= 4096  # the plan of graphs


def test_memory_on_a_device_of_ragged_examples_is_what_a_buffer_takes():
    spec = echobuf.Field((None, 4), np.float32)
    lengths = RaggedLengths(
        examples=100,
        mean_rows=5.0,
        mean_bytes=80.0,
        spread_bytes=16.0,
        largest_bytes=160,
        batch_size=8,
        arguments={"ragged": "packed"},
    )
    memory = buffer_memory(
        spec, batch_size=8, window=64, factor=2, device="cuda", ragged=lengths
    )
    with (
        simulated_cuda(),
        echobuf.EchoBuffer(
            spec,
            batch_size=8,
            window=64,
            factor=2,
            payload_bytes=lengths.payload_bytes(64, 2),
            device="cuda",
        ) as buffer,
    ):
        taken = buffer.stats()
    assert taken.bytes_device > 64 * 80
    # Rows begin at a multiple of 256 bytes.
    assert 0 <= memory.bytes_device - taken.bytes_device <= 256


def test_memory_of_a_window_that_no_buffer_takes_is_refused():
    with pytest.raises(echobuf.OptionError, match="`window` is 8"):
        Report(measurements()).memory(window=8)


def test_caches_and_storage_help_where_the_first_pass_was_slower():
    report = Report(measurements(2.0, upstream_first_s=estimate(4e-3)))
    assert remedy(report, "cache of 50%, never").upstream_s == pytest.approx(3e-3)
    assert remedy(report, "cache of 50%, never").speedup == pytest.approx(4 / 3)
    lru = remedy(report, "cache of 50%, LRU").upstream_s
    assert lru == pytest.approx(2e-3 + 2e-3 * (0.5 - 0.5 * math.log(0.5)))
    assert remedy(report, "storage 2 ").upstream_s == pytest.approx(3e-3)
    names = [each.name for each in Report(measurements()).remedies]
    assert all("workers" in name for name in names)


def test_workers_share_what_is_theirs():
    parts = LoaderParts(workers=2, fetch_s=5e-3, collate_s=1e-3)
    report = Report(measurements(4.0, loader=parts))
    # 3 ms of the 4 are shared by two workers, 1 ms is not: 4 make it 1 + 6 / 4.
    assert remedy(report, "4 workers").upstream_s == pytest.approx(2.5e-3)
    assert remedy(report, "4 workers").speedup == pytest.approx(1.6)
    assert not any("R = 1" in each.name for each in report.remedies)


def test_as_many_workers_as_are_needed_are_named():
    parts = LoaderParts(workers=1, fetch_s=3e-3, collate_s=0.9e-3)
    report = Report(measurements(4.0, loader=parts))
    enough = next(each for each in report.remedies if "(R = 1)" in each.name)
    assert enough.upstream_s <= 1e-3 * (1 + 1e-9)
    assert enough.speedup == pytest.approx(4)


def test_holding_each_other_up_is_said():
    assert "hold each other up" not in " ".join(Report(measurements()).advice)
    slow = Report(measurements(together_s=estimate(5e-3)))
    assert "hold each other up" in " ".join(slow.advice)


def test_times_that_do_not_fit_together_are_said():
    fast = Report(measurements(together_s=estimate(2e-3)))
    assert not fast.consistent
    assert fast.message.startswith("Measure again")
    assert Report(measurements()).consistent


def test_retuning_and_what_an_epoch_means_are_said_where_it_pays():
    said = " ".join(Report(measurements()).advice)
    assert "regularisation may need retuning" in said
    assert "4 times as many steps" in said
    assert Report(measurements(0.5)).advice == ()


def test_json_has_everything():
    measured = measurements(4.0, notes=("a note",), device="cpu")
    report = Report(measured)
    content = json.loads(report.to_json())
    assert content["format"] == 2
    assert content["pays"] is True
    assert content["factor"] == 4
    assert content["R"] == {
        "mean": report.ratio.mean,
        "low": report.ratio.low,
        "high": report.ratio.high,
        "count": 30,
        "blocks": 0,
    }
    assert content["reason"] == report.reason
    assert content["needed_seconds"] is None
    assert content["candidates"] == [2, 3, 4, "auto"]
    assert len(content["predictions"]) == 17
    assert content["predictions"][3]["speedup"] == report.predictions[3].speedup
    assert content["memory"]["bytes_host"] == report.memory().bytes_host
    assert content["measurements"]["spec"].startswith("{'image': uint8[8, 8, 3]")
    assert content["measurements"]["notes"] == ["a note"]
    fields = set(vars(measured))
    assert set(content["measurements"]) == fields


def test_infinite_numbers_are_null_in_json():
    report = Report(measurements(step_s=Estimate(0.0, 0.0, 0.0, 3)))
    assert json.loads(report.to_json())["R"]["mean"] is None


def test_without_rich_and_matplotlib_there_is_the_message():
    program = (
        "import sys; sys.modules['rich'] = None; "
        "import measured; from echobuf.analysis.report import Report; "
        "report = Report(measured.measurements()); "
        "assert report.message in str(report); assert 'needs rich' in str(report); "
        "assert 'matplotlib' not in sys.modules; print('said')\n"
        "sys.modules['matplotlib'] = None\n"
        "try: report.plot('report.png')\n"
        "except __import__('echobuf').EchobufError as error: print(error)"
    )
    folder = __file__.rpartition("/")[0]
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said, refused = run.stdout.splitlines()
    assert said == "said"
    assert refused.startswith("the picture needs matplotlib")
