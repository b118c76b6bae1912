"""A job without heartbeats is dropped, and gets an error when it wakes up."""

import os
import signal
import subprocess
import sys
import time

from serve_data import NAME, Job, Numbers, counts_of

from echobuf import serve
from helpers import until

PROGRAM = """
import sys
sys.path.append({here!r})
from echobuf import EchoLoader, UpstreamError, serve
from serve_data import NAME, ids_of
attached = serve.attach(NAME, timeout=60.0)
epoch = iter(EchoLoader(attached, window=8, batch_size=4, factor=2))
print(len(ids_of(next(epoch))), flush=True)
sys.stdin.readline()
try:
    while True:
        ids_of(next(epoch))
except UpstreamError as error:
    print(error)
"""

SERVER = """
import sys
sys.path.append({here!r})
from echobuf import serve
from serve_data import NAME, Numbers
with serve.Server(Numbers(10**6), NAME, window=8, lease=1.0):
    sys.stdin.readline()
"""


def test_a_job_that_is_silent_longer_than_its_lease_is_dropped():
    upstream = Numbers(2000)
    with serve.Server(upstream, NAME, window=8, jobs=2, epochs=1, lease=2.0):
        stopped = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(here=os.path.dirname(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        other = Job(1, {"window": 8, "batch_size": 4, "factor": 2})
        assert stopped.stdout.readline() == "4\n"
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            # It held the other one up until then.
            assert counts_of(other.end()[0], 2000) == [2] * 2000
            until(lambda: upstream.made == 2000)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        said, _ = stopped.communicate("\n", timeout=60)
        assert "dropped this job" in said
        assert stopped.returncode == 0


def test_no_job_is_dropped_after_all_processes_were_stopped():
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", program.format(here=os.path.dirname(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for program in (SERVER, PROGRAM)
    ]
    server, job = programs
    try:
        assert job.stdout.readline() == "4\n"
        for each in programs:
            os.kill(each.pid, signal.SIGSTOP)
        time.sleep(1.5)  # longer than the lease
        os.kill(server.pid, signal.SIGCONT)
        serve.attach(NAME).close()  # it looks at its jobs again
    finally:
        os.kill(job.pid, signal.SIGCONT)
        server.communicate("\n", timeout=60)
    said, _ = job.communicate("\n", timeout=60)
    assert "closed" in said
