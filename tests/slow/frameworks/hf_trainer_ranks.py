"""Two processes train with Hugging Face's Trainer, each from its share, and go on."""

import sys
from pathlib import Path

import torchrun
from on_hf_trainer import BATCH, EXAMPLES, Numbers, train

KINDS = {
    "even": {"size": BATCH},
    "split": {"size": BATCH, "accelerator_config": {"split_batches": True}},
}


def main(folder: str) -> None:
    results = {}
    for kind, settings in KINDS.items():
        size = settings["size"]
        root = Path(folder) / kind
        arguments = {
            "data": Numbers(EXAMPLES + 2),
            "num_train_epochs": 2,
            "ddp_backend": "gloo",
            "save_strategy": "steps",
            "save_steps": 5,
            **{name: value for name, value in settings.items() if name != "size"},
        }
        if kind == "split":  # a batch of the sampler is for both
            arguments["per_device_train_batch_size"] = 2 * size
        trainer = train(root, **arguments)
        again = train(root, root / "checkpoint-5", **arguments)
        results[kind] = {
            "size": size,
            "trained": trainer.model.trained,
            "rest": again.model.trained,
            "rate": trainer.lr_scheduler.get_last_lr()[0],
        }
    torchrun.write(folder, results)


if __name__ == "__main__":
    main(sys.argv[1])
