"""Forms in which ragged leaves are put, and those that are refused."""

import array

import numpy as np
import pyarrow as pa
import pytest

import echobuf
from echobuf import Field, Padded, Ragged
from helpers import WAIT_S

pytestmark = pytest.mark.contract


def make(spec, **kwargs):
    return echobuf.EchoBuffer(
        spec, **{"window": 8, "batch_size": 8, "factor": 1, **kwargs}
    )


def served(buffer):
    """The arrays of a single batch, in the order of put: by their first element."""
    buffer.close()
    batch = buffer.next_batch(timeout=WAIT_S)
    return sorted((each.tolist() for each in batch.to_list()), key=lambda x: (x[:1], x))


TOKENS = Field((None,), np.int32, max_length=6)
WANTED = [[], [1, 2, 3], [4]]
VALUES = np.array([1, 2, 3, 4], np.int32)
OFFSETS = np.array([0, 3, 3, 4])


def lists():
    return pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int32()))


FORMS = {
    "Ragged": lambda: Ragged(VALUES, OFFSETS),
    "tuple": lambda: (VALUES, OFFSETS),
    "strided": lambda: Ragged(np.repeat(VALUES, 2)[::2], np.repeat(OFFSETS, 2)[::2]),
    "list": lambda: [VALUES[:3], VALUES[:0], VALUES[3:]],
    "list of buffers": lambda: [array.array("i", x) for x in ([1, 2, 3], [], [4])],
    "arrow": lists,
    "large arrow": lambda: lists().cast(pa.large_list(pa.int32())),
    "slice of arrow": lambda: pa.concat_arrays([lists(), lists()])[3:],
    "chunks": lambda: pa.chunked_array([lists()[:1], lists()[1:]]),
    "one chunk": lambda: pa.chunked_array([lists()]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_is_put_in_many_forms(form):
    with make(TOKENS) as buffer:
        buffer.put_batch(FORMS[form]())
        assert served(buffer) == WANTED


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        Ragged(VALUES[:0], OFFSETS[:1]),
        lists()[:0],
        pa.chunked_array([], pa.list_(pa.int32())),
        np.empty((0, 4), np.int32),
    ],
    ids=["list", "Ragged", "arrow", "chunks", "array"],
)
def test_a_batch_of_nothing_is_put(nothing):
    with make(TOKENS) as buffer:
        buffer.put_batch(nothing)
        assert buffer.stats().fresh == 0


def test_examples_of_one_length_may_be_one_array():
    with make(TOKENS) as buffer:
        buffer.put_batch(np.array([[1, 2], [3, 4]], np.int32))
        assert served(buffer) == [[1, 2], [3, 4]]


def test_arrow_lists_of_lists_of_one_size_are_rows():
    points = pa.array(
        [[[1, 2]], [], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int8(), 2))
    )
    with make(Field((None, 2), np.int8, max_length=4)) as buffer:
        buffer.put_batch(points)
        assert served(buffer) == [[], [[1, 2]], [[3, 4], [5, 6]]]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_bytes_are_put_as_they_are_and_from_arrow(kind):
    with make(Field((None,), np.uint8, max_length=6)) as buffer:
        buffer.put(b"\x05")
        buffer.put(bytearray(b"\x06\x07"))
        buffer.put(memoryview(b""))
        buffer.put_batch([b"\x08", b"\x09\x0a"])
        column = pa.array([b"no", b"\x0b", b"\x0c\x0d", b"no"], kind)
        buffer.put_batch(column[1:3])
        wanted = [[], [5], [6, 7], [8], [9, 10], [11], [12, 13]]
        assert served(buffer) == wanted


def test_a_list_of_numpy_s_examples_need_not_be_contiguous():
    with make(TOKENS) as buffer:
        buffer.put(np.arange(12, dtype=np.int32)[1:8:3])
        buffer.put_batch([np.arange(12, dtype=np.int32)[2:8:3]])
        assert served(buffer) == [[1, 4, 7], [2, 5]]


REFUSED_EXAMPLES = {
    "too long": (np.zeros(7, np.int32), ["7 rows", "`max_length`", "6"]),
    "dtype": (np.zeros(3, np.int64), ["`example` has dtype int64", "int32"]),
    "axes": (np.zeros((3, 2), np.int32), ["[3, 2]", "[None]", "`put_batch`"]),
    "scalar": (np.int32(3), ["`example` is of type int32, not an array"]),
    "list of numbers": ([1, 2], ["list", "np.asarray(x, 'int32')"]),
    "tuple": ((VALUES, OFFSETS), ["tuple", "np.asarray"]),
    "number": (7, ["int, not an array"]),
    "objects": (np.array([1, None]), ["object"]),
    "string": ("abc", ["str, not an array"]),
    "bytes": (b"abc", ["bytes, not an array"]),
}


@pytest.mark.parametrize("case", REFUSED_EXAMPLES)
def test_an_example_that_does_not_fit_is_refused(case):
    given, said = REFUSED_EXAMPLES[case]
    refuse(lambda buffer: buffer.put(given), said)


