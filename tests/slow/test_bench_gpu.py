"""The benchmarks for a GPU: their logic, on the simulated driver; and without a GPU."""

import inspect
import json
import math
import subprocess
import sys
import threading
from collections import Counter
from itertools import islice

import pytest

from helpers import WAIT_S, until
from scripts import BENCH, importable

SCRIPTS = (
    "draw_images",
    "draw_augmented",
    "draw_pages",
    "draw_small",
    "draw_ragged",
    "host_time",
    "upload",
    "training",
    "resnet",
    "host_echoing",
    "replay_peers",
)


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, BENCH / "gpu") as load:
        yield load


@pytest.mark.parametrize("name", SCRIPTS)
def test_simulated_figures_say_so(name, load, tmp_path, capsys):
    script = load(name)
    arguments = ["--simulated", "--rounds", "1", "--out", str(tmp_path)]
    assert load("script").main(None, script.QUESTIONS, arguments) == 0
    assert "SIMULATED" in capsys.readouterr().out
    for question in script.QUESTIONS:
        path = tmp_path / f"{question.name}.simulated.json"
        figures = json.loads(path.read_text())
        assert figures["simulated"] is True
        assert figures["environment"]["gpu"] == "none: the simulated driver"
        own = [c.name for c in question.candidates if not c.peer]
        assert list(figures["results"]) == own
        for result in figures["results"].values():
            assert len(result["rounds_s"]) == 1


