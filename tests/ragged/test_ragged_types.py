"""Fields with a length that varies, and the named tuples of ragged batches."""

import pickle
import re

import numpy as np
import optree
import pytest

import echobuf
from echobuf import Field
from echobuf.spec import describe, make_spec

pytestmark = pytest.mark.host


def test_a_field_says_that_axis_0_varies():
    field = Field((None, 3), "f4", max_length=8)
    assert field.shape == (None, 3)
    assert repr(field) == (
        "Field(shape=(None, 3), dtype=dtype('float32'), max_length=8)"
    )
    assert field == Field([None, 3], np.float32, 8)
    assert field != Field((None, 3), "f4")
    assert field != Field((8, 3), "f4")
    assert hash(field) == hash(Field((None, 3), "f4", max_length=8))
    assert pickle.loads(pickle.dumps(field)) == field
    assert Field((None,), "i4").max_length is None


def test_a_spec_is_described_with_none_for_what_varies():
    spec = make_spec({"x": Field((None, 3), "f4"), "y": np.int64(0)})
    assert describe(spec) == "{'x': float32[None, 3], 'y': int64[]}"
    assert spec.is_ragged
    assert not make_spec(np.zeros(3)).is_ragged  # arrays have the length that they have


@pytest.mark.parametrize(
    ("shape", "more", "said"),
    [
        (None, {}, "`shape` is None"),
        ((3, 4, None), {}, "only axis 0 may be None"),
        ((3, None, None), {}, "only axis 0 may be None"),
        ((3, None, 0), {}, "have no bytes"),
        ((-1, None), {}, "no extent may be negative"),
        ((None, None), {}, "only axis 0 may be None"),
        ((None, -1), {}, "no extent may be negative"),
        ((None, 2.5), {}, "`shape`"),
        ((None, 0), {}, "have no bytes"),
        ((None, *[1] * 64), {}, "NumPy does not allow"),
        ((None,), {"max_length": 0}, "`max_length` is 0"),
        ((None,), {"max_length": -1}, "`max_length` is -1"),
        ((None,), {"max_length": 2.0}, "`max_length` is 2.0"),
        ((None,), {"max_length": True}, "`max_length` is True"),
        ((4,), {"max_length": 4}, "does not vary"),
        ((), {"max_length": 4}, "does not vary"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(shape, more, said):
    with pytest.raises(echobuf.SpecError, match=re.escape(said)):
        Field(shape, "f4", **more)


def test_a_ragged_gives_its_arrays_as_views():
    values = np.arange(5)
    ragged = echobuf.Ragged(values, np.array([0, 2, 2, 5]))
    assert ragged.lengths.tolist() == [2, 0, 3]
    arrays = ragged.to_list()
    assert [array.tolist() for array in arrays] == [[0, 1], [], [2, 3, 4]]
    assert all(array.base is values for array in arrays)
    assert echobuf.Ragged(values[:0], np.array([0])).to_list() == []


def test_a_padded_gives_its_arrays_and_its_mask():
    padded = echobuf.Padded(np.array([[1, 2, 0], [0, 0, 0]]), np.array([2, 0]))
    assert [array.tolist() for array in padded.to_list()] == [[1, 2], []]
    assert padded.mask.tolist() == [[True, True, False], [False] * 3]
    assert padded.mask.dtype == bool


@pytest.mark.parametrize("kind", [echobuf.Ragged, echobuf.Padded, echobuf.Packed])
def test_they_are_nodes_of_trees(kind):
    made = kind(*range(len(kind._fields)))
    leaves, treespec = optree.tree_flatten(made)
    assert leaves == list(made)
    doubled = optree.tree_map(lambda leaf: 2 * leaf, made)
    assert type(doubled) is kind
    assert treespec.unflatten(leaves) == made
