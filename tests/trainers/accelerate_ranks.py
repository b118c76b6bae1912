"""Two processes train with Accelerate, each from its shard, and go on."""

import os
import sys
from pathlib import Path

import torch

import torchrun
from on_accelerate import Run, make_loader
from plain_loop import EXAMPLES

RANK = int(os.environ["RANK"])


def main(folder: str) -> None:
    kept = Path(folder) / "kept"
    run = Run(make_loader(RANK, 2), accumulate=3)
    assert run.accelerator.num_processes == 2
    assert run.accelerator.distributed_type.value == "MULTI_CPU"
    run.train(range(2), kept, (3, 8, 11))  # in an epoch, at its end, in the next
    rests = {}
    for step in (3, 8, 11):
        again = Run(make_loader(RANK, 2), accumulate=3)
        again.go_on(kept / str(step), 2)
        rests[step] = again.trained
    gathered = [
        run.accelerator.gather_for_metrics(batch).tolist() for batch in run.loader
    ]
    # The state of process 0 alone, of shards of unequal length.
    uneven = {"n": EXAMPLES + 8 * RANK, "uneven": "pad"}
    padded = Run(make_loader(RANK, 2, **uneven))
    padded.train(range(1), kept, (9,))
    again = Run(make_loader(RANK, 2, **uneven))
    again.go_on(kept / "9", 1)
    weights = [each.tolist() for each in run.model.parameters()]
    result = {"trained": run.trained, "stepped": run.stepped, "rests": rests}
    torchrun.write(
        folder,
        {
            **result,
            "gathered": gathered,
            "weights": weights,
            "padded": padded.trained,
            "again": again.trained,
        },
    )
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
    # Something keeps the process group, whose thread may still drop what it did last:
    # it asks for the GIL for that, and so aborts the interpreter's exit.
    sys.stdout.flush()
    os._exit(0)
