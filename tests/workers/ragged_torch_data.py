"""A dataset of tensors that differ in length, which worker processes read."""

from typing import Any

import torch

from ragged_worker_data import Texts, length_of


class Tensors(Texts):
    """A dataset of tensors, of a dtype that NumPy lacks, too."""

    def __getitem__(self, index: int) -> Any:
        rows = length_of(index)
        return {
            "id": torch.tensor(index),
            "tokens": torch.arange(rows) + 1000 * index,
            "halves": torch.full((rows, 2), index % 99, dtype=torch.bfloat16),
        }
