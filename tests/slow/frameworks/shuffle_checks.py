"""Checks of factor=1 as a shuffle buffer, through the code of its page."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import markdown

PAGE = Path(__file__).parents[3] / "docs" / "streaming_shuffle.md"
N, BUFFER, STOP = 300, 64, 2
"""Examples, those of a buffer, and the step after which a loop stops."""


def code_of(title: str) -> str:
    """The code of a section, with a small buffer and batches."""
    (code,) = markdown.blocks_below(PAGE, title, "python")
    assert len([line for line in code.splitlines() if line]) <= 5
    return re.sub(r"\b64\b", "32", code).replace("4096", str(BUFFER))


def ids_of(batch: Any) -> list[int]:
    ids = batch["id"] if isinstance(batch, dict) else batch[1]
    return list(map(int, ids))


def check_ours(title: str, names: dict[str, Any]) -> None:
    """Stops and goes on as the page says: every batch is the one that would come."""

    def make() -> dict[str, Any]:
        mine = dict(names)
        exec("import echobuf\n" + code_of(title), mine)
        return mine

    whole = [ids_of(batch) for batch in make()["loader"]]
    assert Counter(itertools.chain(*whole)) == Counter(range(N))
    assert list(itertools.chain(*whole)) != list(range(N))

    stop, go_on = markdown.blocks_below(PAGE, "Stop, and go on", "python")
    seen = []
    first = make() | {"train_step": lambda batch: seen.append(ids_of(batch))}
    exec(stop.replace("step == 20", f"step == {STOP}"), first)
    assert seen == whole[: STOP + 1]
    state = json.loads(json.dumps(first["state"]))
    first["loader"].close()
    exec(go_on, make() | {"train_step": first["train_step"], "state": state})
    assert seen == whole


def lost_and_repeated(served: Iterable[int]) -> tuple[int, int]:
    """How many examples did not come, and how many came more than once."""
    counts = Counter(served)
    return N - len(counts), sum(count > 1 for count in counts.values())
