"""`stats()` of records that differ in length: payload, mean length, padding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from echobuf import EchoBuffer, EchoLoader, Field, Ragged
from echobuf.metrics import metrics_of

LENGTHS = [3, 0, 5, 7, 2, 2, 9, 1]
SPEC = {"t": Field((None,), np.int32), "u": Field((None, 2), np.uint8)}
FORMS = {
    "packed": {},
    "rounded": {"pad_to": 8},
    "padded": {"ragged": "padded"},
    "padded, rounded": {"ragged": "padded", "pad_to": 4},
    "max_rows": {"batch_size": None, "max_rows": 10, "ragged": "padded"},
    "fractional": {"ragged": "padded", "factor": 1.5},
    "across passes": {"ragged": "padded", "factor": 2, "batch_size": 3},
    "rows": {"pack_to": 10},
}
NAMES = ["payload_bytes", "payload_capacity", "mean_rows", "padding_share"]


def example(length, half=True):
    rows = length // 2 if half else length
    return {"t": np.arange(length, dtype=np.int32), "u": np.ones((rows, 2), np.uint8)}


def rows_in(leaf):
    """Return the rows of a ragged leaf of a batch, and those of examples."""
    if isinstance(leaf, Ragged):
        return len(leaf.values), int(leaf.offsets[-1])
    return math.prod(leaf.values.shape[:2]), int(leaf.lengths.sum())


@pytest.mark.parametrize("form", FORMS)
def test_padding_is_that_of_the_batches(form):
    arguments = {"batch_size": 2, "window": 8, "factor": 1, **FORMS[form]}
    buffer = EchoBuffer(SPEC, payload_bytes=4000, **arguments)
    assert math.isnan(buffer.stats().padding_share)
    packs = "pack_to" in arguments  # all leaves of a record are of one length then
    for length in LENGTHS:
        buffer.put(example(length, half=not packs))
    buffer.close()
    pairs = [rows_in(leaf) for batch in buffer for leaf in batch.values()]
    drawn, filled = np.sum(pairs, axis=0)
    stats = buffer.stats()
    assert stats.padding_share == pytest.approx(1 - filled / drawn, abs=1e-12)
    assert (form == "packed") == (stats.padding_share == 0)
    second = LENGTHS if packs else [length // 2 for length in LENGTHS]
    assert stats.mean_rows == pytest.approx(np.mean([LENGTHS, second]))


def test_payload_is_taken_until_examples_have_left_the_window():
    buffer = EchoBuffer(SPEC, batch_size=1, window=4, factor=1, payload_bytes=4000)
    useful = 0
    for length in LENGTHS[:4]:
        buffer.put(example(length))
        useful += 4 * length + 2 * (length // 2)
        stats = buffer.stats()
        assert useful <= stats.payload_bytes <= useful + 64 * 4
        assert stats.payload_bytes <= stats.payload_capacity
        assert stats.payload_capacity >= 4000
    buffer.close()
    list(buffer)
    assert buffer.stats().payload_bytes == 0
    buffer.reset()
    stats = buffer.stats()
    assert math.isnan(stats.mean_rows)
    assert math.isnan(stats.padding_share)


def test_a_large_payload_that_wraps_around_is_never_above_its_capacity():
    spec = Field((None,), np.uint8)
    buffer = EchoBuffer(spec, batch_size=1, window=4, factor=1, payload_bytes=4000)
    peak = 0
    for count in range(200):
        buffer.put(np.zeros(100 + count % 7 * 100, np.uint8))
        stats = buffer.stats()
        peak = max(peak, stats.payload_bytes)
        assert stats.payload_bytes <= stats.payload_capacity
        while buffer.ready():
            buffer.next_batch()
    assert peak > 2000


def test_metrics_have_them_where_leaves_are_ragged():
    arrays = [np.arange(length) for length in LENGTHS]
    loader = EchoLoader(
        arrays, batch_size=2, window=8, factor=1, payload_bytes=4000, ragged="padded"
    )
    list(loader)
    ragged = metrics_of(loader.stats())
    assert ragged["echobuf/mean_rows"] == pytest.approx(np.mean(LENGTHS))
    assert 0 < ragged["echobuf/padding_share"] < 1
    fixed = EchoLoader(range(8), batch_size=2, window=8, factor=1)
    list(fixed)
    names = {f"echobuf/{name}" for name in NAMES}
    assert names <= set(ragged)
    assert not names & set(metrics_of(fixed.stats()))
