"""One rank of two, with worker processes: prints what it was served."""

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path

import torch.distributed as dist

import echobuf.torch

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from worker_data import Numbers, ids, workers_alive

N = 61


def main() -> None:
    dist.init_process_group("gloo")
    # Each of the workers would import torch by itself.
    multiprocessing.set_forkserver_preload(["echobuf.torch"])
    rank, ranks = dist.get_rank(), dist.get_world_size()
    loader = echobuf.torch.EchoLoader(
        Numbers(N),
        sampler=range(rank, N, ranks),  # one rank has an example more
        num_workers=2,
        multiprocessing_context="forkserver",
        batch_size=3,
        window=12,
        factor=2,
        seed=5,
        uneven=sys.argv[1],
    )
    for _ in range(2):
        served = []
        for batch in loader:
            served += ids([{name: leaf.numpy() for name, leaf in batch.items()}])
            if rank == 1 and len(served) == 5:
                os.kill(workers_alive()[0].pid, signal.SIGKILL)
        print(json.dumps(served))
    del loader
    dist.destroy_process_group()


if __name__ == "__main__":  # worker processes import it
    main()
