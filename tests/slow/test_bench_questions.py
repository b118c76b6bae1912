"""The questions in bench/: their candidates exist, and what they check holds."""

import importlib
import inspect
from dataclasses import replace

import pytest

from echobuf.cli.bench import measure
from scripts import BENCH, importable

QUESTIONS = (
    "image_batches",
    "small_batches",
    "echoing_end_to_end",
    "busy_thread",
    "augment_crop",
    "augment_resized",
    "workers",
)


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        yield load


@pytest.fixture
def question(load):
    return lambda name: load(name).QUESTION


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_candidate_says_what_it_promises(name, question):
    asked = question(name)
    assert asked.name == name
    for candidate in asked.candidates:
        module, _, kind = candidate.target.partition(":")
        # Works where no peer is installed: they are imported when they are used.
        made = getattr(importlib.import_module(module), kind)
        assert not inspect.isabstract(made), candidate.name
        promised = dict(made.guarantees)
        assert {"exact use", "shuffled", "duplicates in a batch", "batch"} <= (
            promised.keys()
        ), candidate.name
        assert made.packages
        assert callable(made.run)


def small(question, names, **settings):
    chosen = [c for c in question.candidates if c.name in names]
    assert len(chosen) == len(names)
    return replace(
        question,
        candidates=tuple(chosen),
        settings={**question.settings, **settings},
        settle_s=0,
    )


def test_streams_that_claim_exact_use_keep_it(question):
    names = (
        "bare copy limit",
        "echobuf, thread",
        "echobuf, same thread, out=",
        "echobuf EchoLoader",
        "NumPy ring",
    )
    sizes = {"records": 256, "window": 64, "batch": 16}
    outcomes = measure(small(question("echoing_end_to_end"), names, **sizes), 1)
    for outcome in outcomes.values():
        assert not outcome.failed_at, outcome
        assert outcome.rounds[0]["units"] == 256 * 4


def test_draws_serve_records(question):
    names = ("echobuf", "echobuf out=", "numpy.take(out=)", "NumPy ring")
    sizes = {"records": 1000, "batch": 10, "batches": 100, "chunks": 2}
    outcomes = measure(small(question("small_batches"), names, **sizes), 1)
    for outcome in outcomes.values():
        assert not outcome.failed_at, outcome
        assert outcome.rounds[0]["units"] == 200


@pytest.mark.parametrize("name", ["augment_crop", "augment_resized"])
def test_augmented_batches_are_normalised_images(name, question):
    names = ("bytes moved", "echobuf", "echobuf out=")
    sizes = {"records": 16, "batch": 4, "size": 96}
    outcomes = measure(small(question(name), names, **sizes), 1)
    for outcome in outcomes.values():
        assert not outcome.failed_at, outcome
        assert outcome.rounds[0]["units"] == 2


def test_worker_processes_hand_over_images(question):
    names = (
        "bare ring, semaphores",
        "echobuf, to the ring",
        "echobuf, to batches",
        "DataLoader, 2 workers",
    )
    sizes = {"images": 64, "window": 32, "batch": 16, "workers": 1}
    outcomes = measure(small(question("workers"), names, **sizes), 1)
    for outcome in outcomes.values():
        assert not outcome.failed_at, outcome
        assert outcome.rounds[0]["units"] == 64


def test_readme_tells_how_to_run_each_question():
    text = (BENCH / "README.md").read_text()
    scripts = [p.name for p in BENCH.glob("*.py") if "__main__" in p.read_text()]
    assert len(scripts) > len(QUESTIONS)
    for script in scripts:
        assert f"python bench/{script}" in text
