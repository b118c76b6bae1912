"""Plans of runs of a cell: every size, delay and moment comes from the seed."""

from __future__ import annotations

import random
from typing import Any

from cells import RAISES, SERVED, Cell

RUNS = 6
"""How many times at most upstream is iterated."""
STRIDE = 1000
"""Example `i` of run `r` of upstream has the index `r * STRIDE + i`."""
RESTART_AT = 2
"""The batch after which a server of a `resumed` cell is restarted."""


def make_plan(cell: Cell, seed: int) -> dict[str, Any]:
    """Return the arguments of the cell's programs, as JSON takes them."""
    chance = random.Random(f"{cell} {seed}")
    pick = chance.choice
    batch_size = pick([1, 3, 4, 8])
    window = batch_size * 3 * pick([1, 2, 4])
    n = window * pick([1, 2, 3]) + pick([0, 1, 5, 40])
    factor: Any = pick([1, 2, 2, 3, 1.5, "auto"])
    if cell.moment in ("ahead", "resumed") and factor == 1:
        factor = 2
    if cell.setting == "ranks":
        factor = pick([1, 2, 3])
    if cell.setting == "ranks" and cell.end == "hangs":
        factor = pick([2, 3])
    plan: dict[str, Any] = {
        "setting": cell.setting,
        "end": cell.end,
        "moment": cell.moment,
        "seed": seed,
        "epochs": 3,
        "n": n,
        "lengths": [n] * RUNS,
        "words": pick([1, 37, 1000]),
        "pace_s": pick([0, 0, 0.0005]),
        "delay_s": pick([0, 0, 0.001, 0.02, 0.2]) * chance.random(),
        "stopped_s": pick([0.1, 0.5, 1.5]),
        "shape": pick(["iterable", "map"]),
        "workers": pick([1, 2, 3]) if "workers" in cell.setting else 0,
        "overlap": cell.setting == "attached_overlap"
        or (cell.moment == "ahead" and cell.setting in ("thread", "workers")),
        "at_batch": chance.randrange(1, 12),
        "late": chance.randrange(3),
        "resume_after": chance.randrange(1, 4),
        "is_at_start": cell.moment == "first"
        and cell.end not in ("breaks", "drops_loader", "drops_iterator", "closes")
        and chance.random() < 0.4,
        "trouble": None,
        "leave": pick(["resolves", "ctrl_c"]),
        "victim": pick(["trainer", "worker"])
        if "workers" in cell.setting
        else "trainer",
        "after": pick(["again", "again", "leave", "exit"]),
        "both": pick([True, False]),
        "restarting": pick([True, False]),
        "slack": pick([64 << 10, 1 << 20, 16 << 20]),
        "lease": pick([1.0, 10.0]) if cell.end == "stopped" else 10.0,
        "witness": cell.setting in SERVED and chance.random() < 0.4,
        "kwargs": {
            "batch_size": batch_size,
            "window": window,
            "factor": factor,
            "seed": chance.randrange(1000),
            "prefetch": pick([0, 0, 2]),
        },
    }
    if plan["workers"]:
        plan["shape"] = "map"
    _add_trouble(cell, plan, chance)
    return plan


def _add_trouble(cell: Cell, plan: dict[str, Any], chance: random.Random) -> None:
    """Say at which example of which run upstream does what the end says."""
    n = plan["n"]
    run = 0 if cell.moment == "first" else 1
    if cell.moment == "resumed" and not cell.is_server and cell.setting != "attached":
        run = 1 if cell.setting == "attached_overlap" else 0
    at = chance.choice([0, 1, n - 1, chance.randrange(n)])
    if cell.moment == "resumed" and run == 0:
        at = max(at, n // 2)
    if cell.moment == "between":
        at = -1
    if cell.end == "ends":
        plan["lengths"][run] = 0 if at < 0 else at + 1
        if cell.moment == "resumed" and run == 0:
            plan["lengths"][run] = n
    elif cell.end in (*RAISES, "hangs"):
        plan["trouble"] = [run, at]
