"""Kill workers, jobs and the server: `python serve_worker_kills.py KILLS SEED`.

A server has worker processes; it is ended in every way that there is, at random
moments, and another goes on in its place: SIGKILL, SIGTERM as of `echobuf serve`, a
`close(restarting=True)` that ends the process by itself. Every epoch that a job gets to
the end of must have each fresh example exactly as often as its factor says, every word
of it as it was made. With `ragged` behind the seed, examples differ in length; with
`carries` they have texts. Prints how many were killed, and how many epochs were whole.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from serve_worker_data import Marked, MarkedTexts, numbers_of

from echobuf import EchoLoader, serve

N = 300
NAME = "kills"
WORKERS = 2
JOBS = 2
RAGGED = {"payload_bytes": 32 * 1200}


# ---- the programs


class Told:
    """A dataset whose examples have the numbers of another one as texts, too."""

    def __init__(self, dataset: Marked | MarkedTexts) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Any:
        return {"example": self._dataset[index], "text": str(index)}


def run_server(*, ragged: bool, carries: bool) -> None:
    """Serve until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    # Jobs come back within the lease, or have been killed.
    dataset = MarkedTexts(N) if ragged else Marked(N)
    with serve.Server(
        Told(dataset) if carries else dataset,
        NAME,
        window=32,
        lag=64,
        lease=3.0,
        num_workers=WORKERS,
        multiprocessing_context="forkserver",
        max_restarts=10**6,
        **(RAGGED if ragged else {}),
    ) as server:
        while not stop.wait(0.05):
            if server.wait(0.0):
                raise RuntimeError("it has no end")
        server.close(restarting=True)


def run_job(factor: int, *, ragged: bool, carries: bool) -> None:
    """Train for ever; print a line for each whole epoch."""
    attached = serve.attach(NAME, timeout=60.0, reconnect=60.0)
    kwargs = {"batch_size": 8, "window": 32, "factor": factor, "seed": factor}
    loader = EchoLoader(attached, **kwargs, **(RAGGED if ragged else {}))
    while True:
        counts = np.zeros(N, int)
        for batch in loader:
            numbers = numbers_of(batch["example"] if carries else batch)
            np.add.at(counts, numbers, 1)
            assert not carries or batch["text"] == [*map(str, numbers)]
        assert (counts == factor).all(), f"not {factor} times each: {counts.tolist()}"
        print(".", flush=True)


# ---- the one who kills


class Storm:
    """A server and jobs, which are killed and started again."""

    def __init__(self, folder: Path, seed: int, *kinds: str) -> None:
        self.folder = folder
        self._kind = kinds
        self.random = random.Random(seed)
        self.killed: collections.Counter[str] = collections.Counter()
        self.whole = 0
        self.server = self.start("server")
        self.jobs = [self.start_job() for _ in range(JOBS)]

    def start(self, *what: str) -> subprocess.Popen[bytes]:
        with (self.folder / "errors").open("a") as errors:
            program = subprocess.Popen(
                [sys.executable, __file__, *what, *self._kind],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert program.stdout is not None
        os.set_blocking(program.stdout.fileno(), False)
        return program

    def start_job(self) -> subprocess.Popen[bytes]:
        return self.start("job", str(self.random.randint(1, 3)))

    def kill(self) -> None:
        """Kill one of them, and start another in its place."""
        time.sleep(self.random.choice([0.05, 0.5, 2.0]) * self.random.random())
        self.look()
        kind = self.random.choice(["worker"] * 5 + ["job", "SIGKILL", "SIGTERM"])
        if kind == "worker":
            if not (workers := workers_of(self.server.pid)):
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.random.choice(workers), signal.SIGKILL)
        elif kind == "job":
            at = self.random.randrange(JOBS)
            self.end(self.jobs[at], signal.SIGKILL)
            self.jobs[at] = self.start_job()
        else:
            number = getattr(signal, kind)
            self.end(self.server, number)
            self.server = self.start("server")
        self.killed[kind] += 1

    def end(self, program: subprocess.Popen[bytes], number: int) -> None:
        program.send_signal(number)
        code = program.wait(60)
        # SIGTERM may come before there is a handler.
        allowed = {-number} if number == signal.SIGKILL else {0, -number}
        assert code in allowed, f"it ended with {code}"
        assert program.stdout is not None
        self.count(program)
        program.stdout.close()

    def look(self) -> int:
        """Count whole epochs; fail if a job failed."""
        for program in (self.server, *self.jobs):
            assert program.poll() is None, f"{program.args} ended by itself"
            self.count(program)
        return self.whole

    def count(self, program: subprocess.Popen[bytes]) -> None:
        assert program.stdout is not None
        with contextlib.suppress(BlockingIOError):
            self.whole += os.read(program.stdout.fileno(), 1 << 16).count(b".")

    def finish(self) -> None:
        """Check that all jobs still make progress, and end them."""
        before, deadline = self.look(), time.monotonic() + 120
        while self.look() < before + 2 * JOBS:
            assert time.monotonic() < deadline, "they hang"
            time.sleep(0.05)
        self.close()

    def close(self) -> None:
        for program in (*self.jobs, self.server):
            program.kill()
            program.wait()
            if program.stdout is not None:
                program.stdout.close()


def workers_of(server: int) -> list[int]:
    """Return the processes that read the dataset, in the server's session."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == server:
            continue
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            # Children are the fork server and what looks after shared memory.
            if int(state[3]) == server and int(state[1]) != server:
                found.append(int(folder.name))
    return found


def main(
    kills: int, seed: int, *, ragged: bool = False, carries: bool = False
) -> Storm:
    kinds = ["ragged"] * ragged + ["carries"] * carries
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_RUNTIME_DIR"] = name
        storm = Storm(folder, seed, *kinds)
        try:
            while sum(storm.killed.values()) < kills:
                storm.kill()
            storm.finish()
        except BaseException:
            storm.close()
            print((folder / "errors").read_text(), file=sys.stderr)
            raise
    return storm


if __name__ == "__main__":
    kinds = {kind: kind in sys.argv for kind in ("ragged", "carries")}
    if sys.argv[1] == "server":
        run_server(**kinds)
    elif sys.argv[1] == "job":
        run_job(int(sys.argv[2]), **kinds)
    else:
        storm = main(int(sys.argv[1]), int(sys.argv[2]), **kinds)
        print(f"{dict(storm.killed)} killed, {storm.whole} whole epochs, each exact")
