"""Any error of a dataset in a worker reaches the loop as an `UpstreamError`."""

import traceback

import pytest

import echobuf
import error_data
from echobuf.workers.messages import pack_error, unpack_error
from worker_data import Troubled, ids, load

CLASSES = [
    error_data.SilentError,
    error_data.ExitingError,
    error_data.OnlyThereError,
    error_data.LockedError,
    error_data.StubbornError,
    ValueError,
]


@pytest.mark.parametrize("kind", CLASSES)
def test_any_error_can_be_sent_and_recognised(kind):
    try:
        error_data.Raise(kind)()
    except ValueError as error:
        packed = pack_error(error)
    for text in packed[1:]:
        assert kind.__name__ in text
        text.encode()
    assert "error_data.py" in packed[2]  # where
    cause = unpack_error(packed).__cause__
    assert "error_data.py" in str(cause)


@pytest.mark.parametrize("kind", [error_data.ExitingError, error_data.OnlyThereError])
def test_the_loop_gets_the_error(kind):
    loader = load(Troubled(60, error_data.Raise(kind), 30), 1, max_restarts=0)
    with pytest.raises(echobuf.UpstreamError, match=kind.__name__) as caught:
        ids(loader)
    "".join(traceback.format_exception(caught.value)).encode()
