"""The same batches from tensors: torch's own ways, TorchRL, and a collator."""

from __future__ import annotations

from typing import Any

import numpy as np

from peers.ragged_rows import EIGHTH, Peer, Taker


class ListOfTensors(Taker):
    """A list of tensors, each in memory of its own."""

    packages = ("torch", "numpy")

    def open(self) -> None:
        import torch

        self.torch = torch
        self.rows = [self.tensor(i) for i in range(len(self.sequences))]

    def tensor(self, index: int) -> Any:
        return self.torch.from_numpy(self.sequences[index].copy())

    def begin(self) -> None:
        """Replace an eighth of the sequences, not timed, as for all candidates."""
        for i in range(len(self.rows) // EIGHTH):
            self.rows[i] = self.tensor(i)

    def chosen(self, index: Any) -> list[Any]:
        return [self.rows[i] for i in index.tolist()]


class Cat(ListOfTensors):
    """`torch.cat`, and a sum of the lengths."""

    def take(self, index: Any) -> Any:
        rows = self.chosen(index)
        lengths = self.torch.tensor([0, *map(len, rows)])
        return self.torch.cat(rows), lengths.cumsum(0)

    def to_list(self, batch: Any) -> list[Any]:
        values, offsets = batch
        return np.split(values.numpy(), offsets[1:-1].numpy())


class Nested(ListOfTensors):
    """`torch.nested.as_nested_tensor(layout=torch.jagged)` of a list."""

    def take(self, index: Any) -> Any:
        rows = self.chosen(index)
        return self.torch.nested.as_nested_tensor(rows, layout=self.torch.jagged)

    def to_list(self, batch: Any) -> list[Any]:
        return [row.numpy() for row in batch.unbind()]


class PadSequence(ListOfTensors):
    """`torch.nn.utils.rnn.pad_sequence`, and the lengths."""

    def take(self, index: Any) -> Any:
        rows = self.chosen(index)
        pad = self.torch.nn.utils.rnn.pad_sequence
        return pad(rows, batch_first=True), self.torch.tensor([*map(len, rows)])

    def to_list(self, batch: Any) -> list[Any]:
        return [row[:n].numpy() for row, n in zip(*batch, strict=True)]


class TorchRL(Peer):
    """A replay buffer with `LazyStackStorage`, whose samples are made nested tensors.

    TensorDict stacks sequences of different lengths lazily; `get` with
    `as_nested_tensor=True` is what makes one tensor of them.
    """

    packages = ("torchrl", "tensordict", "torch")
    options: dict[str, Any]

    def open(self) -> None:
        import torch
        from tensordict import TensorDict, lazy_stack
        from torchrl.data import LazyStackStorage, ReplayBuffer
        from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement

        self.options = {"as_nested_tensor": True, "layout": torch.jagged}
        self.buffer = ReplayBuffer(
            storage=LazyStackStorage(len(self.sequences)),
            sampler=SamplerWithoutReplacement(),
            batch_size=self.batch,
        )
        rows = [
            TensorDict({"tokens": torch.from_numpy(self.sequences[i].copy())})
            for i in range(len(self.sequences))
        ]
        self.buffer.extend(lazy_stack(rows))

    def sample(self) -> Any:
        return self.buffer.sample().get("tokens", **self.options)

    def to_list(self, batch: Any) -> list[Any]:
        return [row.numpy() for row in batch.unbind()]


class PaddedTorchRL(TorchRL):
    """The same, padded."""

    def open(self) -> None:
        super().open()
        self.options = {"as_padded_tensor": True}

    def to_list(self, batch: Any) -> list[Any]:
        # There are no lengths, but the padding of these sequences is 0, as no token is.
        return [row[: len(np.trim_zeros(row[1:], "b")) + 1] for row in batch.numpy()]


class Collator(Taker):
    """`DataCollatorWithPadding` of transformers, of lists, as tokenizers return them.

    Its tensors are int64, and it makes an attention mask, too.
    """

    packages = ("transformers", "tokenizers", "torch", "numpy")

    def open(self) -> None:
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from transformers import DataCollatorWithPadding, PreTrainedTokenizerFast

        words = WordLevel({"[PAD]": 0, "[UNK]": 1}, unk_token="[UNK]")
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(words), pad_token="[PAD]"
        )
        self.collate = DataCollatorWithPadding(tokenizer)
        self.rows = [self.sequences[i].tolist() for i in range(len(self.sequences))]

    def take(self, index: Any) -> Any:
        return self.collate([{"input_ids": self.rows[i]} for i in index.tolist()])

    def to_list(self, batch: Any) -> list[Any]:
        lengths = batch["attention_mask"].sum(1)
        rows = batch["input_ids"].numpy()
        return [row[:n] for row, n in zip(rows, lengths, strict=True)]
