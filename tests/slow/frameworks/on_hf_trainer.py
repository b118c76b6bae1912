"""A small model in Hugging Face's Trainer that notes which examples it was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset
from transformers import TrainingArguments

from echobuf.transformers import EchoTrainer

EXAMPLES = 40
ECHO = {"window": 20, "factor": 2}
BATCH = 5
STEPS = 16  # in an epoch


class Recorder(torch.nn.Module):
    """Notes the batches of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained: list[list[int]] = []
        self.validated: list[list[int]] = []

    def forward(
        self, number: torch.Tensor, name: list[str] | None = None
    ) -> dict[str, torch.Tensor]:
        assert name is None or [*map(int, name)] == number.tolist()
        (self.trained if self.training else self.validated).append(number.tolist())
        value = self.layer(number.float()[:, None])
        return {"loss": value.square().mean(), "logits": value}


class Numbers(Dataset):
    def __init__(self, n: int = EXAMPLES) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"number": range(self.n)[index]}


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(Numbers())


def make_trainer(
    folder: Path | str,
    echo: Any = None,
    data: Any = None,
    kind: Any = EchoTrainer,
    more: Any = None,
    **arguments: Any,
) -> Any:
    settings = {
        "num_train_epochs": 3,
        "per_device_train_batch_size": BATCH,
        "lr_scheduler_type": "cosine",
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
    }
    args = TrainingArguments(str(folder), **{**settings, **arguments})
    return kind(
        Recorder(),
        args,
        train_dataset=Numbers() if data is None else data,
        **({} if kind is not EchoTrainer else {"echo": {**ECHO, **(echo or {})}}),
        **(more or {}),
    )


def train(folder: Path | str, resume: Any = None, **arguments: Any) -> Any:
    """Trains, with a new model and trainer; returns the trainer."""
    trainer = make_trainer(folder, **arguments)
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    return trainer