REFUSED_BATCHES = {
    "falls": ((VALUES, [0, 3, 1, 4]), ["`batch.offsets` falls from 3 to 1", "at 2"]),
    "start": ((VALUES, [1, 3, 4]), ["`batch.offsets` starts at 1", "start at 0"]),
    "negative": ((VALUES, [-1, 4]), ["starts at -1"]),
    "end": ((VALUES, [0, 3]), ["ends at 3", "end at 4"]),
    "beyond": ((VALUES, [0, 3, 9]), ["ends at 9", "end at 4"]),
    "none": ((VALUES, np.zeros(0, np.int64)), ["[n + 1]"]),
    "2-d offsets": ((VALUES, np.zeros((2, 2), np.int64)), ["[2, 2]", "[n + 1]"]),
    "int32": ((VALUES, np.array([0, 4], np.int32)), ["int32", "astype(np.int64)"]),
    "floats": ((VALUES, np.array([0.0, 4.0])), ["float64", "int64"]),
    "three": ((VALUES, OFFSETS, OFFSETS), ["tuple of 3", "`list(x)`"]),
    "dtype": ((VALUES.astype("i8"), OFFSETS), ["`batch.values` has dtype int64"]),
    "shape": ((VALUES[:, None], OFFSETS), ["`batch.values` has shape [4, 1]"]),
    "too long": ((np.zeros(9, "i4"), [0, 1, 9]), ["8 rows in its example 1", "6"]),
    "lists of floats": ([[1.0, 2.0], [3.0]], ["`batch[0]` is of type list", "[np.asa"]),
    "list of numbers": ([1, 2, 3], ["`batch[0]` is of type int"]),
    "other dtype in a list": ([VALUES, np.zeros(2)], ["`batch[1]` has dtype float64"]),
    "other shape in a list": ([VALUES, VALUES[None]], ["`batch[1]` has shape [1, 4]"]),
    "objects": (np.array([VALUES, VALUES[:1]], object), ["objects", "`list(x)`"]),
    "one example": (VALUES, ["[4]", "[n, None]", "`put`"]),
    "padded": (Padded(VALUES[None], np.array([4])), ["Padded", "`x.to_list()`"]),
    "null": (pa.array([[1], None], pa.list_(pa.int32())), ["1 nulls"]),
    "null inside": (pa.array([[1, None]], pa.list_(pa.int32())), ["nulls in them"]),
    "flat arrow": (pa.array([1, 2], pa.int32()), ["Arrow array of int32", "lists"]),
    "strings": (pa.array([["a"]]), ["lists of string"]),
    "other arrow": (lists().cast(pa.list_(pa.int64())), ["dtype int64"]),
}


@pytest.mark.parametrize("case", REFUSED_BATCHES)
def test_a_batch_that_does_not_fit_is_refused(case):
    given, said = REFUSED_BATCHES[case]
    if isinstance(given, tuple) and isinstance(given[1], list):
        given = (given[0], np.array(given[1]))
    refuse(lambda buffer: buffer.put_batch(given), said)


def refuse(put, said, spec=TOKENS, error=echobuf.SpecError, **kwargs):
    """A put is refused with a message, and changes nothing."""
    with make(spec, **kwargs) as buffer:
        with pytest.raises(error) as caught:
            put(buffer)
        assert type(caught.value) is error
        for part in said:
            assert part in str(caught.value)
        assert buffer.stats().fresh == 0


MIXED = {"x": TOKENS, "y": Field((None,), np.int8, max_length=4), "z": Field((), "i8")}


def test_leaves_must_hold_as_many_examples():
    batch = {"x": (VALUES, OFFSETS), "y": [np.zeros(2, "i1")] * 2, "z": np.arange(3)}
    said = ["`batch['y']` holds 2 examples", "`batch['x']` holds 3"]
    refuse(lambda buffer: buffer.put_batch(batch), said, MIXED)
    batch["y"], batch["z"] = [np.zeros(2, "i1")] * 3, np.arange(4)
    said = ["`batch['z']` holds 4 examples"]
    refuse(lambda buffer: buffer.put_batch(batch), said, MIXED)


def test_an_example_larger_than_a_share_is_refused_and_both_sizes_named():
    spec = {"x": Field((None,), np.int32), "y": Field((None, 2), np.int8)}
    big = {"x": np.zeros(9, np.int32), "y": np.zeros((3, 2), np.int8)}  # 42 bytes
    share = {"payload_bytes": 83, "factor": 2}  # 41 bytes
    said = ["`example` has 42 bytes", "is 41", "at least 84"]
    refuse(lambda b: b.put(big), said, spec, echobuf.CapacityError, **share)
    small = {"x": big["x"], "y": big["y"][:2]}
    batch = {name: [small[name], big[name]] for name in spec}
    said = ["example 1 of `batch` has 42 bytes", "is 41"]
    refuse(lambda b: b.put_batch(batch), said, spec, echobuf.CapacityError, **share)
    with make(spec, **share) as buffer:
        buffer.put(small)
        buffer.put_batch({name: [leaf] for name, leaf in small.items()})
        assert buffer.stats().fresh == 2
    with make(spec, payload_bytes=84, factor=2) as buffer:
        buffer.put(big)  # exactly a share


def test_a_put_batch_cut_short_has_put_its_first_examples():
    spec = {"x": Field((None,), np.int32)}
    kwargs = {"window": 4, "batch_size": 2, "factor": 2, "payload_bytes": 160}
    with make(spec, **kwargs) as buffer:
        batch = {"x": [np.full(5, i, np.int32) for i in range(50)]}
        with pytest.raises(TimeoutError) as caught:
            buffer.put_batch(batch, timeout=0)
        accepted = caught.value.accepted
        assert 4 <= accepted < 50
        assert buffer.stats().fresh == accepted
        buffer.close()
        drawn = [each for out in buffer for each in out["x"].to_list()]
        numbers = [int(each[0]) for each in drawn if (each == each[0]).all()]
        assert sorted(numbers) == sorted([*range(accepted)] * 2)
