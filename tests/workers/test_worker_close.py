"""`close()` of a loader that has worker processes."""

import pytest

import echobuf
from worker_data import Listed, Numbers, ids, load, workers_alive

pytestmark = pytest.mark.usefixtures("no_leaked_threads")


def test_workers_have_ended_when_close_returns():
    with echobuf.EchoLoader(
        Numbers(400), num_workers=2, batch_size=4, window=16, factor=2
    ) as loader:
        epoch = iter(loader)
        next(epoch)
        assert workers_alive()
    assert workers_alive() == []
    with pytest.raises(echobuf.ClosedError, match="this loader was closed"):
        next(epoch)


def test_workers_make_no_further_example_after_close(tmp_path):
    with load(Listed(20, tmp_path / "asked"), 1) as loader:
        ids(loader)
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["0", *map(str, range(20))]  # the first one in this process
