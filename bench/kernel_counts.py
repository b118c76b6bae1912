"""Counts of the kernels, not times: their work a 16-byte word, and what a thread takes.

Each batch is drawn on the simulated driver, which executes the PTX that NVRTC makes for
compute capability 9.0 and counts instructions and 32-byte sectors of memory; a word is
one of those that are loaded, or stored if these are more. Registers, stack frames,
widths of loads and the most bytes that a thread asks for before it uses any of them are
those of ptxas's machine code, as nvdisasm shows it; blocks at once are those that a
multiprocessor has room for. The busiest multiprocessor is that with the most blocks,
where 132 of them get the blocks in turns. Nothing here says how long a kernel takes. It
needs no GPU. `--markdown` prints the table of docs/gpu.md.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from counts.cases import CASES, Case
from counts.launches import Traffic
from counts.machine_code import blocks_at_once, codes_of
from echobuf.cli.bench.report import write_figures
from echobuf.cli.environment import environment

ARCHITECTURE = "sm_90"
MULTIPROCESSORS = 132  # of an H100
WORD, SECTOR = 16, 32
RESULTS = Path(__file__).parent / "results"


def over_least(traffic: Traffic) -> float | None:
    """Return sectors over those that the same bytes would fill."""
    return traffic.sectors * SECTOR / traffic.bytes if traffic.bytes else None


def rows_of(case: Case) -> list[dict[str, Any]]:
    """Return the counts of each kernel of a batch."""
    text, options = case.source()
    codes = codes_of(text, ARCHITECTURE, options)
    rows = []
    for launch in case.launches():
        if launch.kernel not in codes:
            continue  # of leaves that the chain leaves alone
        code = codes[launch.kernel]
        blocks = blocks_at_once(code, launch.threads)
        words = max(launch.loads.bytes, launch.stores.bytes) / WORD
        rows.append(
            {
                "batch": case.name,
                "kernel": launch.kernel,
                "blocks": launch.blocks,
                "instructions_a_word": launch.instructions * 32 / words,
                "warp_instructions_of_the_busiest": round(
                    launch.instructions
                    / launch.blocks
                    * -(-launch.blocks // MULTIPROCESSORS)
                ),
                "load_sectors_over_least": over_least(launch.loads),
                "store_sectors_over_least": over_least(launch.stores),
                "bytes_loaded": launch.loads.bytes,
                "bytes_stored": launch.stores.bytes,
                "registers": code.registers,
                "stack_bytes": code.stack_bytes,
                "spill_bytes": code.spill_bytes,
                "shared_bytes": code.shared_bytes,
                "loads_by_bytes": code.loads,
                "stores_by_bytes": code.stores,
                "blocks_at_once": blocks,
                "bytes_in_flight_a_thread": code.bytes_in_flight,
                "bytes_in_flight_at_once": blocks
                * launch.threads
                * code.bytes_in_flight,
            }
        )
    return rows


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="counts, not times: sm_90")
    heads = (
        "batch, kernel",
        "blocks",
        "instructions a word",
        "a warp's, busiest multiprocessor",
        "sectors over least, load and store",
        "registers",
        "stack and spills",
        "shared",
        "widest load and store",
        "bytes in flight",
    )
    for head in heads:
        table.add_column(head, justify="left" if head == heads[0] else "right")
    for row in rows:
        ratios = [row[f"{what}_sectors_over_least"] for what in ("load", "store")]
        table.add_row(
            f"{row['batch']}: {row['kernel']}",
            f"{row['blocks']:,}",
            f"{row['instructions_a_word']:.1f}",
            f"{row['warp_instructions_of_the_busiest']:,}",
            ", ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            str(row["registers"]),
            f"{row['stack_bytes']}, {row['spill_bytes']}",
            f"{row['shared_bytes']:,}",
            f"{max(row['loads_by_bytes'])}, {max(row['stores_by_bytes'])}",
            f"{row['bytes_in_flight_at_once']:,}",
        )
    return table


HEADS = (
    "batch",
    "kernel",
    "blocks",
    "instructions a word",
    "of the busiest multiprocessor",
    "sectors over least: loaded, stored",
    "widest load, store",
    "registers",
    "stack, spilled",
    "bytes in flight",
)


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the table of docs/gpu.md."""
    right = {"blocks", *HEADS[3:5], "registers", "bytes in flight"}
    lines = [HEADS, tuple("---:" if head in right else "---" for head in HEADS)]
    batch = None
    for row in rows:
        name = re.sub(r" of \d+ images 256x256x3$", "", row["batch"])
        name = re.sub(r"\b(?:[A-Z][a-z]+){2,}(?:\(\d+\))?", r"`\g<0>`", name)
        kernel = row["kernel"].removeprefix("echobuf_").replace("_", " ")
        ratios = [row[f"{what}_sectors_over_least"] for what in ("load", "store")]
        widest = [
            max(map(int, row[f"{what}_by_bytes"])) for what in ("loads", "stores")
        ]
        lines.append(
            (
                "" if name == batch else name,
                kernel,
                f"{row['blocks']:,}",
                f"{row['instructions_a_word']:,.0f}",
                f"{row['warp_instructions_of_the_busiest']:,}",
                ", ".join("-" if one is None else f"{one:.2f}" for one in ratios),
                f"{widest[0]}, {widest[1]}",
                str(row["registers"]),
                f"{row['stack_bytes']}, {row['spill_bytes']}",
                f"{row['bytes_in_flight_at_once']:,}",
            )
        )
        batch = name
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="of the result file")
    parser.add_argument("--markdown", action="store_true", help="as docs/gpu.md has it")
    options = parser.parse_args()
    taken_in = environment()
    rows = [row for case in CASES for row in rows_of(case)]
    if options.markdown:
        print(markdown(rows))
    else:
        Console(width=160).print(table_of(rows))
    write_figures(
        "kernel_counts",
        options.out,
        {"architecture": ARCHITECTURE, "kernels": rows},
        taken_in=taken_in,
    )


if __name__ == "__main__":
    main()
