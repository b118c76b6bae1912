"""A small model in Lightning that notes which examples it was given."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Recorder(LightningModule):
    """Notes the batches of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: list[list[int]] = []
        self.validated: list[list[int]] = []

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        self.trained.append(batch.tolist())
        return self.layer(batch.float()[:, None]).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class Validated(Recorder):
    """The same, with a validation."""

    def validation_step(self, batch: torch.Tensor, batch_idx: int) -> None:
        self.validated.append(batch.tolist())


def checkpoints(folder: Path, **when: Any) -> ModelCheckpoint:
    return ModelCheckpoint(folder, filename="{step}", save_top_k=-1, **when)


def make_trainer(root: Path, **kwargs: Any) -> Trainer:
    settings = {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 3,
        "logger": False,
        "enable_checkpointing": bool(kwargs.get("callbacks")),
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": root,
    }
    return Trainer(**{**settings, **kwargs})


def fit(
    root: Path, loader: Any, resume: Path | None = None, val: Any = None, **kwargs: Any
) -> tuple[Recorder, Trainer]:
    """Trains, with a new model and trainer."""
    model = Recorder() if val is None else Validated()
    trainer = make_trainer(root, **kwargs)
    trainer.fit(model, loader, val, ckpt_path=resume)
    return model, trainer
