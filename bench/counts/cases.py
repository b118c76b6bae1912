"""The launches whose work is counted: a batch of the package's, on the PTX machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import echobuf
from counts.launches import Launch, take_launches
from echobuf import transforms as t
from echobuf._engine.output import make_output_spec
from echobuf.cuda import codegen
from echobuf.spec import make_spec
from echobuf.testing import simulated_cuda

USUAL = [
    t.RandomHorizontalFlip(),
    t.ToDtype(np.float32, scale=True),
    t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
]


@dataclass(frozen=True)
class Case:
    """A batch.

    Attributes:
        name: as the table has it.
        spec: of an example.
        batch_size: examples of the batch that is counted.
        chain: the operations on its images, or none.
        is_put: counted is the put of as many examples from the device, not the draw.
    """

    name: str
    spec: dict[str, echobuf.Field]
    batch_size: int
    chain: Sequence[Any] = field(default=())
    is_put: bool = False

    @property
    def transform(self) -> dict[str, Any] | None:
        return {"image": list(self.chain)} if self.chain else None

    def source(self) -> tuple[str, tuple[str, ...]]:
        """Return the source of its kernels, and what the compiler is told."""
        if not self.chain:
            return codegen.draw_source(), codegen.draw_options()
        made = make_output_spec(make_spec(self.spec), self.transform)
        source = codegen.stage_source(plan for _, plan in made.plans)
        return source.text, source.options

    def launches(self) -> list[Launch]:
        """Draw a batch, or put it, and return the launches of that."""
        chance = np.random.default_rng(0)
        examples = {
            name: chance.integers(0, 200, (self.batch_size, *f.shape)).astype(f.dtype)
            for name, f in self.spec.items()
        }
        with (
            simulated_cuda(2, kernels="ptx") as simulation,
            echobuf.EchoBuffer(
                self.spec,
                batch_size=self.batch_size,
                window=self.batch_size,
                factor=1,
                device="cuda",
                transform=self.transform,
            ) as buffer,
        ):
            if self.is_put:
                placed = {n: simulation.array(leaf) for n, leaf in examples.items()}
                take_launches()
                buffer.put_batch(placed)
                buffer.next_batch()  # waits for the copy
                return [o for o in take_launches() if o.kernel == "echobuf_scatter"]
            buffer.put_batch(examples)
            take_launches()
            buffer.next_batch()
            return take_launches()


def images(size: int) -> dict[str, echobuf.Field]:
    """Return the spec of images and labels."""
    return {
        "image": echobuf.Field((size, size, 3), np.uint8),
        "label": echobuf.Field((), np.int64),
    }


SMALL = {
    "row": echobuf.Field((32,), np.float32),
    "label": echobuf.Field((), np.int64),
}
CASES = (
    Case(
        "256 records of float32[32] and an int64",
        SMALL,
        256,
    ),
    Case("128 images 64x64x3 and labels", images(64), 128),
    Case("16 images 256x256x3 and labels", images(256), 16),
    Case(
        "crop to 224, flip, normalise, bfloat16, channel-first of 4 images 256x256x3",
        images(256),
        4,
        [t.RandomCrop(224), *USUAL, t.ToDtype("bfloat16"), t.ToChannelFirst()],
    ),
    Case(
        "RandomResizedCrop(224), flip, normalise, channel-first of 4 images 256x256x3",
        images(256),
        4,
        [t.RandomResizedCrop(224), *USUAL, t.ToChannelFirst()],
    ),
    Case(
        "crop to 224, ColorJitter, flip, normalise of 4 images 256x256x3",
        images(256),
        4,
        [t.RandomCrop(224), t.ColorJitter(0.4, 0.4, 0.4), *USUAL],
    ),
    Case("a put of 256 records of float32[32] and an int64", SMALL, 256, is_put=True),
    Case("a put of 16 images 256x256x3 and labels", images(256), 16, is_put=True),
)
