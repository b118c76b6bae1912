"""The rows of the table of libraries in docs/upstreams.md, run and checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import echobuf
from leaked_threads import no_feeder
from upstream_checks import PAGE, run

TITLE = "More libraries"
N = 24
"""Examples of each upstream."""


def rows() -> dict[str, list[str]]:
    """The code of each row, by the first word of the library's name."""
    _, _, section = PAGE.read_text().partition(f"\n## {TITLE}\n")
    lines = re.findall(r"^\| (\S+) [^|]*\d.*\| ([^|]*) \|$", section, re.M)
    return {name: re.findall(r"`([^`]+)`", code) for name, code in lines}


def loader_of(name: str, names: dict[str, Any]) -> echobuf.EchoLoader:
    """A loader around a row's upstream.

    Args:
        name: of the library.
        names: what the row's code mentions.
    """
    first, *options = rows()[name]
    upstream = eval(first, {**run(TITLE, {}), **names})
    kwargs = eval(f"dict({', '.join(options)})")
    return echobuf.EchoLoader(upstream, batch_size=4, window=8, factor=2, **kwargs)


def served(name: str, names: dict[str, Any], of: Callable[[Any], Any]) -> None:
    """Two epochs of a row's upstream: each example comes twice in both.

    Args:
        name: see `loader_of`.
        names: see `loader_of`.
        of: the numbers of the examples of a batch, which are 0 to N - 1.
    """
    loader = loader_of(name, names)
    for _ in range(2):
        numbers = [np.asarray(of(batch)).ravel() for batch in loader]
        assert sorted(np.concatenate(numbers)) == sorted(2 * list(range(N)))
    del loader
    no_feeder()
