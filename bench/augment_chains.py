"""Chains of operations, common and slow: echobuf's draw beside other libraries.

Batches of 128 images 256x256x3, one thread: a whole draw of echobuf, shuffling
included, from a window of 512; torchvision v2 on the batch and image by image, OpenCV
and albumentations where they have the operations; and a copy of the bytes that the
chain has to read and write. A chain with an operation that this echobuf lacks is named
and left out. `--markdown` prints the table of docs/transforms.md. It takes about eight
minutes, and needs `bench/requirements-augment.txt`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import chains
from echobuf.cli.bench import Candidate, Question, measure, print_table
from echobuf.cli.bench.report import figures, write_figures
from echobuf.cli.environment import environment
from running import make_parser, select
from sampling import HERE, RESULTS

NAME = "augment_chains"
COPY, DRAW, OUT = "copy of the bytes", "echobuf", "echobuf out="
TORCHVISION = ("torchvision, batch", "torchvision, images")
TARGETS = {
    COPY: "peers.chain_copy:Moved",
    DRAW: "peers.chain_echobuf:Draw",
    OUT: "peers.chain_echobuf:Draw",
    "torchvision, batch": "peers.chain_torchvision:Batch",
    "torchvision, images": "peers.chain_torchvision:Images",
    "OpenCV": "peers.chain_opencv:Images",
    "albumentations": "peers.chain_albumentations:Images",
}
SETTINGS = {"records": 512, "batch": 128, "threads": 1, "chunks": 50, "limit_s": 0.15}
QUICK = {"records": 32, "batch": 16, "chunks": 5, "limit_s": 0.03}

Results = Mapping[str, Mapping[str, Any]]


def question(chain: chains.Chain, quick: bool = False) -> Question:
    """Return the question of a chain: of the candidates that have its operations."""
    candidates = []
    for name, target in TARGETS.items():
        module, _, kind = target.partition(":")
        made = getattr(importlib.import_module(module), kind)
        if made.has(chain.settings) and (name != OUT or chain.out):
            given = {"out": True} if name == OUT else {}
            candidates.append(Candidate(name, target, given))
    return Question(
        chain.title,
        "batch",
        tuple(candidates),
        reference=DRAW,
        settings={**SETTINGS, **(QUICK if quick else {}), **chain.settings},
        path=(HERE,),
        timeout_s=300,
    )


def chosen(texts: Sequence[str]) -> tuple[list[chains.Chain], list[chains.Chain]]:
    """Return the chains with one of these texts in their title, and the missing ones.

    Missing are those with an operation that this echobuf lacks. Without texts all
    chains are returned.
    """
    from peers.chain_echobuf import Draw

    named = [
        chain
        for chain in chains.CHAINS
        if not texts or any(text.lower() in chain.title.lower() for text in texts)
    ]
    missing = [chain for chain in named if not Draw.has(chain.settings)]
    return [chain for chain in named if chain not in missing], missing


def over(rows: Results, names: Sequence[str]) -> float | None:
    """Return echobuf's time over that of the fastest of these candidates."""
    ratios = [rows[name].get("speed_over_reference") for name in names if name in rows]
    return max((ratio for ratio in ratios if ratio is not None), default=None)


HEADS = (
    "chain",
    "stored",
    "copy",
    "echobuf",
    "torchvision: batch",
    "images",
    "OpenCV",
    "albumentations",
    "echobuf over torchvision",
    "over the copy",
)
COLUMNS = (COPY, DRAW, *TORCHVISION, "OpenCV", "albumentations")


def markdown(results: Mapping[str, Results]) -> str:
    """Return the table of docs/transforms.md: milliseconds for a batch, and ratios."""
    lines = [HEADS, ("---", "---", *["---:"] * (len(HEADS) - 2))]
    for name, rows in results.items():
        chain, _, stored = name.rpartition(", ")
        chain = re.sub(r"\b(?:[A-Z][a-z]+){2,}\b|\bResize\b", r"`\g<0>`", chain)
        times = [_ms(rows.get(column, {}).get("median_s")) for column in COLUMNS]
        if OUT in rows:
            times[1] += f" (`out=` {_ms(rows[OUT].get('median_s'))})"
        ratios = [over(rows, TORCHVISION), over(rows, [COPY])]
        shown = ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        lines.append((chain, stored, *times, *shown))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.1f}" if seconds < 0.1 else f"{seconds * 1e3:.0f}"


def slower(results: Mapping[str, Results]) -> list[str]:
    """Return the chains that take longer than the faster of torchvision's two ways."""
    return [
        name for name, rows in results.items() if (over(rows, TORCHVISION) or 0) > 1
    ]


def earlier(path: Path, taken_in: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's content, if it is of the same commit, machine and day."""
    same = ("commit", "uncommitted_changes", "cpu", "cores", "date")
    try:
        content = dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}
    if any(content["environment"][key] != taken_in[key] for key in same):
        return {}
    return content


def main() -> None:
    parser = make_parser(__doc__, RESULTS)
    parser.set_defaults(rounds=5)
    parser.add_argument(
        "--chains",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only chains with one of these texts in their name; results of the others "
        "stay, if they are of the same commit, machine and day",
    )
    parser.add_argument(
        "--quick", action="store_true", help="shorter rounds, to try it out"
    )
    parser.add_argument(
        "--markdown", action="store_true", help="print as docs/transforms.md has it"
    )
    options = parser.parse_args()
    taken_in = environment()
    there, missing = chosen(options.chains)
    for chain in missing:
        print(f"{chain.title}: left out, since this echobuf lacks an operation")
    path = options.out / f"{NAME}.json"
    before = earlier(path, taken_in) if options.chains else {}
    results = dict(before.get("results", {}))
    for chain in there:
        asked = select(question(chain, options.quick), options)
        outcomes = measure(asked, options.rounds)
        if not options.markdown:
            print_table(asked, outcomes)
        results[asked.name] = figures(asked, outcomes)["results"]
    every, all_missing = chosen([])
    order = [chain.title for chain in every]
    results = {name: results[name] for name in order if name in results}
    if options.markdown:
        print(markdown(results))
    print(f"slower than torchvision: {'; '.join(slower(results)) or 'none'}")
    content = {
        "unit": "seconds for one batch",
        "reference": DRAW,
        "commands": [*before.get("commands", []), taken_in["command"]],
        "missing": [chain.title for chain in all_missing],
        "results": results,
    }
    write_figures(NAME, options.out, content, taken_in=taken_in)


if __name__ == "__main__":
    main()
