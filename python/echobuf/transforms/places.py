"""Operations at their places in a chain, those inside of containers included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from echobuf.transforms.operation import Operation

Key = tuple[int, int]
"""An operation's identity in random draws, with how often it occurred before."""


@dataclass(frozen=True)
class Place:
    """An operation at its place in a chain.

    Attributes:
        operation: there; one object may stand at several places.
        number: of the operation in random draws.
        branches: the places inside of a container, by branch.
    """

    operation: Operation
    number: int
    branches: tuple[tuple[Place, ...], ...]


def branches_of(operation: Operation) -> tuple[tuple[Operation, ...], ...]:
    """Return the operations inside of a container, by branch; of others, none."""
    return getattr(operation, "branches", ())


def every(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations in order, and after each container those inside of it."""
    for operation in operations:
        yield operation
        for branch in branches_of(operation):
            yield from every(branch)


def occurrences(operations: Iterable[Operation]) -> list[Key]:
    """Return the keys of the operations of one chain, in the order of `every`."""
    seen: Counter[int] = Counter()
    keys = []
    for operation in every(operations):
        identity = id(operation.chance)
        keys.append((identity, seen[identity]))
        seen[identity] += 1
    return keys


def placed(
    operations: Iterable[Operation], numbers: Iterator[int]
) -> tuple[Place, ...]:
    """Return the places of operations; `numbers`: of each, in the order of `every`."""
    return tuple(
        Place(
            operation,
            next(numbers),
            tuple(placed(branch, numbers) for branch in branches_of(operation)),
        )
        for operation in operations
    )
