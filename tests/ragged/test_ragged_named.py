"""Leaves that are ragged because the arguments say so, not because lengths vary."""

import numpy as np
import pytest

import echobuf

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]


@pytest.mark.parametrize("lengths", [[4] * 8, [0] * 8, [5]])
def test_examples_of_one_array_are_ragged_as_is_said(lengths):
    arrays = [np.arange(length) for length in lengths]
    loader = echobuf.EchoLoader(
        arrays, batch_size=2, window=4, factor=2, payload_bytes=4000, ragged="packed"
    )
    batches = list(loader)
    assert all(type(batch) is echobuf.Ragged for batch in batches)
    assert sum(len(batch.to_list()) for batch in batches) == 2 * len(lengths)


def test_all_leaves_are_ragged_with_pack_to():
    examples = [{"t": np.arange(4), "u": np.ones(4)}] * 6
    loader = echobuf.EchoLoader(examples, batch_size=2, window=6, factor=1, pack_to=9)
    (batch, last) = loader
    assert {type(leaf) for leaf in batch.values()} == {echobuf.Packed}
    assert batch["u"].lengths.tolist() + last["u"].lengths.tolist() == [8, 8, 8]


def test_an_example_larger_than_a_share_is_named():
    arrays = [np.zeros(length) for length in (5, 3, 1000)]
    loader = echobuf.EchoLoader(
        arrays, batch_size=2, window=8, factor=2, payload_bytes=4000
    )
    line = r"^item 2 of upstream is too large: .*8,000 bytes.*is 2,000.*16,000"
    with pytest.raises(echobuf.UpstreamError, match=line) as caught:
        list(loader)
    assert isinstance(caught.value.__cause__, echobuf.CapacityError)
