"""Batches of records that differ in length are on a device what they are on the CPU."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from echobuf import EchoBuffer, Field, Packed, Padded, Ragged
from helpers import WAIT_S, Worker

SPEC = {
    "id": Field((), np.int64),
    "tokens": Field((None,), np.int32),
    "points": Field((None, 3), np.float16),
    "bytes": Field((None,), np.uint8),
    "image": Field((5, 7), np.uint8),
}
PAD = {"id": None, "tokens": -100, "points": 0.5, "bytes": 255, "image": None}
OPTIONS: dict[str, dict[str, Any]] = {
    "packed": {"batch_size": 16},
    "packed to a multiple": {"batch_size": 16, "pad_to": 128, "pad_value": PAD},
    "padded": {"batch_size": 16, "ragged": "padded", "pad_value": PAD},
    "by rows": {"max_rows": 3000},
    "by rows, padded": {"max_rows": 3000, "ragged": "padded", "pad_to": 8},
    "fractional": {"batch_size": 8, "factor": 2.5},
}


def example(number: int, longest: int) -> dict[str, Any]:
    chance = np.random.default_rng(number)
    length = int(chance.integers(0, longest) * chance.random())
    return {
        "id": number,
        "tokens": chance.integers(0, 2**31, length, np.int32),
        "points": chance.random((length // 3, 3)).astype(np.float16),
        "bytes": chance.integers(0, 256, number % 50, np.uint8),
        "image": chance.integers(0, 256, (5, 7), np.uint8),
    }


def feed(buffer: EchoBuffer, count: int, longest: int) -> None:
    for number in range(count):
        buffer.put(example(number, longest), timeout=WAIT_S)
    buffer.close()


def leaves_of(batch: dict[str, Any]) -> list[Any]:
    leaves = []
    for name in SPEC:
        leaf = batch[name]
        leaves += leaf if isinstance(leaf, Ragged | Padded) else [leaf]
    return leaves


@pytest.mark.parametrize("rows", [1, 8])
def test_packed_rows_are_those_of_the_cpu(place: Any, rows: int) -> None:
    count, length = (200, 37) if place.simulated else (20_000, 2048)
    spec = {"tokens": Field((None,), np.int32), "points": Field((None, 3), np.int8)}
    options = {"batch_size": rows, "window": 64, "factor": 2, "pack_to": length}

    def feed_tokens(buffer: EchoBuffer) -> None:
        for number in range(count):
            tokens = example(number, length)["tokens"]
            points = np.repeat(tokens[:, None].astype(np.int8), 3, axis=1)
            buffer.put({"tokens": tokens, "points": points}, timeout=WAIT_S)
        buffer.close()

    with (
        EchoBuffer(spec, **options) as here,
        EchoBuffer(spec, device="cuda", **options) as there,
    ):
        producers = [Worker(feed_tokens, each) for each in (here, there)]
        batches = 0
        for want, got in zip_longest(here, there):
            batches += 1
            for name in spec:
                for one, other in zip(
                    want[name], place.host(list(got[name])), strict=True
                ):
                    assert one.dtype == other.dtype
                    np.testing.assert_array_equal(one, other)
        for producer in producers:
            producer.result()
    assert batches > 3


@pytest.mark.parametrize("name", OPTIONS)
def test_batches_are_those_of_the_cpu(place: Any, name: str) -> None:
    count, longest = (150, 60) if place.simulated else (4000, 3000)
    options = {"window": 64, "factor": 2, "payload_bytes": 200 * longest}
    options |= OPTIONS[name]
    with (
        EchoBuffer(SPEC, **options) as here,
        EchoBuffer(SPEC, device="cuda", **options) as there,
    ):
        for epoch in range(2):
            producers = [Worker(feed, each, count, longest) for each in (here, there)]
            batches = 0
            for want, got in zip_longest(here, there):
                assert want is not None, f"more on the device, in epoch {epoch}"
                assert got is not None, f"less on the device, in epoch {epoch}"
                batches += 1
                pairs = zip(leaves_of(want), leaves_of(got), strict=True)
                for number, (one, other) in enumerate(pairs):
                    (on_host,) = place.host([other])
                    assert one.dtype == on_host.dtype
                    np.testing.assert_array_equal(one, on_host, f"leaf {number}")
            for producer in producers:
                producer.result()
            assert batches > 3
            here.reset()
            there.reset()


def room_for(cuda: Any, options: dict[str, Any], longest: int) -> dict[str, Any]:
    """Memory of the device's for the longest batch."""
    size, padded = options["batch_size"], options.get("ragged") == "padded"
    out = {}
    for name, field in SPEC.items():
        if field.shape[:1] != (None,):
            out[name] = cuda.cupy.empty((size, *field.shape), field.dtype)
            continue
        lead = (size, longest) if padded else (size * longest,)
        values = cuda.cupy.empty((*lead, *field.shape[1:]), field.dtype)
        index = cuda.cupy.empty((size + (not padded),), np.int64)
        out[name] = Padded(values, index) if padded else Ragged(values, index)
    return out


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["packed to a multiple", "padded", "fractional"])
def test_replays_of_a_graph_are_the_batches_of_the_cpu(cuda: Any, name: str) -> None:
    count, longest = 4000, 3000
    options = {"window": 64, "factor": 2, "payload_bytes": 200 * longest}
    options |= OPTIONS[name]
    stream = cuda.stream()
    with (
        EchoBuffer(SPEC, **options) as here,
        EchoBuffer(SPEC, device="cuda", **options) as there,
        stream,
    ):
        out = room_for(cuda, options, longest)
        stream.begin_capture()
        assert there.next_batch(out=out) is out
        graph = stream.end_capture()
        producers = [Worker(feed, each, count, longest) for each in (here, there)]
        replays = 0
        for want in here:
            try:
                there.before_replay(stream=stream, timeout=WAIT_S)
            except StopIteration:  # the last one is shorter
                got = there.next_batch(out=out, timeout=WAIT_S)
            else:
                graph.launch(stream)
                got = out
                replays += 1
            for one, other in zip(leaves_of(want), leaves_of(got), strict=True):
                (on_host,) = cuda.host([other])
                kept = tuple(slice(extent) for extent in one.shape)
                np.testing.assert_array_equal(one, on_host[kept])
        for producer in producers:
            producer.result()
        with pytest.raises(StopIteration):
            there.before_replay(stream=stream, timeout=WAIT_S)
    assert replays > 3


