"""`torch.index_select(out=)`, with `torch.randperm` for each pass."""

from __future__ import annotations

from typing import Any

from echobuf.cli.bench.records import Records
from echobuf.cli.bench.sampling import Take


class Select(Take):
    """Tensors that hold the records, and tensors that are written again and again."""

    packages = ("torch",)

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        import torch

        super().open(settings, capacity)
        if "threads" in settings:
            torch.set_num_threads(settings["threads"])
        self.torch = torch
        self.tensors = [
            (torch.from_numpy(array), torch.from_numpy(self.out[name]))
            for name, array in self.records.items()
        ]

    def permutation(self, records: int) -> Any:
        return self.torch.randperm(records)

    def split(self, order: Any, batch: int) -> Any:
        return order.split(batch)

    def sample(self) -> Records:
        rows = self.next_rows()
        for tensor, out in self.tensors:
            self.torch.index_select(tensor, 0, rows, out=out)
        return self.out
