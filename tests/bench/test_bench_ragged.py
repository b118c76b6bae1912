"""The benchmark of ragged examples: candidates draw what they say; parts measure."""

from __future__ import annotations

import pytest

from scripts import BENCH, importable

SMALL = {
    "records": 512,
    "mean": 16,
    "sigma": 1.0,
    "longest": 64,
    "batch": 32,
    "batches": 8,
}


@pytest.fixture
def load(monkeypatch):
    with importable(monkeypatch, BENCH) as load:
        yield load


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("Echobuf", "packed"),
        ("Echobuf", "padded"),
        ("Concatenate", "packed"),
        ("FullOfZeros", "padded"),
    ],
)
def test_a_candidate_draws_each_sequence_once_a_pass(load, name, form):
    candidate = getattr(load("peers.ragged_rows"), name)({**SMALL, "form": form})
    candidate.warm_up()  # compares every batch of a pass with the sequences
    for _ in range(3):
        candidate.begin()
        assert candidate.run() == SMALL["batches"]


def test_each_target_is_there(load):
    script = load("ragged")
    for question in (script.PACKED, script.PADDED):
        for candidate in question.candidates:
            module, _, kind = candidate.target.partition(":")
            made = getattr(load(module), kind)
            assert made.packages
            assert {"exact use", "shuffled", "batch"} <= dict(made.guarantees).keys()


def test_puts_are_measured_for_each_size(load):
    found = load("ragged_puts").puts(1, sizes=(64,), window_bytes=1 << 16)
    assert list(found["results"]) == ["put, 64 bytes", "put_batch of 256, 64 bytes"]
    assert all(row["ratio"] > 0 for row in found["results"].values())


def test_a_full_buffer_holds_no_more_than_it_says(load):
    row = load("ragged_memory").run("factor 2, max_length", 2_000_000)
    assert row["held_examples"] > row["window"]
    assert row["useful_bytes"] < row["bytes_host"]
