"""Two processes train with Lightning, each from its shard, and go on."""

import os
import sys
from pathlib import Path

import torchrun
from on_lightning import checkpoints, fit, make_loader

RANK = int(os.environ["RANK"])
RANKS = {"strategy": "ddp", "devices": 2, "max_epochs": 2}


def main(folder: str) -> None:
    root, kept = Path(folder), Path(folder) / "kept"
    keep = checkpoints(kept, every_n_train_steps=1)
    model, _ = fit(root, make_loader(RANK, 2), callbacks=[keep], **RANKS)
    rests = {}
    for step in (3, 8, 11):  # in an epoch, at its end, and in the next
        loader = make_loader(RANK, 2)
        again, _ = fit(root, loader, resume=kept / f"step={step}.ckpt", **RANKS)
        rests[step] = again.trained
    torchrun.write(folder, {"trained": model.trained, "rests": rests})


if __name__ == "__main__":
    main(sys.argv[1])
