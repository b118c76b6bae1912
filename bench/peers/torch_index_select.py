"""`torch.index_select(out=)`, with `torch.randperm` for each pass."""

from __future__ import annotations

from typing import Any

from echobuf.cli.bench.candidates.base import (
    CHUNK,
    check_batch,
    make_records,
    refreshed,
)


class Select:
    """Tensors that hold the records, and tensors that are written again and again."""

    packages = ("torch",)
    guarantees = (
        ("exact use", "once a pass, by the permutation"),
        ("shuffled", "uniformly, over the window"),
        ("duplicates in a batch", "none"),
        ("batch", "copied into the same tensors each time"),
        ("timed", "the copy, and the order of each pass unless given"),
    )

    def __init__(self, settings: dict[str, Any]) -> None:
        import torch

        if "threads" in settings:
            torch.set_num_threads(settings["threads"])
        self.torch = torch
        self.settings = settings
        self.records = make_records(settings)
        self.batches = settings["batches"]
        self.tensors = []
        for array in self.records.values():
            tensor = torch.from_numpy(array)
            out = torch.zeros(settings["batch"], *array.shape[1:], dtype=tensor.dtype)
            self.tensors.append((tensor, out))
        self.given = self.split() if settings.get("order_given") else None

    def split(self) -> Any:
        batch, records = self.settings["batch"], self.settings["records"]
        order = self.torch.randperm(records)
        return order[: records // batch * batch].split(batch)

    def warm_up(self) -> None:
        self.run()
        outs = [out.numpy() for _, out in self.tensors]
        served = dict(zip(self.records, outs, strict=True))
        check_batch(self.records, served, self.settings)

    def begin(self) -> None:
        """Write an eighth of the records anew, not timed: for all candidates alike."""
        for start in refreshed(self.settings["records"]):
            for array in self.records.values():
                array[start : start + CHUNK] = array[start : start + CHUNK].copy()

    def run(self) -> int:
        done = 0
        while done < self.batches:
            for index in self.given or self.split():
                for tensor, out in self.tensors:
                    self.torch.index_select(tensor, 0, index, out=out)
                done += 1
                if done == self.batches:
                    break
        return done
