"""Tensors of `echobuf.torch.EchoLoader`, and a step of training with each."""

import sys

import torch

import echobuf.torch
from place import Place
from smoke import SETTINGS, main, on_host, same, upstream


def loader(device: str) -> echobuf.torch.EchoLoader:
    return echobuf.torch.EchoLoader(upstream(), batched=True, device=device, **SETTINGS)


def smoke(place: Place) -> str:
    text = same(*(on_host(place, each, loader(each)) for each in ("cuda", "cpu")))
    return f"{text}; {trained(place)} steps"


def trained(place: Place) -> int:
    """Train a linear model for an epoch; return the number of steps."""
    device = "cpu" if place.simulated else "cuda"
    model = torch.nn.Linear(12 * 12 * 3, 1, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    losses = []
    for batch in loader("cuda"):
        optimizer.zero_grad()
        guess = model(batch["image"].flatten(1) / 255)
        loss = (guess - batch["label"][:, None].float()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    if not torch.stack(losses).isfinite().all():
        raise AssertionError(f"losses are not finite: {losses}")
    return len(losses)


if __name__ == "__main__":
    sys.exit(main(__doc__, smoke))
