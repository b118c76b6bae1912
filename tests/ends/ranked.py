"""Two ranks, forked by a launcher that keeps their store: `python ranked.py PLAN`."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from books import say
from train import main as train
from train import plan_of

import echobuf.torch  # before any fork
from echobuf.ranks import coordinator
from echobuf.ranks.liveness import Liveness
from echobuf.ranks.store import RankStore

SIZE = 2


def fork(rank: int, plan: dict[str, Any], told: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        port = int(os.read(told, 8))
        store = dist.TCPStore(
            "127.0.0.1", port, is_master=False, timeout=timedelta(seconds=10)
        )
        liveness = Liveness(dist.PrefixStore("all", store), list(range(SIZE)), rank)
        count = iter(range(100))

        def join_group(group: Any) -> RankStore:
            number = next(count)
            return RankStore(
                dist.PrefixStore(str(number), store), liveness, number, timeout=1800
            )

        coordinator.join_group = join_group
        train(plan, rank)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(plan: dict[str, Any]) -> None:
    pipes = [os.pipe() for _ in range(SIZE)]
    children = [fork(rank, plan, pipes[rank][0]) for rank in range(SIZE)]
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for _, tell in pipes:
        os.write(tell, str(store.port).encode())
    for rank, child in enumerate(children):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        say(rank=rank, code=code)


if __name__ == "__main__":
    assert echobuf.torch
    main(plan_of(sys.argv[1]))