@pytest.mark.parametrize("name", [n for n in SCRIPTS if n.startswith("draw_")])
def test_tiny_sizes_keep_the_relations_of_the_real_ones(name, load):
    for question in load(name).QUESTIONS:
        real, tiny = question.settings, {**question.settings, **question.tiny}
        passes = [sizes["records"] // sizes["batch"] for sizes in (real, tiny)]
        assert tiny["records"] < real["records"]
        assert tiny["batches"] == real["batches"] < passes[0]
        assert passes[1] == pytest.approx(passes[0], rel=0.05)


def test_a_window_refuses_more_batches_than_are_sure(load):
    place, settings = load("place"), load("draw_images").QUESTIONS[0].tiny
    settings = {**settings, "key": "image", "batches": 8, "records": 128}
    with place.open_place(simulated=True) as here:
        window = load("window").Window(here, settings)
        for _ in range(3):
            window.take(7)
            for _ in range(7):
                window.buffer.next_batch(window.out, timeout=WAIT_S)
        with pytest.raises(ValueError, match="only 7 are sure"):
            window.take(8)
        window.close()


def test_equal_noise_makes_no_equal_crops(load, monkeypatch, tmp_path):
    """At the real size noise repeats after 64 images; here after 4."""
    script, base = load("draw_augmented"), load("window").make_records.__globals__
    shape = script.TINY["fields"]["image"][0]
    monkeypatch.setitem(base, "_BLOCK", 4 * math.prod(shape))
    arguments = ["--simulated", "--rounds", "1", "--out", str(tmp_path)]
    assert load("script").main(None, script.QUESTIONS, arguments) == 0


@pytest.mark.parametrize("name", SCRIPTS)
def test_candidates_lack_nothing(name, load):
    """Peers, too, which the simulated driver cannot run."""
    for question in load(name).QUESTIONS:
        lacking = [c.name for c in question.candidates if inspect.isabstract(c.make)]
        assert lacking == []


def test_a_candidate_that_fails_is_named_and_the_rest_goes_on(load, tmp_path):
    ask, script = load("ask"), load("script")

    class Counts:
        def __init__(self, place, settings):
            self.units = settings["units"]

        def run(self):
            return 10 // self.units

    question = ask.Question(
        name="fails",
        aim="none",
        unit="turn",
        reference="good",
        candidates=(
            ask.Candidate("good", Counts, {"units": 2}),
            ask.Candidate("bad", Counts, {"units": 0}),
            ask.Candidate("worse", Counts, {"units": "x"}),
        ),
        clock="wall",
        settings={},
        tiny={},
    )
    arguments = ["--simulated", "--rounds", "4", "--out", str(tmp_path)]
    assert script.main(None, [question], arguments) == 1
    results = json.loads((tmp_path / "fails.simulated.json").read_text())["results"]
    assert len(results["good"]["rounds_s"]) == 4
    assert results["good"]["speed_over_reference"] == 1
    assert results["bad"]["failed"].startswith("ZeroDivisionError")
    assert results["worse"]["failed"].startswith("TypeError")


def test_a_device_that_answers_nothing_more_loses_no_round(load, tmp_path, monkeypatch):
    """As after an illegal access: every call fails until the process ends."""
    ask, script, place = load("ask"), load("script"), load("place")
    broken = threading.Event()

    def answer(self):
        if broken.is_set():
            raise RuntimeError("an illegal memory access was encountered")

    for call in ("sync", "forget"):
        monkeypatch.setattr(place.Simulated, call, answer)

    class Turns:
        def __init__(self, place, settings):
            self.place, self.left = place, settings["turns"]

        def run(self):
            self.left -= 1
            if not self.left:
                broken.set()
            self.place.sync()
            return 1

        def facts(self):
            self.place.sync()
            return {}

    candidates = (
        ask.Candidate("good", Turns, {"turns": 99}),
        ask.Candidate("bad", Turns, {"turns": 4}),
    )
    breaks, after = (
        ask.Question(
            name=name,
            aim="none",
            unit="turn",
            reference="good",
            candidates=candidates,
            clock="wall",
            settings={},
            tiny={},
        )
        for name in ("breaks", "after")
    )
    arguments = ["--simulated", "--rounds", "9", "--out", str(tmp_path)]
    assert script.main(None, [breaks, after], arguments) == 1
    for name, rounds in (("breaks", (3, 2)), ("after", (0, 0))):
        results = json.loads((tmp_path / f"{name}.simulated.json").read_text())
        rows = [results["results"][candidate] for candidate in ("good", "bad")]
        assert all("illegal memory access" in row["failed"] for row in rows)
        assert tuple(len(row["rounds_s"]) for row in rows) == rounds


def test_speed_is_the_median_of_the_ratios_of_the_rounds(load):
    ask, figures = load("ask"), load("figures")

    def answer(name, rounds_s):
        return ask.Answer(ask.Candidate(name, None), "wall", "plain", rounds_s)

    # The machine was slow in the second round; the third is missing.
    answers = {"plain": answer("plain", [1.0, 9.0, 2.0])}
    answers["own"] = answer("own", [0.5, 3.0])
    row = figures.row(answers["own"], answers)
    assert row["speed_over_reference"] == 2.5
    assert row["ratio_range"] == [2.0, 3.0]


def test_gpu_sh_runs_every_script():
    text = (BENCH / "gpu.sh").read_text()
    named = text.partition("benchmarks=(")[2].partition(")")[0].split()
    assert named == list(SCRIPTS)
    assert all((BENCH / "gpu" / f"{name}.py").is_file() for name in named)


def end_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_where_there_is_no_gpu_it_says_so_and_nothing_is_measured(tmp_path):
    has_gpu = BENCH / "gpu" / "has_gpu.py"
    asked = end_of(sys.executable, has_gpu)
    if asked.returncode == 0:
        pytest.skip("there is a GPU here")
    for command in (
        [sys.executable, BENCH / "gpu" / "draw_images.py", "--out", tmp_path],
        ["bash", BENCH / "gpu.sh", tmp_path, "tests"],
    ):
        done = end_of(*command)
        assert done.returncode == asked.returncode == 3
        assert "there is no GPU here" in done.stdout
        assert done.stderr == ""
    assert not list(tmp_path.glob("*.json"))


def test_gpu_sh_refuses_bad_usage(tmp_path):
    for arguments in ([], [tmp_path, "nonsense"], [tmp_path, "bench", "nonsense"]):
        done = end_of("bash", BENCH / "gpu.sh", *arguments)
        assert done.returncode == 2
        assert "bench/gpu.sh DIR bench [NAME...]" in done.stderr


def test_the_host_loader_echoes_each_example_as_often_as_told(load):
    echoes = load("host_echoing").echoes
    count, window, factor = 100, 30, 3
    drawn = Counter(islice(echoes(10**9, window, factor), count * factor))
    # All but those that are still in the shuffle buffer.
    assert sum(factor - uses for uses in drawn.values()) <= window + factor
    assert set(drawn.values()) <= set(range(1, factor + 1))


def test_upstream_hands_on_in_order_while_its_clock_goes(load):
    got, made = [], threading.Event()

    def hand_on(chunk):
        made.wait(WAIT_S)
        got.append(list(chunk["number"]))
        if len(got) in (5, 8):
            upstream.pause()

    upstream = load("paced").Paced({"number": range(12)}, 4, hand_on, 1e-6)
    made.set()
    for chunks in (5, 8):
        until(lambda n=chunks: upstream.is_paused and len(got) == n)
        assert upstream.is_alive
        if chunks == 5:
            upstream.go_on()
    upstream.end()
    assert upstream.error is None
    assert got == [[4 * turn % 12 + k for k in range(4)] for turn in range(8)]
