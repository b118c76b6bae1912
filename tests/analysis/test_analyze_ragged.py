"""`analyze` of loaders whose examples differ in length."""

from __future__ import annotations

import time

import numpy as np
import pytest

import echobuf
from echobuf import EchoLoader, Packed, Padded, Ragged

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]

ITEM_S = 0.002
LENGTHS = np.random.default_rng(5).integers(1, 60, 300)
SIZES = 4 * LENGTHS


class Texts:
    """Examples of different lengths, each of which takes a while."""

    def __len__(self):
        return len(LENGTHS)

    def __iter__(self):
        for number, length in enumerate(LENGTHS):
            time.sleep(ITEM_S)
            yield {"t": np.full(length, number, np.int32), "label": number}


class Batches:
    """The same in batches of 10, with a list at the ragged leaf."""

    def __iter__(self):
        for first in range(0, len(LENGTHS), 10):
            time.sleep(10 * ITEM_S)
            numbers = np.arange(first, first + 10)
            arrays = [np.full(LENGTHS[i], i, np.int32) for i in numbers]
            yield {"t": arrays, "label": numbers}


def analyzed(loader, seen=None, seconds=0.5):
    def step(batch):
        time.sleep(1e-3)
        if seen is not None:
            seen.append(batch)

    return echobuf.analyze(loader, step, seconds=seconds)


OPTIONS = {"batch_size": 10, "window": 60, "factor": 2, "payload_bytes": 30_000}


@pytest.mark.parametrize("upstream", [Texts, Batches])
def test_examples_that_differ_in_length_are_measured(upstream):
    seen = []
    batched = upstream is Batches
    loader = EchoLoader(upstream(), batched=batched, ragged="padded", **OPTIONS)
    report = analyzed(loader, seen)
    found = report.measurements
    assert found.upstream_s.mean >= ITEM_S
    assert (found.batch_size, found.window) == (10, 60)
    assert all(type(batch["t"]) is Padded for batch in seen)
    assert {len(batch["label"]) for batch in seen} == {10}
    lengths = found.ragged
    assert lengths.examples >= 10
    assert lengths.mean_bytes == pytest.approx(4 * lengths.mean_rows)
    assert SIZES.min() < lengths.mean_bytes < lengths.largest_bytes <= SIZES.max()


def test_what_is_advised_holds_the_window():
    loader = EchoLoader(Texts(), **OPTIONS)
    report = analyzed(loader, seconds=1)
    lengths = report.measurements.ragged
    known = SIZES[: lengths.examples]
    assert lengths.mean_bytes == pytest.approx(known.mean())
    assert lengths.largest_bytes == known.max()
    for factor in (1, 2.5, 4, "auto"):
        advised = report.payload_bytes(factor=factor)
        segments = 16 if factor == "auto" else int(np.ceil(factor))
        assert advised // segments >= lengths.largest_bytes
        assert 60 * lengths.mean_bytes < advised
    with echobuf.EchoBuffer(
        {"t": echobuf.Field((None,), np.int32)},
        batch_size=10,
        window=60,
        factor=2,
        payload_bytes=report.payload_bytes(factor=2),
    ) as buffer:
        for length in LENGTHS[:60]:  # the buffer never waits for room
            buffer.put({"t": np.zeros(length, np.int32)}, timeout=0)
        assert buffer.stats().resident == 60
    # Twice the window has about twice the payload, and memory follows.
    one, two = (report.memory(window=n, factor=2).bytes_host for n in (600, 1200))
    assert 1.7 < two / one < 2.1
    assert "payload_bytes=" in str(report)
    assert '"payload_bytes"' in report.to_json()


def test_a_payload_that_holds_less_than_the_window_is_said():
    options = {**OPTIONS, "payload_bytes": 3000}
    report = analyzed(EchoLoader(Texts(), **options))
    assert any("holds about" in line for line in report.advice)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"batch_size": 4, "pack_to": 64}, Packed),
        ({"batch_size": None, "max_rows": 200}, Ragged),
    ],
)
def test_batches_that_are_counted_by_rows(options, kind):
    class Tokens:
        def __iter__(self):
            for each in Texts():
                yield each["t"]

    seen = []
    options = {**OPTIONS, **options}
    found = analyzed(EchoLoader(Tokens(), **options), seen).measurements
    assert {type(batch) for batch in seen} == {kind}
    rows = 4 * 64 if kind is Packed else 200
    assert 0.4 * rows < found.batch_size * found.ragged.mean_rows < 1.6 * rows
    assert found.upstream_s.mean >= ITEM_S


def test_a_number_of_rows_may_be_left_to_the_spec():
    loader = EchoLoader(
        (np.zeros(length, np.int32) for length in [*LENGTHS] * 9),
        batch_size=2,
        window=20,
        factor=1,
        pack_to=80,
    )
    report = analyzed(loader, seconds=0.3)
    assert report.payload_bytes() >= 20 * report.measurements.ragged.mean_bytes
