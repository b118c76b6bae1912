"""How long NVRTC takes for the kernels of chains: in one program, and side by side.

One program has all kernels of a chain. Side by side, each is a program, and as many
threads compile as there are cores, as a buffer on a GPU does where CuPy's cache has
none of them. The two take turns. It needs `nvidia-cuda-nvrtc`, and no GPU.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

import echobuf
from echobuf import transforms as t
from echobuf._engine.output import make_output_spec
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment
from echobuf.cuda import codegen, nvrtc
from echobuf.cuda.side_by_side import side_by_side
from echobuf.spec import make_spec
from running import make_parser
from sampling import RESULTS

ARCHITECTURE = "-arch=sm_90"
IMAGE = echobuf.Field((256, 256, 3), np.uint8)
USUAL = [
    t.RandomHorizontalFlip(),
    t.ToDtype(np.float32, scale=True),
    t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
]
CHAINS = {
    "crop, flip, normalise": [t.RandomCrop(224), *USUAL],
    "the same with ColorJitter": [
        t.RandomCrop(224),
        t.ColorJitter(0.4, 0.4, 0.4),
        *USUAL,
    ],
    "TrivialAugmentWide": [t.TrivialAugmentWide()],
    "RandAugment": [t.RandAugment()],
}


def source_of(chain: list[Any]) -> codegen.StageSource:
    made = make_output_spec(make_spec({"image": IMAGE}), {"image": chain})
    return codegen.stage_source(plan for _, plan in made.plans)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def row_of(name: str, rounds: int) -> dict[str, Any]:
    """Return the seconds for a chain, both ways."""
    source = source_of(CHAINS[name])
    options = (*source.options, ARCHITECTURE)

    def compile_one(text: str) -> bytes:
        with nvrtc.program(text, options) as read:
            return read("CUBIN")

    ways: dict[str, Callable[[], object]] = {
        "one_program_s": lambda: compile_one(source.text),
        "side_by_side_s": lambda: side_by_side(compile_one, source.programs),
    }
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds):
        order = list(ways) if number % 2 == 0 else list(ways)[::-1]
        for way in order:
            taken[way].append(timed(ways[way]))
    medians = {way: statistics.median(seconds) for way, seconds in taken.items()}
    return {
        "chain": name,
        "programs": len(source.programs),
        **medians,
        "rounds_s": taken,
    }


def main() -> None:
    options = make_parser(__doc__, RESULTS).parse_args()
    taken_in = environment()
    threads = len(os.sched_getaffinity(0))
    nvrtc.library()
    rows = []
    for name in CHAINS:
        row = row_of(name, options.rounds)
        rows.append(row)
        print(
            f"{name}, {row['programs']} programs: in one {row['one_program_s']:.1f} s; "
            f"side by side on {threads} threads {row['side_by_side_s']:.1f} s",
            flush=True,
        )
    write_figures(
        "kernel_compile",
        options.out,
        {
            "unit": "seconds",
            "architecture": ARCHITECTURE,
            "threads": threads,
            "versions": {"nvidia-cuda-nvrtc": version("nvidia-cuda-nvrtc")},
            "chains": rows,
        },
        taken_in=taken_in,
    )


if __name__ == "__main__":
    main()
