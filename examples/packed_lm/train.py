"""Trains a tiny language model on texts of different lengths, packed into rows.

The texts are docstrings of the standard library that comes with Python; each arrives
after a delay, as if it were fetched over a network. A row of 256 holds several whole
texts: `segment_ids` keep attention within each of them, `positions` number its bytes.
`experiments/packed_text.py` measures what echoing is worth here.

pip install '.[torch]'
python train.py --factor 4; after Ctrl-C the same with --resume last.pt
"""

import argparse
import ast
import sysconfig
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from echobuf import Packed
from echobuf.torch import EchoLoader

ROW, ROWS, BEGIN, VOCABULARY = 256, 2, 256, 257
WIDTH, HEADS, LAYERS = 64, 4, 2


def read_texts(files: int | None = None) -> list[np.ndarray]:
    """Return each docstring of the first modules once: BEGIN and the bytes of UTF-8."""
    folder = Path(sysconfig.get_path("stdlib"))
    skipped = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3"}
    modules = sorted(folder.rglob("*.py"))
    modules = [m for m in modules if not skipped & {*m.relative_to(folder).parts}]
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    found: dict[str, None] = {}
    for module in islice(modules, files):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old escapes in strings
            tree = ast.parse(module.read_bytes())
        for node in ast.walk(tree):
            if isinstance(node, documented) and (text := ast.get_docstring(node)):
                found[text] = None
    return [np.array([BEGIN, *text.encode()], np.int32) for text in found]


class SlowTexts:
    """Texts in a new random order in each epoch, each after `delay_s` seconds."""

    def __init__(self, texts: list[np.ndarray], delay_s: float, seed: int = 0) -> None:
        self.texts, self.delay_s, self.seed = texts, delay_s, seed
        self.epoch = self.tokens = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self):
        rng = np.random.default_rng([self.seed, self.epoch])
        for number in rng.permutation(len(self.texts)):
            time.sleep(self.delay_s)
            text = self.texts[number]
            self.tokens += min(len(text), ROW)
            yield text


def make_loader(texts: SlowTexts, factor: float, window: int) -> EchoLoader:
    """Return a loader of ROWS rows with room for ROW bytes of whole texts each."""
    return EchoLoader(
        texts,
        batch_size=ROWS,
        window=window,
        factor=factor,
        payload_bytes=window * ROW * 4,
        pack_to=ROW,
        overlong="cut",
        seed=texts.seed,
    )


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        n, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(n, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(ROW, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)
        for module in self.modules():
            if isinstance(module, nn.Embedding | nn.Linear):
                nn.init.normal_(module.weight, std=0.05)

    def forward(self, batch: Packed) -> torch.Tensor:
        """Return the mean loss, in nats for each byte that a text has."""
        ids = batch.segment_ids
        # Padding (0) attends to padding, so that no row of the softmax is empty.
        mask = (ids[:, :, None] == ids[:, None, :]).tril()[:, None]
        x = self.tokens(batch.values) + self.places(batch.positions)
        for block in self.blocks:
            x = block(x, mask)
        # The last byte of a text does not predict the first one of the next text.
        same = (ids[:, 1:] == ids[:, :-1]) & (ids[:, 1:] > 0)
        logits = self.head(self.norm(x[:, :-1][same]))
        return F.cross_entropy(logits, batch.values[:, 1:][same].long())


class Trainer:
    """A model, its optimizer, and one step of training."""

    def __init__(self, lr: float, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr, (0.9, 0.95))
        self.lr, self.steps = lr, 0

    def step(self, batch: Packed) -> float:
        """Train on a batch, and return its loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * min(1, (self.steps + 1) / 20)
        loss = self.model(batch)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1
        return loss.item()

    @torch.no_grad()
    def loss(self, batches: list[Packed]) -> float:
        """Return the mean loss of batches, without training."""
        return sum(self.model(batch).item() for batch in batches) / len(batches)

    def state_dict(self):
        optimizer, model = self.optimizer.state_dict(), self.model.state_dict()
        return {"model": model, "optimizer": optimizer, "steps": self.steps}

    def load_state_dict(self, state) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]


def main(arguments: list[str] | None = None) -> list[float]:
    """Train, and return the loss of each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, help="modules to read (default: all)")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--factor", type=float, default=2)
    parser.add_argument("--window", type=int, default=512, help="texts")
    parser.add_argument("--delay-ms", type=float, default=12.0, help="for each text")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--checkpoint", type=Path, default=Path("last.pt"))
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    args = parser.parse_args(arguments)

    texts = SlowTexts(read_texts(args.files), args.delay_ms / 1000)
    loader = make_loader(texts, args.factor, args.window)
    trainer, losses, begin, tokens = Trainer(args.lr), [], time.perf_counter(), 0
    if args.resume:
        saved = torch.load(args.resume, weights_only=True)
        trainer.load_state_dict(saved["trainer"])
        loader.load_state_dict(saved["loader"])
    for epoch in range(loader.state_dict()["epoch"], args.epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            losses.append(trainer.step(batch))
            tokens += int(batch.lengths.sum())
            if trainer.steps % 50 == 0 or trainer.steps == args.stop_after:
                rate = tokens / (time.perf_counter() - begin)
                print(
                    f"step {trainer.steps}, loss {losses[-1]:.3f}, {rate:.0f} a second"
                )
            if trainer.steps == args.stop_after:
                break
        if trainer.steps == args.stop_after:
            break
    saved = {"trainer": trainer.state_dict(), "loader": loader.state_dict()}
    torch.save(saved, args.checkpoint)
    loader.close()
    return losses


if __name__ == "__main__":
    main()
