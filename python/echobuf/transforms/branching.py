"""Branches of containers: chains that leave another one, and meet again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

from echobuf import _core
from echobuf.errors import show
from echobuf.transforms.chain import Chain
from echobuf.transforms.places import Place
from echobuf.transforms.program import Gate

Way = tuple[Gate, tuple[Place, ...]]


def choose(chain: Chain, alternatives: Sequence[tuple[Gate, int | None]]) -> None:
    """Add branches of the container that is being added, one of which is carried out.

    Args:
        chain: to it.
        alternatives: of each the condition, without the number of the container, and
            which of the container's branches it is; None: nothing is done.

    Raises:
        SpecError: the branches do not end alike, or there are too many of them.
    """
    place = chain.place
    assert place is not None
    if len(chain.gates) == _core.MOST_GATES:
        raise chain.refusal(
            f"is inside of {_core.MOST_GATES} containers; no more may be nested"
        )
    ways: list[Way] = [
        (
            replace(gate, number=place.number),
            () if branch is None else place.branches[branch],
        )
        for gate, branch in alternatives
    ]
    if chain.order is None:
        order = _order_taken(copy.copy(chain), ways)
        if order is not None:
            chain.image(order)
    chain.end_stage()
    forks = [_fork(chain, *way) for way in ways]
    _check_alike(chain, forks, [places for _, places in ways])
    buffer = next(chain.buffers)
    stages = [stage for fork in forks for stage in fork.end_branch(buffer)]
    for fork in forks:
        chain.mixed = chain.mixed or fork.mixed
        chain.interpolated = fork.interpolated or chain.interpolated
        chain.moves = [*chain.moves, *fork.moves]
    chain.join(forks[0], buffer, stages)


def _fork(chain: Chain, gate: Gate, places: Sequence[Place]) -> Chain:
    """Return a chain that goes on from another one with a branch."""
    fork = copy.copy(chain)
    fork.begin_branch(gate)
    for place in places:
        fork.add(place, chain.index)
    return fork


def _order_taken(trial: Chain, ways: Sequence[Way]) -> str | None:
    """Return the order of axes in which a branch takes the leaf for an image, or None.

    All branches then take it so: the leaf is one before they begin.
    """
    trial.begin_branch()
    trial.end_stage()
    taken = (_fork(trial, *way).taken_for for way in ways)
    return next((order for order in taken if order is not None), None)


def _check_alike(
    chain: Chain, forks: Sequence[Chain], branches: Sequence[Sequence[Place]]
) -> None:
    first = (forks[0].shape, forks[0].dtype, forks[0].order)
    for fork, places in zip(forks, branches, strict=True):
        if (fork.shape, fork.dtype, fork.order) != first:
            raise chain.refusal(
                "has branches whose results differ in shape, dtype or order of axes: "
                f"{_shown(branches[0])} makes {_shown_end(forks[0])}, "
                f"{_shown(places)} makes {_shown_end(fork)}"
            )


def _shown(places: Sequence[Place]) -> str:
    return show([place.operation for place in places]) if places else "doing nothing"


def _shown_end(chain: Chain) -> str:
    order = "" if chain.order is None else f" ({chain.order})"
    return f"{chain.dtype}{list(chain.shape)}{order}"
