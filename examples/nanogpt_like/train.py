"""Trains a tiny GPT on blocks of characters, in a plain loop as nanoGPT's.

nanoGPT's `get_batch` cuts random blocks out of a file that is mapped into memory. Here
each block is cut once and comes `factor` times from a window, which pays where blocks
are slow to come by: tokenized on the fly, or from a remote file. Marked lines differ.
Where texts are separate examples, `pack_to` keeps them whole: see `../packed_lm`.

pip install '.[torch]'
python train.py FILE...; after Ctrl-C the same with --resume last.pt
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import echobuf
from echobuf.torch import EchoLoader  # changed

BLOCK, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(n, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, WIDTH)
        self.places = nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.tokens(x) + self.places.weight[: x.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())


class Blocks:
    """Blocks of BLOCK + 1 tokens, which begin anywhere; the same ones in each epoch."""

    def __init__(self, data: np.ndarray, count: int) -> None:
        self.data, self.count, self.epoch = data, count, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self):
        rng = np.random.default_rng(self.epoch)
        for start in rng.integers(0, len(self.data) - BLOCK, self.count):
            yield self.data[start : start + BLOCK + 1]


def learning_rate(step: int, steps: int, most: float) -> float:
    warmup, least = 20, most / 10
    if step < warmup:
        return most * (step + 1) / warmup
    share = (step - warmup) / max(1, steps - warmup)
    return least + 0.5 * (1 + math.cos(math.pi * min(1.0, share))) * (most - least)


def main(arguments: list[str] | None = None) -> list[float]:
    """Train, and return the loss of each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--fresh", type=int, default=1024, help="blocks in an epoch")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=Path("last.pt"))
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    args = parser.parse_args(arguments)

    torch.manual_seed(0)
    text = "".join(file.read_text() for file in args.files)
    vocabulary, data = np.unique(list(text), return_inverse=True)
    blocks = Blocks(data.astype(np.uint16), args.fresh)
    batch = args.batch_size
    loader = EchoLoader(  # changed
        blocks, batch_size=batch, window=16 * batch, factor=args.factor
    )
    model = GPT(len(vocabulary))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    step, steps, losses = 0, echobuf.schedule_steps(loader, args.epochs), []
    if args.resume:
        saved = torch.load(args.resume, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])  # changed
        step = saved["step"]

    for epoch in range(loader.state_dict()["epoch"], args.epochs):
        loader.set_epoch(epoch)
        for block in loader:  # changed: it was X, Y = get_batch("train")
            x, y = block[:, :-1].long(), block[:, 1:].long()
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, args.lr)
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            step += 1
            if step % 50 == 0 or step == args.stop_after:
                print(f"step {step} of {steps}, loss {loss:.3f}")
            if step == args.stop_after:
                break
        if step == args.stop_after:
            break
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    saved |= {"step": step, "loader": loader.state_dict()}  # changed
    torch.save(saved, args.checkpoint)
    loader.close()
    return losses


if __name__ == "__main__":
    main()
