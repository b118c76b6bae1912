"""Methods of the core that Python calls without pybind11 take as little for granted."""

import numpy as np
import pytest

from echobuf import Field, _core
from echobuf.loader_buffer import LoaderBuffer
from echobuf.spec import make_structure

pytestmark = pytest.mark.host

BUFFERS = [_core.Buffer, _core.DeviceBuffer, _core.SharedRing]


def core():
    return LoaderBuffer(Field((2,), "f4"), window=4, batch_size=2, factor=1).core


@pytest.mark.parametrize("kind", BUFFERS)
def test_an_object_that_was_not_initialised_is_refused(kind):
    hollow = kind.__new__(kind)
    with pytest.raises(TypeError, match="__init__"):
        hollow.put_tree(np.zeros(2, "f4"), False, None)
    if kind is not _core.SharedRing:
        with pytest.raises(TypeError, match="__init__"):
            hollow.ready()


def test_an_object_of_another_class_is_refused():
    for call in (
        lambda: _core.Buffer.ready(object()),
        lambda: _core.Buffer.next(None, None),
        lambda: _core.Buffer.put_tree(3, None, False, None),
        lambda: _core.Buffer.next_into(None, [], None),
        lambda: _core.Structure.flatten(core(), []),
        lambda: _core.Structure.unflatten(core(), []),
    ):
        with pytest.raises(TypeError, match="descriptor"):
            call()


def test_calls_with_wrong_arguments_raise():
    buffer = core()
    row = np.zeros(2, "f4")
    for arguments in [(), (row,), (row, False), (row, False, None, None, None, None)]:
        with pytest.raises(TypeError, match="put_tree"):
            buffer.put_tree(*arguments)
    for arguments in [(row, False, "soon"), (row, False, None, "term")]:
        with pytest.raises(TypeError):
            buffer.put_tree(*arguments)
    with pytest.raises(OverflowError):
        buffer.put_tree(row, False, None, -1)
    with pytest.raises(TypeError):
        buffer.next("soon")
    for arguments in [(), ([],), ((), None), ([], None, None)]:
        with pytest.raises(TypeError, match="next_into"):
            buffer.next_into(*arguments)
    with pytest.raises(TypeError):
        buffer.next_into([np.zeros((2, 2), "f4")], "soon")
    with pytest.raises(TypeError, match="list"):
        structure().unflatten((1,))
    assert buffer.ready() is False
    for _ in range(4):  # nothing was put before
        assert buffer.ready() is False
        assert buffer.put_tree(row, False, None) is None
    assert buffer.ready() is True


def structure():
    import optree

    return make_structure(optree.tree_structure({"a": 1}))


def test_an_error_raised_within_comes_out_as_it_is():
    class Odd(dict):
        pass

    assert structure().unflatten([1]) == {"a": 1}
    with pytest.raises(ValueError, match="leaves"):
        structure().unflatten([])
    buffer = core()
    code, put = buffer.put_tree(Odd(), False, None)
    assert (code, put) == (_core.MISMATCH, 0)
