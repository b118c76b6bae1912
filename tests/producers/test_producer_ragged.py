"""Ragged leaves on the device, whose lengths the host knows."""

import random

import numpy as np
import pytest
from device_examples import Capsule, drawn, served

import echobuf
from echobuf import Field, Ragged
from echobuf.testing import simulated_cuda
from helpers import WAIT_S

SPEC = {
    "id": Field((), np.int64),
    "tokens": Field((None,), np.int32),
    "points": Field((None, 3), np.uint8),
}
KWARGS = {
    "window": 12,
    "batch_size": 4,
    "factor": 2,
    "seed": 5,
    "payload_bytes": 4000,
}
N = 37
FORMS = {
    "packed": {},
    "padded": {"ragged": "padded", "pad_value": 3},
    "multiples": {"pad_to": 8},
    "rows": {"max_rows": 60, "batch_size": None},
}


@pytest.fixture
def on():
    with simulated_cuda(6) as simulation:
        yield simulation


def example(number, same=False):
    chance = np.random.default_rng(number)
    lengths = chance.integers(0, 20, 2)
    if same:
        lengths[:] = 5
    return {
        "id": np.int64(number),
        "tokens": chance.integers(0, 1000, lengths[0]).astype(np.int32),
        "points": chance.integers(0, 256, (lengths[1], 3)).astype(np.uint8),
    }


def offsets_of(arrays):
    return np.cumsum([0, *map(len, arrays)])


def batch_of(examples, move, leaf):
    """Examples together; `leaf` makes one of the moved values and their arrays."""
    batch = {"id": move(np.array([each["id"] for each in examples]))}
    for name in ("tokens", "points"):
        batch[name] = leaf([each[name] for each in examples], move)
    return batch


BATCHES = {
    "ragged": lambda arrays, move: Ragged(
        move(np.concatenate(arrays)), offsets_of(arrays)
    ),
    "tuple": lambda arrays, move: (move(np.concatenate(arrays)), offsets_of(arrays)),
    "list": lambda arrays, move: [move(array) for array in arrays],
}


def check(on, options, put_with):
    """The batches of device puts are those of host puts."""
    kwargs = {**KWARGS, **options}
    expected = served(SPEC, kwargs, put_with(np.asarray), "cpu")
    got = served(SPEC, kwargs, put_with(on.array), "cuda")
    assert got == expected


@pytest.mark.parametrize("form", FORMS)
def test_examples_are_drawn_as_from_the_host(on, form):
    def put_with(move):
        def put(buffer):
            for i in range(N):
                one = {name: move(leaf) for name, leaf in example(i).items()}
                buffer.put(one, timeout=WAIT_S)

        return put

    check(on, FORMS[form], put_with)
    dice = random.Random(1)

    def mixed(leaf):
        return dice.choice([np.asarray, on.array])(leaf)

    expected = served(SPEC, {**KWARGS, **FORMS[form]}, put_with(np.asarray), "cpu")
    got = served(SPEC, {**KWARGS, **FORMS[form]}, put_with(mixed), "cuda")
    assert got == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", BATCHES)
def test_batches_are_drawn_as_from_the_host(on, form, kind):
    def put_with(move):
        def put(buffer):
            for first in range(0, N, 9):
                part = [example(i) for i in range(first, min(first + 9, N))]
                batch = batch_of(part, move, BATCHES[kind])
                buffer.put_batch(batch, timeout=WAIT_S)

        return put

    check(on, FORMS[form], put_with)


def test_examples_of_one_length_may_be_one_array(on):
    def put_with(move):
        def stacked(arrays, move):
            return move(np.stack(arrays))

        def put(buffer):
            batch = batch_of([example(i, same=True) for i in range(8)], move, stacked)
            buffer.put_batch(batch, timeout=WAIT_S)

        return put

    check(on, {}, put_with)


def test_strided_values(on):
    def put_with(move):
        def put(buffer):
            for i in range(N):
                one = example(i)
                twice = np.repeat(one["tokens"], 2)
                points = np.ascontiguousarray(one["points"][::-1])
                buffer.put(
                    {
                        "id": one["id"],
                        "tokens": move(twice)[::2],
                        "points": move(points)[::-1],
                    },
                    timeout=WAIT_S,
                )

        return put

    check(on, {}, put_with)


def test_rows_of_one_length_are_packed_as_from_the_host(on):
    spec = {name: SPEC[name] for name in ("tokens",)}
    kwargs = {**KWARGS, "pack_to": 24, "batch_size": 2}

    def put_with(move):
        def put(buffer):
            for i in range(N):
                buffer.put({"tokens": move(example(i)["tokens"])}, timeout=WAIT_S)

        return put

    expected = served(spec, kwargs, put_with(np.asarray), "cpu")
    assert served(spec, kwargs, put_with(on.array), "cuda") == expected