@pytest.mark.gpu
def test_replays_of_a_graph_pack_rows_as_the_cpu_does(cuda: Any) -> None:
    rows, length = 8, 2048
    spec = {"tokens": Field((None,), np.int32)}
    options = {"batch_size": rows, "window": 64, "factor": 2, "pack_to": length}

    def feed_tokens(buffer: EchoBuffer) -> None:
        for number in range(20_000):
            tokens = example(number, length)["tokens"]
            buffer.put({"tokens": tokens}, timeout=WAIT_S)
        buffer.close()

    stream, empty = cuda.stream(), cuda.cupy.empty
    with (
        EchoBuffer(spec, **options) as here,
        EchoBuffer(spec, device="cuda", **options) as there,
        stream,
    ):
        marks = [empty((rows, length), np.int32) for _ in range(2)]
        values = empty((rows, length), np.int32)
        out = {"tokens": Packed(values, *marks, empty((rows,), np.int64))}
        stream.begin_capture()
        assert there.next_batch(out=out) is out
        graph = stream.end_capture()
        producers = [Worker(feed_tokens, each) for each in (here, there)]
        for want in here:
            try:
                there.before_replay(stream=stream, timeout=WAIT_S)
            except StopIteration:  # the last one is shorter
                got = there.next_batch(out=out, timeout=WAIT_S)
            else:
                graph.launch(stream)
                got = out
            for one, other in zip(
                want["tokens"], cuda.host(list(got["tokens"])), strict=True
            ):
                np.testing.assert_array_equal(one, other)
        for producer in producers:
            producer.result()
