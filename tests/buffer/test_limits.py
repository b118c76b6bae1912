"""Errors that are due to the limits of this process are told from others."""

import errno
import os

import pytest

import echobuf
from echobuf.resources import enough

TOO_MANY, NO_MORE = os.strerror(errno.EMFILE), os.strerror(errno.EAGAIN)
TOO_LARGE = os.strerror(errno.EFBIG)


class OwnError(RuntimeError):
    """Of a user's code, which may speak of another machine."""


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (OSError(errno.EMFILE, "x"), "ulimit -n"),
        (OSError(errno.ENFILE, "x"), "sysctl fs.file-max"),
        (OSError(errno.EAGAIN, "x"), "ulimit -u"),
        (RuntimeError(f"shared memory: {TOO_MANY}"), "ulimit -n"),
        (OSError(errno.EFBIG, "x"), "ulimit -f"),
        (RuntimeError(f"shared memory: {TOO_LARGE}"), "ulimit -f"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (RuntimeError(NO_MORE), "ulimit -u"),
    ],
)
def test_those_of_the_system_are_clear(error, names):
    with (
        pytest.raises(echobuf.CapacityError, match=f"^a thing .*`{names}`") as found,
        enough("a thing", "change it"),
    ):
        raise error
    assert found.value.__cause__ is error


@pytest.mark.parametrize(
    "said",
    [TOO_MANY, NO_MORE, f"shared memory: {TOO_LARGE}", "can't start new thread"],
)
@pytest.mark.parametrize(
    "kind", [echobuf.UpstreamError, echobuf.ClosedError, OwnError, OSError, ValueError]
)
def test_others_that_say_the_same_are_passed_on(kind, said):
    error = kind(said)
    with pytest.raises(kind) as found, enough("a thing", "change it"):
        raise error
    assert found.value is error
