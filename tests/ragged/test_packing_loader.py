"""Loaders that pack rows, and what they and buffers refuse."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from packed_records import check_all, together
from packing_reference import SPEC, example, packed_batches

import echobuf
from echobuf import EchoBuffer, EchoLoader, Field, OptionError, SpecError
from helpers import WAIT_S

pytestmark = pytest.mark.contract

LENGTHS = [number * 7 % 12 for number in range(300)]
EXAMPLES = [example(number, length) for number, length in enumerate(LENGTHS)]
KWARGS = {"batch_size": 5, "window": 32, "factor": 2, "pack_to": 16, "seed": 3}
REFERENCE = {**KWARGS, "drop_last": False}


def expected(epoch=0, **more):
    return packed_batches({**REFERENCE, **more}, LENGTHS, epoch)


@pytest.mark.parametrize("payload_bytes", [None, 4 * 16 * 7])
@pytest.mark.parametrize("overlap_epochs", [False, True])
def test_each_epoch_is_that_of_the_reference(payload_bytes, overlap_epochs):
    more = {"payload_bytes": payload_bytes}
    kwargs = {**KWARGS, **more, "overlap_epochs": overlap_epochs}
    with EchoLoader(EXAMPLES, **kwargs) as loader:
        for epoch in range(3):
            check_all(list(loader), expected(epoch, **more), KWARGS, LENGTHS)


def test_batched_upstreams_are_read():
    upstream = [together(range(at, at + 20), LENGTHS) for at in range(0, 300, 20)]
    with EchoLoader(upstream, batched=True, **KWARGS) as loader:
        check_all(list(loader), expected(), KWARGS, LENGTHS)


def test_a_state_of_any_batch_goes_on():
    batches = expected()
    for done in range(0, len(batches), 3):
        with EchoLoader(EXAMPLES, **KWARGS) as loader:
            taken = list(itertools.islice(loader, done))
            state = json.loads(json.dumps(loader.state_dict()))
        with EchoLoader(EXAMPLES, **KWARGS) as loader:
            loader.load_state_dict(state)
            check_all(taken + list(loader), batches, KWARGS, LENGTHS)
            check_all(list(loader), expected(1), KWARGS, LENGTHS)


@pytest.mark.parametrize("drop_last", [False, True])
def test_the_state_after_the_last_batch_is_the_next_epoch(drop_last):
    kwargs = {**KWARGS, "drop_last": drop_last}
    batches = expected(drop_last=drop_last)
    with EchoLoader(EXAMPLES, **kwargs) as loader:
        taken = list(itertools.islice(loader, len(batches)))
        state = loader.state_dict()
    check_all(taken, batches, kwargs, LENGTHS)
    assert (state["epoch"], state["fresh_offset"]) == (1, 0)


def test_auto_serves_all():
    kwargs = {**KWARGS, "factor": "auto", "max_factor": 2}
    seen = Counter()
    with EchoLoader(EXAMPLES, **kwargs) as loader:
        for batch in loader:
            seen.update(int(part[0]) // 1000 for part in batch["tokens"].to_list())
    assert set(seen) == {number for number, length in enumerate(LENGTHS) if length}


def test_the_number_of_batches_is_bounded():
    loader = EchoLoader(EXAMPLES, **KWARGS)
    with pytest.raises(TypeError, match="`pack_to`"):
        len(loader)
    assert loader.max_batches() == 120  # of one example in each row
    assert len(list(loader)) <= 120
    loader.close()
    assert EchoLoader(EXAMPLES, **{**KWARGS, "batch_size": 7}).max_batches() == 86


# ---- memory


@pytest.mark.parametrize("batch_size", [1, 50])
def test_rows_that_are_open_count_as_memory(batch_size):
    kwargs = {"batch_size": batch_size, "window": 500, "factor": 1, "pack_to": 512}
    spec = Field((None,), np.int32)
    with EchoBuffer(spec, **kwargs) as buffer:
        buffer.put_batch([np.zeros(300, np.int32)] * 500)
        buffer.next_batch(timeout=WAIT_S)
        stats = buffer.stats()
    taken = stats.bytes_device or stats.bytes_host
    with pytest.raises(echobuf.CapacityError) as caught:
        EchoBuffer(spec, **kwargs, max_bytes=taken - 1)
    assert "`max_bytes`" in str(caught.value)


# ---- bad input


def refused(error, *said, spec=SPEC, **kwargs):
    with pytest.raises(error) as caught:
        EchoBuffer(spec, **{**KWARGS, **kwargs})
    for part in said:
        assert part in str(caught.value), caught.value


@pytest.mark.parametrize("value", [0, -1, 2.5, "2", True, 2**31])
def test_pack_to_is_an_int(value):
    refused(OptionError, "`pack_to`", repr(value)[:5], pack_to=value)


@pytest.mark.parametrize("value", ["drop", None, True])
def test_overlong_is_error_or_cut(value):
    refused(OptionError, f"`overlong` is {value!r}", "'error' or 'cut'", overlong=value)


def test_options_that_say_another_form_are_refused():
    refused(OptionError, "`overlong` is 'cut'", pack_to=None, overlong="cut")
    refused(OptionError, "`ragged` is 'padded'", ragged="padded")
    refused(OptionError, "`pad_to` is 8", pad_to=8)
    refused(OptionError, "`batch_size`", "`max_rows` is 8", max_rows=8)
    refused(OptionError, "`max_rows` is 8", batch_size=None, max_rows=8)


def test_leaves_of_a_fixed_shape_are_refused():
    spec = {**SPEC, "label": Field((), np.int64)}
    refused(OptionError, "`pack_to` is 16", "`spec['label']`", spec=spec)
    refused(OptionError, "`pack_to` is 16", spec=Field((3,), np.int32))


def test_a_loader_names_the_arguments_that_it_needs():
    for name in ("batch_size", "window"):
        with pytest.raises(OptionError, match=f"`{name}` is None"):
            EchoLoader(EXAMPLES, **{**KWARGS, name: None})


def test_an_example_longer_than_a_row_is_refused_and_leaves_the_buffer_as_it_was():
    with EchoBuffer(SPEC, **KWARGS) as buffer:
        with pytest.raises(SpecError, match=r"has 17 rows; `pack_to` is 16") as caught:
            buffer.put(example(0, 17))
        assert "overlong='cut'" in str(caught.value)
        with pytest.raises(SpecError, match="has 17 rows in its example 2"):
            buffer.put_batch(together(range(4), [3, 3, 17, 3]))
        assert buffer.stats().fresh == 0


def test_leaves_of_different_lengths_are_refused():
    with EchoBuffer(SPEC, **KWARGS) as buffer:
        with pytest.raises(SpecError, match=r"\['tokens'\]` has 3 rows") as caught:
            buffer.put({**example(0, 3), "points": np.zeros((4, 3), np.uint8)})
        for part in ("`example['points']` has 4", "`pack_to`"):
            assert part in str(caught.value)
        whole = together(range(3), [3, 5, 2])
        whole["points"][1] = whole["points"][1][:4]
        with pytest.raises(SpecError, match="in its example 1"):
            buffer.put_batch(whole)
        assert buffer.stats().fresh == 0


def test_an_example_over_its_share_names_both():
    kwargs = {**KWARGS, "payload_bytes": 2 * 10 * 7}
    with EchoBuffer(SPEC, **kwargs) as buffer:
        buffer.put(example(0, 10))
        with pytest.raises(echobuf.CapacityError, match="77 bytes") as caught:
            buffer.put(example(1, 11))
        assert "share of `payload_bytes` is 70" in str(caught.value)
    # What is cut counts as it is stored.
    with EchoBuffer(SPEC, **{**kwargs, "pack_to": 10, "overlong": "cut"}) as buffer:
        buffer.put(example(0, 30))
