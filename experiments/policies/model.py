"""A tiny language model: characters, and their chances given those before them."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["Model"]

WIDTH, HEADS, LAYERS = 32, 2, 2


class Model(nn.Module):
    """A transformer with learned positions.

    Args:
        characters: that there are.
        length: of the longest text.
    """

    def __init__(self, characters: int, length: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(0.05 * torch.randn(length, WIDTH))
        self.blocks = nn.ModuleList(_Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)
        nn.init.normal_(self.characters.weight, std=0.05)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities of what follows each place, `[n, length, all]`."""
        x = self.characters(texts) + self.places[: texts.shape[1]]
        for block in self.blocks:
            x = block(x)
        return torch.log_softmax(self.head(self.norm(x)), -1)


class _Block(nn.Module):
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
        # Of so few places that this is sooner than torch's own attention.
        scores = q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        scores = scores + torch.full((length, length), -torch.inf).triu(1)
        seen = scores.softmax(-1) @ v
        x = x + self.out(seen.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.mlp(self.norm2(x))
