"""The order and the bytes of batches on a device are those on the CPU."""

from collections import Counter
from itertools import zip_longest

import numpy as np
import pytest

import echobuf
from gpu_records import SPEC, ids_of, stack
from gpu_records import feed as feed_ids
from helpers import WAIT_S, Worker
from order_cases import Case, large_cases, random_cases

MB = 1 << 20
ENDED = object()


def feed(buffer, case, records):
    """Puts all in turn, as one producer; a batch whole where those are the unit."""
    if case.kwargs.get("unit") == "batch":
        for index in range(case.count):
            # The last one may be shorter; that it is short must survive.
            rows = len(records[0][index]) - (index == case.count - 1)
            buffer.put([leaf[index][: max(rows, 1)] for leaf in records], WAIT_S)
    else:
        for start in range(0, case.count, case.chunk):
            part = [leaf[start : start + case.chunk] for leaf in records]
            buffer.put_batch(part, timeout=WAIT_S)
    buffer.close()


def same(one, other):
    """Bit by bit: noise is not a number, too."""
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.tobytes() == other.tobytes()
    )


def compare_epoch(place, case, here, there, epoch):
    records = case.records(epoch)
    producers = [Worker(feed, buffer, case, records) for buffer in (here, there)]
    try:
        compare_batches(place, here, there, f"epoch {epoch}: {case.name}")
    except BaseException as error:
        for buffer, producer in zip((here, there), producers, strict=True):
            buffer.fail(error)  # lets the producer go, before the buffer ends
            producer.join(WAIT_S)
        raise
    for producer in producers:
        producer.result()


def compare_batches(place, here, there, where):
    pairs = zip_longest(here, there, fillvalue=ENDED)
    for number, (want, got) in enumerate(pairs):
        assert want is not ENDED, f"more on the device in {where}"
        assert got is not ENDED, f"less on the device in {where}"
        for index, leaf in enumerate(place.host(got)):
            assert same(leaf, want[index]), f"leaf {index} of batch {number} of {where}"


def compare(place, cases, epochs=2):
    for case in cases:
        with case.make("cpu") as here, case.make("cuda") as there:
            for epoch in range(epochs):
                compare_epoch(place, case, here, there, epoch)
                here.reset()
                there.reset()


def test_random_buffers_serve_the_same_bytes(place):
    small = place.simulated
    cases = random_cases(24 if small else 100, 20_000 if small else 32 * MB, seed=7)
    if not small:
        cases += large_cases()
    compare(place, cases)


def test_a_difference_would_be_seen(place):
    case = Case("one", (((3,), "uint8"),), {"window": 8, "batch_size": 4}, 20, 5, 1)
    other = Case("two", case.fields, {**case.kwargs, "seed": 1}, 20, 5, 1)
    with (
        case.make("cpu") as here,
        other.make("cuda") as there,
        pytest.raises(AssertionError, match="leaf 0 of batch"),
    ):
        compare_epoch(place, case, here, there, 0)


@pytest.mark.parametrize("count", [1, 50, 700])
def test_auto_serves_each_example_once_to_max_factor_times(place, count):
    with echobuf.EchoBuffer(
        SPEC, batch_size=16, window=128, factor="auto", max_factor=3, device="cuda"
    ) as buffer:
        for _ in range(3):
            producer = Worker(feed_ids, buffer, count)
            uses = Counter(i for batch in buffer for i in ids_of(place.host(batch)))
            producer.result()
            assert sorted(uses) == list(range(count))
            assert set(uses.values()) <= {1, 2, 3}
            buffer.reset()


def test_a_state_taken_on_the_cpu_goes_on_on_the_device(place):
    kwargs = {"batch_size": 8, "window": 48, "factor": 3, "seed": 11}
    with echobuf.EchoBuffer(SPEC, **kwargs) as here:
        producer = Worker(feed_ids, here, 200)
        for _ in range(30):
            here.next_batch(timeout=WAIT_S)
        state = here.state_dict()
        rest = [ids_of(batch) for batch in here]
        producer.result()
    with echobuf.EchoBuffer(SPEC, device="cuda", **kwargs) as there:
        there.load_state_dict(state)
        producer = Worker(feed_ids, there, 200, 64, state["fresh_offset"])
        assert [ids_of(place.host(batch)) for batch in there] == rest
        producer.result()


def test_one_put_at_a_time(place):
    with echobuf.EchoBuffer(
        SPEC, batch_size=4, window=16, factor=1, device="cuda"
    ) as buffer:
        whole = stack(range(16))
        for index in range(16):
            one = {"id": whole["id"][index], "body": [a[index] for a in whole["body"]]}
            buffer.put({**one, "body": tuple(one["body"])}, timeout=WAIT_S)
        buffer.close()
        served = np.concatenate([place.host(batch)["id"] for batch in buffer])
        assert sorted(served.tolist()) == list(range(16))
