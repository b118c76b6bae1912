"""First items of upstream that have no ragged leaves, and errors that say why."""

import numpy as np
import pytest

import echobuf

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]


def refused(upstream, error, **arguments):
    """Return the message with which a loader refuses the first items of upstream."""
    arguments = {"payload_bytes": 4000, "window": 8, "factor": 2, **arguments}
    loader = echobuf.EchoLoader(upstream, batch_size=2, **arguments)
    with pytest.raises(error) as caught:
        iter(loader)
    return str(caught.value)


@pytest.mark.parametrize("rows", [lambda n: n, lambda n: 3])
def test_an_array_whose_other_axes_vary_is_named_with_its_shapes(rows):
    upstream = [(np.zeros((rows(n), n)), n) for n in range(2, 6)]
    said = refused(upstream, echobuf.SpecError)
    shapes = [[rows(n), n] for n in (2, 3)]
    assert f"`example[0]` has shape {shapes[0]}" in said
    assert f"{shapes[1]} in another" in said
    assert "axis 0" in said


def test_an_array_that_varies_leaves_the_others_to_the_buffer():
    """An item that does not fit is named by its number, once it comes."""
    upstream = [(np.zeros(n), np.zeros((2, n))) for n in range(2, 6)]
    loader = echobuf.EchoLoader(
        upstream, batch_size=2, window=8, factor=2, payload_bytes=4000
    )
    with pytest.raises(echobuf.ItemError, match=r"item 1 .*`example\[1\]`"):
        list(loader)


def test_a_scalar_beside_packed_rows_is_named_as_such():
    upstream = [{"tokens": np.arange(n), "label": n} for n in range(2, 6)]
    said = refused(upstream, echobuf.OptionError, pack_to=9)
    assert "`pack_to` is 9" in said
    assert "['label']` has the fixed shape ()" in said
    assert "`ragged` names" not in said


@pytest.mark.parametrize("batch", [np.zeros((4, 3)), {"tokens": np.zeros((1, 7))}])
def test_batches_that_are_stacked_are_told_from_ragged_ones(batch):
    said = refused([batch] * 3, echobuf.OptionError, batched=True)
    assert "`payload_bytes` is 4000" in said
    assert "list of arrays, one for each example" in said


@pytest.mark.parametrize("labels", [[1, 2], np.array([1, 2])])
def test_lists_of_numbers_in_batches_are_named(labels):
    """As datasets without a format have them, and collate functions."""
    tokens = [[1, 2], [3]] if isinstance(labels, np.ndarray) else [np.arange(2)] * 2
    named = "labels" if isinstance(labels, list) else "tokens"
    upstream = [{"tokens": tokens, "labels": labels}] * 3
    said = refused(upstream, echobuf.SpecError, batched=True)
    assert f"`batch['{named}']` is a list, and each number in it a leaf" in said
    assert "with_format" in said
