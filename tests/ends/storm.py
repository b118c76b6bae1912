"""Kill ranks that train on one server, and the server: `python storm.py KILLS SEED`.

Two ranks are attached to one server, each with a loader with `uneven="drop"`: they go
in lockstep. One of the ranks, or the server, is killed at a random moment. Where a rank
has gone, the other one must hear of it; both are started again, as torchrun does. Where
the server has gone, another one is started, and the ranks go on exactly.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist

import echobuf
from echobuf import serve
from echobuf.ranks import coordinator
from echobuf.ranks.liveness import Liveness
from echobuf.ranks.store import RankStore
from echobuf.torch import EchoLoader

N = 200
SIZE = 2
FACTOR = 2
NAME = "storm"
LIMIT_S = 60.0
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


class Numbers:
    """Examples that say their number many times over."""

    def __iter__(self) -> Any:
        for i in range(N):
            if i % 16 == 0:
                time.sleep(0.001)
            yield {"id": np.int64(i), "data": np.full(200, i + 1, np.int32)}


def keep_serving() -> None:
    # Ranks that begin with different epochs of the server need both at the same time.
    serve.Server(Numbers(), NAME, window=32, lag=2 * N, lease=5.0).wait()


def came(process: int) -> Path:
    """Return the file that says that other ranks can know of a rank's process."""
    return Path(os.environ["XDG_RUNTIME_DIR"]) / f"{process}.came"


def train(rank: int, port: int, out: int) -> None:
    """Train until killed; 3 is the exit code of a rank that heard of another's end."""
    store = dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=20))
    liveness = Liveness(dist.PrefixStore("all", store), list(range(SIZE)), rank)
    came(os.getpid()).touch()
    rank_store = RankStore(dist.PrefixStore("0", store), liveness, 0, timeout=600)
    coordinator.join_group = lambda group: rank_store
    attached = serve.attach(NAME, timeout=30.0, reconnect=30.0)
    loader = EchoLoader(
        attached, batch_size=8, window=32, factor=FACTOR, seed=rank, uneven="drop"
    )
    while True:
        counts = np.zeros(N, int)
        try:
            for batch in loader:
                ids = batch["id"].numpy()
                assert (batch["data"].numpy() == ids[:, None] + 1).all(), "torn"
                np.add.at(counts, ids, 1)
        except echobuf.UpstreamError as error:
            check_end(error, rank, counts)
            sys.exit(3)
        assert (counts == FACTOR).all(), counts.tolist()
        os.write(out, b".")


def check_end(error: echobuf.UpstreamError, rank: int, counts: Any) -> None:
    """Check what a rank got when the other one was killed."""
    assert f"rank {1 - rank} is gone" in str(error), str(error)
    assert counts.max() <= FACTOR, counts.tolist()


def fork(work: Callable[..., None], *args: Any) -> int:
    parent = os.getpid()
    process = os.fork()
    if process:
        return process
    end_with(parent)
    try:
        work(*args)
        os._exit(0)
    except SystemExit as error:
        os._exit(int(str(error)))
    except BaseException as error:
        print(f"process {os.getpid()}: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)


def end_with(parent: int) -> None:
    """Have this process killed when its parent ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Storm:
    """A server, and ranks that are killed and started again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.out, self._say = os.pipe()
        os.set_blocking(self.out, False)
        self.completed = 0
        self.server = fork(keep_serving)
        self.ranks: list[int] = []
        self.keeper = 0
        self.begin_ranks()

    def begin_ranks(self) -> None:
        """Start all ranks, and a process that keeps their store, as an agent does."""
        told, tell = os.pipe()
        self.keeper = fork(self.keep_store, tell)
        port = int(os.read(told, 8))
        os.close(told)
        os.close(tell)
        self.ranks = [fork(train, rank, port, self._say) for rank in range(SIZE)]

    @staticmethod
    def keep_store(tell: int) -> None:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(tell, str(store.port).encode())
        signal.pause()

    def kill(self) -> None:
        """Kill one process at a random moment, and see to those that it leaves."""
        time.sleep(self.random.choice([0.05, 0.5, 1.5]) * self.random.random())
        self.look()
        if self.random.random() < 0.4:
            end(self.server)
            self.server = fork(keep_serving)
            return
        gone = self.random.randrange(SIZE)
        end(self.ranks[gone])
        for rank, process in enumerate(self.ranks):
            if rank != gone and not came(self.ranks[gone]).exists():
                end(process)  # nobody can miss a rank that never came
            elif rank != gone:
                code = wait_for(process)
                assert code == 3, f"rank {rank} ended with {code}"
        end(self.keeper)
        self.begin_ranks()

    def look(self) -> int:
        for process in (self.server, *self.ranks, self.keeper):
            ended, status = os.waitpid(process, os.WNOHANG)
            assert not ended, f"process {process} ended by itself: {status}"
        with contextlib.suppress(BlockingIOError):
            self.completed += len(os.read(self.out, 1 << 16))
        return self.completed

    def finish(self) -> int:
        """Wait until all have trained on; return how many epochs were exact."""
        before, deadline = self.look(), time.monotonic() + LIMIT_S
        while self.look() < before + 2 * SIZE:
            assert time.monotonic() < deadline, "they hang"
            time.sleep(0.02)
        for process in (*self.ranks, self.keeper, self.server):
            end(process)
        return self.completed


def wait_for(process: int) -> int:
    """Return its exit code; end it if it hangs."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            end(process)
            raise AssertionError("a rank does not hear that another one is gone")
        time.sleep(0.01)


def end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def main(kills: int, seed: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        storm = Storm(seed)
        for _ in range(kills):
            storm.kill()
        return storm.finish()


if __name__ == "__main__":
    count, first = int(sys.argv[1]), int(sys.argv[2])
    print(f"{count} kills, {main(count, first)} whole epochs, each exact")
