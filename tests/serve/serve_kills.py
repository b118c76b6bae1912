"""Kill jobs and servers at random: `python tests/serve/serve_kills.py KILLS SEED`.

With `ragged` behind it, examples differ in length; with `carries` they have texts.
Every epoch that a job gets to the end of must have each fresh example exactly as often
as its factor says, whole, however often the server was killed meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from echobuf import EchoLoader, serve

_N = 300
_NAME = "kills"


class Numbers:
    """An upstream whose examples repeat their number, `length_of` times.

    If it carries, they have their number as a text, too.
    """

    def __init__(self, length_of: Callable[[int], int], *, carries: bool) -> None:
        self._length_of = length_of
        self._carries = carries

    def __iter__(self) -> Iterator[Any]:
        for i in range(_N):
            if i % 16 == 0:
                time.sleep(0.001)
            data = np.full(self._length_of(i), i, np.int32)
            more = {"text": str(i)} if self._carries else {}
            yield {"id": np.int64(i), "data": data, **more}


def _one_length(number: int) -> int:
    return 200


def _some_length(number: int) -> int:
    return number * 7919 % 400


def _serve(kwargs: dict[str, Any], *, carries: bool) -> None:
    length_of = _some_length if kwargs else _one_length
    upstream = Numbers(length_of, carries=carries)
    serve.Server(upstream, _NAME, window=32, lag=64, lease=2.0, **kwargs).wait()


def _train(factor: int, out: int, kwargs: dict[str, Any]) -> None:
    attached = serve.attach(_NAME, timeout=30.0, reconnect=30.0)
    loader = EchoLoader(
        attached, batch_size=8, window=32, factor=factor, seed=factor, **kwargs
    )
    check = _check_ragged if kwargs else _check
    while True:
        counts = np.zeros(_N, int)
        for batch in loader:
            check(batch)
            assert batch.get("text") in (None, [*map(str, batch["id"].tolist())])
            np.add.at(counts, batch["id"], 1)
        assert (counts == factor).all(), f"not {factor} times each: {counts.tolist()}"
        os.write(out, b".")


def _check(batch: Any) -> None:
    assert (batch["data"] == batch["id"][:, None]).all(), "a torn example"


def _check_ragged(batch: Any) -> None:
    ids, data = batch["id"], batch["data"]
    lengths = [_some_length(each) for each in ids.tolist()]
    assert data.lengths.tolist() == lengths, "a torn length"
    assert (data.values == np.repeat(ids, lengths)).all(), "a torn example"


def _fork(work: Callable[[], None]) -> int:
    process = os.fork()
    if process:
        return process
    try:
        work()
        os._exit(0)
    except BaseException as error:
        print(f"process {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
        os._exit(3)


class Run:
    """A server and jobs, which are killed and started again."""

    def __init__(
        self, seed: int, jobs: int = 3, *, ragged: bool = False, carries: bool = False
    ) -> None:
        self._carries = carries
        self.random = random.Random(seed)
        self._kwargs = {"payload_bytes": 32 * 800} if ragged else {}
        self.epochs, self._out = os.pipe()
        os.set_blocking(self.epochs, False)
        self.completed = 0
        self.files = len(os.listdir("/proc/self/fd"))  # that all inherit
        self.server = self._server()
        self.jobs = [self._job() for _ in range(jobs)]

    def _server(self) -> int:
        return _fork(lambda: _serve(self._kwargs, carries=self._carries))

    def _job(self) -> int:
        factor = self.random.randint(1, 4)
        return _fork(lambda: _train(factor, self._out, self._kwargs))

    def kill(self) -> None:
        """Kill one of them, and start another in its place."""
        # So long that some get to the end of an epoch, and some not to its start.
        time.sleep(self.random.choice([0.02, 0.4]) * self.random.random())
        self.look()
        if self.random.random() < 0.2:
            _end(self.server)
            self.server = self._server()
        else:
            i = self.random.randrange(len(self.jobs))
            _end(self.jobs[i])
            self.jobs[i] = self._job()

    def look(self) -> int:
        """Count the epochs that jobs have completed; fail if a job failed."""
        for process in (self.server, *self.jobs):
            ended, status = os.waitpid(process, os.WNOHANG)
            assert not ended, f"process {process} ended by itself: {status}"
        with contextlib.suppress(BlockingIOError):
            self.completed += len(os.read(self.epochs, 1 << 16))
        return self.completed

    def end(self) -> None:
        """Check that all jobs still make progress, and end them."""
        before, deadline = self.look(), time.monotonic() + 60
        while self.look() < before + 2 * len(self.jobs):
            assert time.monotonic() < deadline, "they hang"
            time.sleep(0.05)
        files = len(os.listdir(f"/proc/{self.server}/fd"))
        threads = len(os.listdir(f"/proc/{self.server}/task"))
        own = files - self.files
        assert own < 12 + 2 * len(self.jobs), f"the server has {own} files open"
        assert threads < 8 + 2 * len(self.jobs), f"the server has {threads} threads"
        for process in (*self.jobs, self.server):
            _end(process)


def _end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), f"process {process} had ended: {status}"


def _shared() -> set[str]:
    """Return echobuf's files there; those of other programs come and go."""
    return {each for each in os.listdir("/dev/shm") if "echobuf" in each}


def main(kills: int, seed: int, *, ragged: bool = False, carries: bool = False) -> int:
    """Return the number of epochs that were completed meanwhile."""
    before = _shared()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        run = Run(seed, ragged=ragged, carries=carries)
        for _ in range(kills):
            run.kill()
        run.end()
        left = {path.suffix for path in (Path(folder) / "echobuf").iterdir()}
        assert left <= {".lock", ".sock", ".jobs"}, left
    assert _shared() <= before, "something was left in /dev/shm"
    return run.completed


if __name__ == "__main__":
    kills, seed = int(sys.argv[1]), int(sys.argv[2])
    kinds = sys.argv[3:]
    whole = main(kills, seed, ragged="ragged" in kinds, carries="carries" in kinds)
    print(f"{kills} kills, {whole} whole epochs, each exact")
