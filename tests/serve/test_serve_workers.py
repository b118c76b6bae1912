"""A server with worker processes serves what they wrote, and nothing else."""

import threading

import numpy as np
import pytest
from serve_data import NAME, upstream_of
from serve_worker_data import Marked, RaiseAt, WaitAt, numbers_of
from serve_worker_kills import main as kill

from echobuf import EchoLoader, UpstreamError, serve
from helpers import until

N = 400
KWARGS = {"window": 16, "batch_size": 4, "factor": 1}


class Job(threading.Thread):
    """Draws epochs of a server, and checks every word of every example.

    Args:
        epochs: how many.
    """

    def __init__(self, epochs: int = 1, **kwargs) -> None:
        super().__init__(name="a job")
        self.served: list[list[int]] = [[] for _ in range(epochs)]
        self.error: BaseException | None = None
        self.kwargs = {**KWARGS, **kwargs}
        self.start()

    def run(self) -> None:
        try:
            with serve.attach(NAME, timeout=60.0, reconnect=60.0) as attached:
                loader = EchoLoader(attached, **self.kwargs)
                for served in self.served:
                    for batch in loader:
                        served.extend(numbers_of(batch))
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """Raise what it raised."""
        self.join(60)
        assert not self.is_alive(), "a job hangs"
        if self.error is not None:
            raise self.error


def server_of(dataset, **kwargs):
    kwargs = {"window": 16, "lag": 96, "num_workers": 2, "epochs": 1, **kwargs}
    return serve.Server(dataset, NAME, **kwargs)


def native_pool(server):
    return upstream_of(server).reader.pool.core


def is_revoked(server):
    """Return True if all items submitted so far are revoked."""
    core = native_pool(server)
    return not core.is_wanted(core.submitted() - 1)


def test_examples_revoked_as_a_worker_raised_are_not_served():
    with server_of(Marked(N, RaiseAt(100))):
        job = Job()
        with pytest.raises(UpstreamError, match="no such example"):
            job.end()
    assert len(set(job.served[0])) == len(job.served[0])
    assert set(job.served[0]) <= set(range(100))


def test_the_next_server_writes_revoked_examples_again(tmp_path):
    go_on = tmp_path / "go on"
    job = Job(factor=2)
    with server_of(Marked(N, WaitAt(100, go_on))) as first:
        until(lambda: serve.status(NAME).published == 100)
        closing = threading.Thread(target=first.close, kwargs={"restarting": True})
        closing.start()
        until(lambda: is_revoked(first))
        go_on.touch()
        closing.join(60)
        assert not closing.is_alive()
    with server_of(Marked(N)):
        job.end()
    assert np.bincount(job.served[0]).tolist() == [2] * N


@pytest.mark.parametrize(("kills", "ragged"), [(5, False), (3, True)])
def test_kills(kills, ragged):
    assert kill(kills, 2, ragged=ragged).whole > 0
