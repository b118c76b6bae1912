"""Verdicts: each program of a cell must have said and ended with certain things."""

from __future__ import annotations

import re
from typing import Any

from books import CAUSE
from cells import CONSUMER, PROCESS, RAISES, RESOURCES, Cell
from limits import WORDS
from programs_of_cells import Program


def errors_of(program: Program) -> list[list[str]]:
    """Return the errors that a program's user got, each with its causes."""
    return [told["error"] for told in program.said if "error" in told]


def words_of(cell: Cell, plan: dict[str, Any]) -> tuple[str, ...]:
    """Return what an error may name; none if there may be no error."""
    ranks = ("rank 0", "rank 1") if cell.setting == "ranks" else ()
    if cell.end in RAISES:
        text = "odderror" if cell.end == "odd_repr" else CAUSE
        # A server that has failed is gone for jobs that come later.
        late = ("no such server",) * (cell.setting == "attached_overlap")
        return (text, *late)
    if cell.end in RESOURCES:
        return (*WORDS[cell.end], *ranks)
    if cell.is_server and cell.end in (*PROCESS, *CONSUMER, "hangs"):
        if not plan["is_over"]:
            return ()
        return ("gone", "closed", "not come back", "no such server", "hangs")
    if cell.end == "closes":
        return ("clos", *ranks)
    if cell.end == "stopped" and cell.setting.startswith("attached"):
        return ("dropped",) if plan["lease"] < 2 else ()
    if cell.end in (*CONSUMER, "sigterm", "sigkill", "hangs"):
        return ranks
    return ()


# Of Python itself, in a worker whose parent is killed as it starts, before the worker
# was told what to do: nobody can prevent it.
ORPHANED = re.compile(
    r'Traceback \(most recent call last\):\n  File "<string>", line 1, in <module>\n'
    r'(?:  File ".*/multiprocessing/spawn\.py", .*\n(?:    .*\n)+)+'
    r"EOFError: Ran out of input\n"
)


def problems_of(
    cell: Cell, plan: dict[str, Any], programs: list[Program], killed: dict[int, int]
) -> list[str]:
    """Return what is wrong with how the programs of a cell have ended."""
    problems = []
    words = words_of(cell, plan)
    found = False
    for program in programs:
        code, due = program.wait(0), killed.get(program.pid, 0)
        if code != due and not (due and code == 0):
            problems.append(f"{program.script} ended with {code}, not {due}")
        errors = program.errors
        if due and plan["is_at_start"] and plan["workers"]:
            errors = ORPHANED.sub("", errors)
        if errors.strip() and not (
            cell.end == "disk" and "can take no more items" in errors
        ):
            problems.append(f"{program.script} wrote to stderr:\n{errors}")
        problems += _problems_of_ranks(cell, program)
        for error in errors_of(program):
            text = " ".join(error).lower()
            if any(word in text for word in words):
                found = True
            else:
                problems.append(
                    f"{program.script} got {error}; due is {words or 'none'}"
                )
        for told in program.said:
            if "said" in told:
                problems.append(f"{program.script} printed {told['said']!r}")
            if told.get("ours") is False and cell.end not in RESOURCES:
                problems.append(f"{program.script} got no error of echobuf's")
    if cell.end in RAISES and not found:
        problems.append("nobody got the error")
    return problems


def _problems_of_ranks(cell: Cell, program: Program) -> list[str]:
    expected = {0: 0, 1: {"sigkill": -9, "sigterm": -15}.get(cell.end, 0)}
    return [
        f"rank {told['rank']} ended with {told['code']}"
        for told in program.said
        if "code" in told and told["code"] != expected[told["rank"]]
    ]
