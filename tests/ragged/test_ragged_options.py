"""The options of ragged leaves: those that are refused, and what they cost."""

import json
import re

import numpy as np
import pytest
from ragged_records import PAD, SPEC, SPEC_OF_LENGTHS, make, serve

import echobuf
from echobuf import Field
from echobuf import transforms as T

pytestmark = pytest.mark.contract

KWARGS = {"batch_size": 4, "window": 8, "factor": 2, "payload_bytes": 800}
FIXED = {"x": Field((3,), "i4")}


def refused(error, *said, spec=SPEC, **kwargs):
    with pytest.raises(error) as caught:
        echobuf.EchoBuffer(spec, **{**KWARGS, **kwargs})
    for part in said:
        assert part in str(caught.value), caught.value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload_bytes", 0),
        ("payload_bytes", 2.5),
        ("payload_bytes", True),
        ("pad_to", 0),
        ("pad_to", "8"),
        ("ragged", "jagged"),
        ("ragged", 3),
    ],
)
def test_a_value_out_of_range_is_refused(name, value):
    refused(echobuf.OptionError, f"`{name}` is {value!r}", **{name: value})


@pytest.mark.parametrize("value", [0, -3, 2.0, "all"])
def test_max_rows_is_an_int(value):
    refused(echobuf.OptionError, "`max_rows`", batch_size=None, max_rows=value)


def test_nested_tensors_are_for_torch():
    refused(echobuf.OptionError, "`ragged` is 'nested'", "torch", ragged="nested")


def test_max_rows_and_batch_size_exclude_each_other():
    refused(echobuf.OptionError, "`batch_size` is 4 and `max_rows` is 9", max_rows=9)
    refused(
        echobuf.OptionError,
        "`drop_last`",
        "`max_rows`",
        batch_size=None,
        max_rows=9,
        drop_last=True,
    )


def test_either_payload_bytes_or_every_max_length_is_needed():
    refused(
        echobuf.OptionError,
        "`payload_bytes` is None",
        "`spec['points']` has no `max_length`",
        payload_bytes=None,
    )
    half = {**SPEC_OF_LENGTHS, "points": SPEC["points"]}
    refused(echobuf.OptionError, "`spec['points']`", spec=half, payload_bytes=None)
    echobuf.EchoBuffer(SPEC_OF_LENGTHS, **{**KWARGS, "payload_bytes": None})


def test_the_payload_holds_a_row_for_each_example_of_a_batch_and_each_segment():
    said = ["`payload_bytes` is 27", "at least 28", "`batch_size`, 4"]
    refused(echobuf.OptionError, *said, payload_bytes=27)
    said = ["`payload_bytes` is 55", "at least 56", "8 segments"]
    refused(echobuf.OptionError, *said, payload_bytes=55, factor=8)
    echobuf.EchoBuffer(SPEC, **{**KWARGS, "payload_bytes": 28})


@pytest.mark.parametrize(
    "given",
    [
        {"payload_bytes": 800},
        {"ragged": "padded"},
        {"pad_to": 8},
        {"pad_value": 1, "pad_to": 8},
        {"max_rows": 8, "batch_size": None},
    ],
    ids=str,
)
def test_without_a_ragged_leaf_they_are_refused(given):
    kwargs = {"payload_bytes": None, **given}
    name, value = next(iter(given.items()))
    said = [f"`{name}` is {value!r}", "no leaf of `spec` is ragged"]
    refused(echobuf.OptionError, *said, spec=FIXED, **kwargs)


def test_packed_says_nothing_that_fixed_leaves_contradict():
    echobuf.EchoBuffer(FIXED, batch_size=1, window=2, ragged="packed", pad_value=0)


def test_whole_batches_have_a_batch_axis_and_ragged_leaves():
    whole = {"batch_size": None, "unit": "batch"}
    refused(echobuf.OptionError, "no leaf of `spec`", spec=FIXED, **whole)
    refused(echobuf.SpecError, "[None]", "unit='batch'", spec=SPEC["tokens"], **whole)


def test_a_device_mixes_no_fixed_leaves_beside_them():
    on_device = {"device": "cuda", "payload_bytes": None}
    refused(
        echobuf.OptionError,
        "`spec['points']` is ragged",
        "`transform` mixes examples, on `device` 'cuda'",
        "device='cpu'",
        spec={**SPEC_OF_LENGTHS, "sound": echobuf.Field((8,), np.float32)},
        transform={"sound": [T.MixUp(labels=None)]},
        **on_device,
    )


