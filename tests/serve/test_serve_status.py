"""Figures of a server: its jobs, their rates, and its own."""

import threading

from serve_data import NAME, Numbers

from echobuf import EchoLoader, serve
from helpers import until

KWARGS = {"window": 8, "batch_size": 4, "factor": 2}


def test_a_job_that_rests_has_no_rate():
    with serve.Server(Numbers(40), NAME, window=8), serve.attach(NAME) as attached:
        loader = EchoLoader(attached, **KWARGS)
        list(loader)
        until(lambda: [job.rate for job in serve.status(NAME).jobs] == [0.0])
        del loader


def test_a_job_that_reads_has_a_rate():
    with (
        serve.Server(Numbers(40), NAME, window=8),
        serve.attach(NAME, job="busy") as attached,
        EchoLoader(attached, **KWARGS) as loader,
    ):
        done = threading.Event()

        def draw():
            while not done.is_set():
                list(loader)

        thread = threading.Thread(target=draw)
        thread.start()
        try:
            until(lambda: [job.rate > 0 for job in serve.status(NAME).jobs] == [True])
            found = serve.status(NAME)
        finally:
            done.set()
            thread.join()
        assert found.jobs[0].job == "busy"
        assert found.rate > 0


def test_a_server_says_its_name_and_window():
    with serve.Server(Numbers(3), NAME, window=8) as server:
        assert repr(server) == f"Server({NAME!r}, window=8)"


def test_a_length_of_nothing_is_believed():
    with (
        serve.Server(Numbers(3), NAME, window=8, length=0),
        serve.attach(NAME) as attached,
    ):
        assert len(attached) == 0
