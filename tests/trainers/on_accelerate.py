"""A training loop with Accelerate, as its documentation has it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

import plain_loop
from echobuf.accelerate import EchoLoader

make_loader = partial(plain_loop.make_loader, kind=EchoLoader)
expected = partial(plain_loop.expected, kind=EchoLoader)


class Run:
    """Trains, and keeps a checkpoint after each step of `keep`.

    Attributes:
        trained: the batches.
        stepped: after which of them the optimizer stepped.
    """

    def __init__(self, loader: Any, accumulate: int = 1) -> None:
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        prepared = self.accelerator.prepare(model, optimizer, loader)
        self.model, self.optimizer, self.loader = prepared
        assert self.loader is loader
        self.accelerator.register_for_checkpointing(loader)
        self.trained: list[list[int]] = []
        self.stepped: list[int] = []

    def train(self, epochs: range, folder: Path | None = None, keep: Any = ()) -> None:
        for epoch in epochs:
            self.loader.set_epoch(epoch)
            for batch in self.loader:
                self.step(batch)
                if len(self.trained) in keep:
                    self.accelerator.save_state(folder / str(len(self.trained)))

    def step(self, batch: torch.Tensor) -> None:
        with self.accelerator.accumulate(self.model):
            loss = self.model(batch.float()[:, None]).mean()
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.trained.append(batch.tolist())
        if self.accelerator.sync_gradients:
            self.stepped.append(len(self.trained))

    def go_on(self, kept: Path, epochs: int) -> None:
        """From a checkpoint, to the end of these epochs."""
        self.accelerator.load_state(kept)
        self.train(range(self.loader.state_dict()["epoch"], epochs))