def test_whole_batches(on):
    spec = {"id": Field((3,), np.int64), "tokens": Field((3, None), np.int32)}
    kwargs = {"unit": "batch", "window": 4, "factor": 2, "payload_bytes": 4000}

    def put_with(move):
        def put(buffer):
            for first in range(0, 30, 3):
                arrays = [example(first + i)["tokens"] for i in range(3)]
                batch = {
                    "id": move(np.arange(first, first + 3)),
                    "tokens": BATCHES["ragged"](arrays, move),
                }
                buffer.put(batch, timeout=WAIT_S)

        return put

    expected = served(spec, kwargs, put_with(np.asarray), "cpu")
    assert served(spec, kwargs, put_with(on.array), "cuda") == expected


WHOLE = {
    "ragged": BATCHES["ragged"],
    "list": BATCHES["list"],
    "one array": lambda arrays, move: move(np.stack([a[:1].repeat(4) for a in arrays])),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_batches_stacked(on, kind):
    """`put_batch` of several whole batches, in a list at the ragged leaf."""
    spec = {"id": Field((3,), np.int64), "tokens": Field((3, None), np.int32)}
    kwargs = {"unit": "batch", "window": 4, "factor": 2, "payload_bytes": 4000}

    def put_with(move):
        def put(buffer):
            for first in range(1, 31, 6):
                tokens = [
                    WHOLE[kind](
                        [np.full(i + at % 4, at, np.int32) for i in (1, 2, 3)], move
                    )
                    for at in (first, first + 3)
                ]
                ids = np.arange(first, first + 6).reshape(2, 3)
                batch = {"id": move(ids), "tokens": tokens}
                buffer.put_batch(batch, timeout=WAIT_S)

        return put

    expected = served(spec, kwargs, put_with(np.asarray), "cpu")
    assert served(spec, kwargs, put_with(on.array), "cuda") == expected


@pytest.mark.parametrize("wrap", [lambda a: a, Capsule])
@pytest.mark.parametrize("where", [np.asarray, "device"])
def test_offsets_on_the_device_are_refused(on, wrap, where):
    values = np.arange(6, dtype=np.int32)
    offsets = wrap(on.array(np.array([0, 2, 6])))
    leaf = Ragged(on.array(values) if where == "device" else values, offsets)
    with echobuf.EchoBuffer(SPEC["tokens"], device="cuda", **KWARGS) as buffer:
        with pytest.raises(echobuf.SpecError, match=r"offsets(.|\n)*(host|cpu|CPU)"):
            buffer.put_batch(leaf)
        with pytest.raises(echobuf.SpecError):
            buffer.put_batch(tuple(leaf))
        assert buffer.stats().fresh == 0
        buffer.put_batch(Ragged(on.array(values), np.array([0, 2, 6])))
        buffer.close()
        assert len(drawn(buffer)) == 1


@pytest.mark.parametrize(
    "offsets", [[0, 3, 2], [0, 2, 7], [1, 1, 9], [-1, 2, 6], [0.0, 2.0, 6.0]]
)
def test_offsets_that_do_not_fit_are_refused(on, offsets):
    leaf = Ragged(on.array(np.arange(6, dtype=np.int32)), np.array(offsets))
    with echobuf.EchoBuffer(SPEC["tokens"], device="cuda", **KWARGS) as buffer:
        with pytest.raises(echobuf.SpecError):
            buffer.put_batch(leaf)
        assert buffer.stats().fresh == 0


def test_examples_that_are_too_long_are_refused(on):
    field = Field((None,), np.int32, max_length=4)
    long = on.array(np.arange(5, dtype=np.int32))
    with echobuf.EchoBuffer(
        field, window=4, batch_size=2, factor=1, device="cuda"
    ) as buffer:
        with pytest.raises(echobuf.SpecError, match="max_length"):
            buffer.put(long)
        with pytest.raises(echobuf.SpecError, match="max_length"):
            buffer.put_batch([long[:2], long])
        buffer.put_batch([long[:2], long[1:], long[:0]])
        buffer.close()
        assert len(drawn(buffer)) == 2
    large = on.array(np.zeros(2000, np.int32))
    with echobuf.EchoBuffer(SPEC["tokens"], device="cuda", **KWARGS) as buffer:
        with pytest.raises(echobuf.CapacityError):
            buffer.put(large)
        assert buffer.stats().fresh == 0


def test_values_may_be_overwritten_at_once(on):
    with echobuf.EchoBuffer(
        SPEC["tokens"], device="cuda", **{**KWARGS, "factor": 1}
    ) as buffer:
        arrays = [np.full(i, i, np.int32) for i in range(12)]
        with on.stream() as stream:
            leaf = BATCHES["ragged"](arrays, on.array)
            buffer.put_batch(leaf, stream=stream)
            leaf.values.copy_from(-1)
            leaf.values.free()
        buffer.close()
        got = [row.tolist() for batch in buffer for row in batch.to_list()]
    assert sorted(got) == [array.tolist() for array in arrays]
