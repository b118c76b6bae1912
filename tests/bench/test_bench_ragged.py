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


@pytest.mark.parametrize("name", ["Copy", "StreamingCopy"])
def test_a_copy_moves_the_tokens_of_as_many_sequences(load, name):
    copy = getattr(load("peers.ragged_rows"), name)(SMALL)
    copy.begin()
    copy.run()
    sequences = copy.sequences
    last = copy.starts[SMALL["batches"] - 1 : SMALL["batches"] + 1]
    assert (copy.out[: last[1] - last[0]] == sequences.values[last[0] : last[1]]).all()


def test_another_sequence_and_one_twice_are_found(load):
    sequences = load("peers.ragged_rows").Sequences(SMALL)
    rows = [sequences[0], sequences[1]]
    assert sequences.check(rows, 2) == {0, 1}
    with pytest.raises(AssertionError, match="2 rows of 1"):
        sequences.check([rows[0], rows[0]], 2)
    with pytest.raises(AssertionError, match="sequence 1 is another one"):
        sequences.check([rows[0], rows[1][:-1].copy()], 2)


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
