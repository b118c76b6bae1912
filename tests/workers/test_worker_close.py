"""`close()` of a loader that has worker processes."""

import pytest

import echobuf
from worker_data import Numbers, workers_alive

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


def test_they_have_ended_when_it_returns():
    with echobuf.EchoLoader(
        Numbers(400), num_workers=2, batch_size=4, window=16, factor=2
    ) as loader:
        epoch = iter(loader)
        next(epoch)
        assert workers_alive()
    assert workers_alive() == []
    with pytest.raises(echobuf.ClosedError, match="this loader was closed"):
        next(epoch)
