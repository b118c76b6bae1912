"""Two processes train with Lightning, each from its shard, and go on."""

import os
import sys
from pathlib import Path

import torchrun
from on_lightning import Recorder, checkpoints, make_trainer
from plain_loop import EXAMPLES, make_loader

RANK = int(os.environ["RANK"])


class OnRanks(Recorder):
    """Makes its loader when the ranks know each other; the second has more examples."""

    def train_dataloader(self):
        return make_loader(RANK, 2, EXAMPLES + 8 * RANK, uneven="drop")


def train(root: Path, resume: Path | None = None, **kwargs):
    model = OnRanks()
    trainer = make_trainer(root, strategy="ddp", devices=2, max_epochs=2, **kwargs)
    trainer.fit(model, ckpt_path=resume)
    return model.trained


def main(folder: str) -> None:
    root, kept = Path(folder), Path(folder) / "kept"
    trained = train(root, callbacks=[checkpoints(kept, every_n_train_steps=1)])
    rests = {
        step: train(root, kept / f"step={step}.ckpt")
        for step in (3, 8, 11)  # in an epoch, at its end, and in the next
    }
    torchrun.write(folder, {"trained": trained, "rests": rests})


if __name__ == "__main__":
    main(sys.argv[1])
