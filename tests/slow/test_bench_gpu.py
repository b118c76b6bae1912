"""The benchmarks for a GPU: their logic, on the simulated driver; and without a GPU."""

import inspect
import json
import subprocess
import sys

import pytest

from helpers import WAIT_S
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
    "put_device",
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


@pytest.mark.parametrize("name", SCRIPTS)
def test_candidates_lack_nothing(name, load):
    """Peers, too, which the simulated driver cannot run."""
    for question in load(name).QUESTIONS:
        lacking = [c.name for c in question.candidates if inspect.isabstract(c.make)]
        assert lacking == []


def test_aims_that_no_gpu_has_tried_are_those_of_the_questions(load):
    table = load("table")
    aims = {q.name: q.aim for n in SCRIPTS for q in load(n).QUESTIONS}
    for name, (aim, command) in table.NOT_MEASURED.items():
        assert aims[name] == aim
        assert (BENCH.parent / command.removeprefix("python ")).is_file()


def test_gpu_sh_runs_every_script():
    text = (BENCH / "gpu.sh").read_text()
    named = text.partition("benchmarks=(")[2].partition(")")[0].split()
    assert named == list(SCRIPTS)
    assert all((BENCH / "gpu" / f"{name}.py").is_file() for name in named)


@pytest.mark.parametrize("name", ["draw", "chain", "graph", "torch", "jax"])
def test_the_simulated_device_serves_what_the_cpu_does(name):
    script = BENCH / "gpu" / f"smoke_{name}.py"
    done = subprocess.run(
        [sys.executable, script, "--simulated"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.startswith("90 batches as on the CPU")
