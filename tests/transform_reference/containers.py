"""Containers: the operations inside of them that are carried out at a draw, in order.

The steps of a container are an option of it, `transforms`: each is a name with options,
or a list of such. Operations are numbered in the order in which they are written, a
container before those inside of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain, permutations
from typing import Any

from transform_reference.words import Draw, below

Step = tuple[str, dict[str, Any]]
Numbered = tuple[str, dict[str, Any], int]


def random_apply(draw: Draw, count: int, *, p: float = 0.5) -> Sequence[int]:
    """All of them, or none."""
    return range(count) if draw.uniforms(0)[0] < p else ()


def random_choice(draw: Draw, count: int, *, p: Any = None) -> Sequence[int]:
    """The first one below whose share of the weights the uniform lies."""
    sums = list(accumulate([1.0] * count if p is None else map(float, p)))
    at = draw.uniforms(0)[0]
    return [next(i for i, s in enumerate(sums) if at < s / sums[-1])]


def random_order(draw: Draw, count: int) -> Sequence[int]:
    """All of them, in one of the sorted permutations."""
    return list(permutations(range(count)))[
        below(draw.words(0)[0], math.factorial(count))
    ]


CONTAINERS: dict[str, Callable[..., Sequence[int]]] = {
    "RandomApply": random_apply,
    "RandomChoice": random_choice,
    "RandomOrder": random_order,
}


def carried_out(
    steps: Sequence[Step], draw_of: Callable[[int], Draw], numbers: Iterator[int]
) -> list[Numbered]:
    """The operations that are, with their numbers.

    `draw_of` makes the draw of an operation from its number; `numbers` are those of all
    operations, also of those that are not carried out.
    """
    found: list[Numbered] = []
    for name, options in steps:
        number = next(numbers)
        if name not in CONTAINERS:
            found.append((name, options, number))
            continue
        others = dict(options)
        branches = [
            carried_out(part if isinstance(part, list) else [part], draw_of, numbers)
            for part in others.pop("transforms")
        ]
        picked = CONTAINERS[name](draw_of(number), len(branches), **others)
        found += chain.from_iterable(branches[i] for i in picked)
    return found