# ---- padding


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int8, 128),
        (np.uint8, -1),
        (np.int32, 1.5),
        (np.int32, float("nan")),
        (np.int32, True),
        (np.int64, 2**63),
        (np.int32, 1j),
        (np.float32, 1j),
        (np.float16, 1e6),
        (np.bool_, 2),
        (np.int32, "x"),
        ("M8[s]", 1),
        ([("a", "i4"), ("b", "f4")], 1),
    ],
)
def test_a_value_that_the_dtype_does_not_hold_is_refused(dtype, value):
    spec = {"x": Field((None,), dtype)}
    said = ["`pad_value", repr(value)]
    refused(echobuf.OptionError, *said, spec=spec, ragged="padded", pad_value=value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.int8, -128),
        (np.int64, 2.0),
        (np.uint64, 2**64 - 1),
        (np.float16, 0.1),
        (np.float64, float("-inf")),
        (np.complex64, 1 - 2j),
        (np.bool_, True),
        (np.int16, np.int64(7)),
        (">i4", 258),
    ],
)
def test_padding_has_the_value(dtype, value):
    spec = Field((None,), dtype, max_length=3)
    kwargs = {"batch_size": 2, "window": 2, "factor": 1, "ragged": "padded"}
    with echobuf.EchoBuffer(spec, pad_value=value, **kwargs) as buffer:
        buffer.put_batch([np.zeros(n, dtype) for n in (1, 3)])
        batch = buffer.next_batch()
        assert batch.values.dtype == np.dtype(dtype)
        padding = batch.values[~batch.mask]
        assert padding.tolist() == [np.array(value).astype(dtype).item()] * 2


def test_each_leaf_may_have_a_value_of_its_own():
    kwargs = {**KWARGS, "ragged": "padded", "pad_value": PAD, "pad_to": 5}
    kwargs |= {"seed": 0, "drop_last": False}
    with make(kwargs) as buffer:
        assert serve(buffer, kwargs, [(3, 2), (0, 0), (1, 4)], [2])  # it looks
    refused(
        echobuf.OptionError,
        "`pad_value`",
        "structure",
        ragged="padded",
        pad_value={"tokens": 1},
    )
    refused(
        echobuf.OptionError,
        "`pad_value['points']` is -7",
        ragged="padded",
        pad_value={**PAD, "points": -7},
    )
    refused(
        echobuf.OptionError,
        "`pad_value['points']` is None",
        ragged="padded",
        pad_value={**PAD, "points": None},
    )


def test_a_value_with_nothing_to_pad_is_refused():
    refused(echobuf.OptionError, "`pad_value` is 1", "ragged='padded'", pad_value=1)


# ---- memory, state, repr


def test_more_than_max_bytes_is_refused_and_the_arguments_named():
    refused(
        echobuf.CapacityError,
        "`max_bytes` allows 5,000",
        "`payload_bytes`, which is 800,000",
        payload_bytes=800_000,
        max_bytes=5_000,
    )
    refused(echobuf.CapacityError, "needs", payload_bytes=2**62, max_bytes=5_000)


def test_the_bytes_taken_are_those_of_the_payload_and_little_more():
    payload = 4_000_000
    kwargs = {"batch_size": 8, "window": 1000, "factor": 8, "payload_bytes": payload}
    with echobuf.EchoBuffer(Field((None,), "i4"), **kwargs) as buffer:
        taken = buffer.stats().bytes_host
        # The window, the segment that is being filled, two records as large as a share,
        # of which none may wrap around, and the places of the records.
        assert payload * 9 / 8 <= taken <= payload * 11 / 8 + 100_000


def test_repr_names_the_leaves_and_max_rows():
    buffer = echobuf.EchoBuffer(SPEC, **{**KWARGS, "batch_size": None, "max_rows": 9})
    assert re.search(r"'tokens': int32\[None\]", repr(buffer))
    assert "max_rows=9, " in repr(buffer)
    assert "batch_size" not in repr(buffer)


@pytest.mark.parametrize(
    "other",
    [{"payload_bytes": 801}, {"batch_size": None, "max_rows": 4}, {"seed": 1}],
    ids=str,
)
def test_a_state_of_other_arguments_is_refused(other):
    with echobuf.EchoBuffer(SPEC, **KWARGS) as buffer:
        state = json.loads(json.dumps(buffer.state_dict()))
    with echobuf.EchoBuffer(SPEC, **KWARGS) as buffer:
        buffer.load_state_dict(state)
    with echobuf.EchoBuffer(SPEC, **{**KWARGS, **other}) as buffer:  # noqa: SIM117
        with pytest.raises(echobuf.StateError, match=f"`({'|'.join(other)})`"):
            buffer.load_state_dict(state)


def test_a_state_does_not_depend_on_the_form():
    with echobuf.EchoBuffer(SPEC, **KWARGS) as buffer:
        state = buffer.state_dict()
    padded = {**KWARGS, "ragged": "padded", "pad_to": 4}
    with echobuf.EchoBuffer(SPEC, **padded) as buffer:
        buffer.load_state_dict(state)
