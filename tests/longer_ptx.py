"""Random draws and chains as compiled kernels, as many as asked for.

`python tests/longer_ptx.py COUNT SEED` draws COUNT random shapes with each kernel of
draw.cu, compiled for one architecture after the other, and a random chain for every
tenth of them: in turns of images and sequences, with containers, of clips, and of
tones, policies, boxes and points. It prints the seeds that have other bytes than the
reference, or a fault, and ends with exit code 1 if there are any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np

import echobuf
from augmentations_for_tests import random_augmentations, rows_and_images
from chains_for_tests import random_case
from clips_for_tests import random_clip_case
from containers_for_tests import random_containers
from draw_on_ptx import Draw, random_shape
from echobuf.cuda.codegen import DRAW_OPTIONS
from echobuf.testing import SimulationError, simulated_cuda
from kernels_compiled import ARCHITECTURES, ROOT, ptx_of
from ptx_machine import Machine, PtxError

SOURCE = (ROOT / "cpp" / "kernels" / "draw.cu").read_text()
CHAIN_EVERY = 10
CASES = (
    random_containers,
    random_case,
    random_augmentations,
    lambda seed: random_clip_case(seed, 1 + seed % 3),
)
OPERATIONS = (0, 7, 0x8001)  # that choose partners


def wrong_draws(seed: int) -> Iterator[str]:
    """Yield what is wrong with the draws of a random shape."""
    text = ptx_of(SOURCE, ARCHITECTURES[seed % len(ARCHITECTURES)], DRAW_OPTIONS)
    operation = OPERATIONS[seed % len(OPERATIONS)]
    for kind in ("draw", "plan", "partners"):
        draw = Draw(machine := Machine(seed), random_shape(seed))
        module = machine.load(text)
        try:
            if kind == "draw":
                draw.run(module)
            elif kind == "plan":
                draw.run_planned(module)
            else:
                draw.run_partners(module, operation)
            of_partners = kind == "partners"
            wanted = (
                draw.expected_partners(operation) if of_partners else draw.expected()
            )
            if draw.drawn() != wanted:
                yield f"seed {seed}, {kind}: other bytes"
        except PtxError as error:
            yield f"seed {seed}, {kind}: {error}"


def wrong_chain(seed: int) -> Iterator[str]:
    """Yield what is wrong with the batches of a random chain."""
    spec, transform = CASES[seed // CHAIN_EVERY % len(CASES)](seed)
    stacked = rows_and_images(spec, 12, seed)

    def drawn(device: str) -> list[dict[str, bytes]]:
        with echobuf.EchoBuffer(
            spec,
            batch_size=3,
            window=12,
            factor=2,
            seed=seed,
            device=device,
            transform=transform,
        ) as buffer:
            buffer.put_batch(stacked)
            buffer.close()
            return [
                {name: np.array(leaf).tobytes() for name, leaf in batch.items()}
                for batch in buffer
            ]

    try:
        with simulated_cuda(seed, kernels="ptx"):
            on_device = drawn("cuda")
        if on_device != drawn("cpu"):
            yield f"seed {seed}, chain: other bytes"
    except SimulationError as error:
        yield f"seed {seed}, chain: {error}"


def wrong(count: int, first: int) -> Iterator[str]:
    """Yield what is wrong with `count` seeds from `first` on."""
    for seed in range(first, first + count):
        yield from wrong_draws(seed)
        if seed % CHAIN_EVERY == 0:
            yield from wrong_chain(seed)


def main() -> int:
    """Print what is wrong; return the exit code."""
    count, first = map(int, sys.argv[1:])
    found = 0
    for text in wrong(count, first):
        print(text, flush=True)
        found += 1
    print(f"{count} shapes, {found} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
