"""Containers: operations that chance leaves out, picks, or puts in order."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from echobuf import _core
from echobuf.errors import show
from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.custom import Lambda
from echobuf.transforms.lowering import Gate
from echobuf.transforms.mix import Mixing, classes_of_labels
from echobuf.transforms.operation import Operation, Place, Source, every
from echobuf.transforms.pixels import Layout, Mask

__all__ = ["RandomApply", "RandomChoice", "RandomOrder"]

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


Branch = tuple[Operation, ...]
_OUTSIDE = (Source, Lambda, Layout, Mask)  # that stand beside containers alone
_ALLOWED = (
    "a list of operations of echobuf.transforms, other than Source, Layout, Mask and "
    "Lambda"
)


def mixes_in(operation: Operation) -> list[Mixing]:
    """Return the mixes that an operation is, or contains at any depth."""
    return [op for op in every([operation]) if isinstance(op, Mixing)]


class Container(Operation):
    """The base of operations that hold others.

    An element of `transforms` is an operation, or a list of them: a branch. Branches
    end with results of one shape, dtype and order of axes. Of `MixUp` and `CutMix` each
    stands alone in its branch.
    """

    transforms: Any
    _original: Container | None = None
    keeps_length = True  # if those that it holds do

    def _read(self) -> None:
        """Make `transforms` a tuple of operations and of tuples of them."""
        given = self.transforms
        if not isinstance(given, list | tuple) or not given:
            raise self.refusal("transforms", given, _ALLOWED)
        for element in given:
            parts = element if isinstance(element, list | tuple) else [element]
            for part in parts:
                if isinstance(part, _OUTSIDE):
                    raise self.refusal("transforms", given, _ALLOWED)
                if not isinstance(part, Operation):
                    kind = f"{type(part).__module__}.{type(part).__qualname__}"
                    allowed = f"{_ALLOWED}; one is a {kind}"
                    raise self.refusal("transforms", given, allowed)
        plain = (tuple(x) if isinstance(x, list | tuple) else x for x in given)
        object.__setattr__(self, "transforms", tuple(plain))

    @property
    def chance(self) -> Operation:
        """The container whose random numbers it uses."""
        return self._original or self

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The operations of each branch."""
        return tuple(x if isinstance(x, tuple) else (x,) for x in self.transforms)

    def of_labels(self) -> Container:
        """Return what it is for labels: only mixes, with the same random choices."""
        branches = [tuple(_of_labels(branch)) for branch in self.branches]
        if branches == list(self.branches):
            return self
        labels = replace(self, transforms=branches)  # type: ignore[type-var]
        object.__setattr__(labels, "_original", self.chance)
        return labels

    def _begin(self, chain: Chain) -> None:
        """Check where mixes stand, and make labels what a mix makes of them."""
        for branch in self.branches:
            if len(branch) > 1 and any(map(mixes_in, branch)):
                raise chain.refusal(
                    "has a mix beside other operations: it must stand alone in its "
                    "branch"
                )
        if mixes := mixes_in(self):
            classes_of_labels(chain, mixes)


def _of_labels(branch: Branch) -> Iterator[Operation]:
    for operation in branch:
        if isinstance(operation, Container) and mixes_in(operation):
            yield operation.of_labels()
        elif isinstance(operation, Mixing):
            yield operation


@dataclass(frozen=True, eq=False)
class RandomApply(Container):
    """Operations that are applied together with a probability, and else not at all.

    Args:
        transforms: a list of operations, in order, whose result has the shape and dtype
            of what they are given; lists in it are joined.
        p: with which probability.

    As `torchvision.transforms.v2.RandomApply`. It takes one random word: they are
    applied where the uniform is below `p`.

    Examples:
        >>> row = np.array([[1, 2, 3]], np.uint8)
        >>> both = T.RandomApply([T.RandomHorizontalFlip(p=1), T.Invert()], p=0.5)
        >>> loader = EchoLoader(
        ...     [row] * 4, batch_size=4, factor=1, seed=5, transform=[both]
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[252, 253, 254], [252, 253, 254], [1, 2, 3], [1, 2, 3]]
    """

    transforms: Any
    p: float = 0.5
    _arguments = arguments.checks(p=arguments.probability)

    def _check(self) -> None:
        self._read()
        if not any(super().branches):
            raise self.refusal("transforms", self.transforms, _ALLOWED)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The one branch."""
        return (tuple(itertools.chain.from_iterable(super().branches)),)

    def add_to(self, chain: Chain) -> None:
        self._begin(chain)
        p = float(self.p)
        choose(chain, [(Gate(0.0, p), 0), (Gate(p, 1.0), None)])


@dataclass(frozen=True, eq=False)
class RandomChoice(Container):
    """One of several operations.

    Args:
        transforms: a list whose elements are operations, or lists of operations; an
            empty list does nothing.
        p: the weight of each element, at least 0 and not all 0; None: equal ones.

    As `torchvision.transforms.v2.RandomChoice`. It takes one random word: the element
    is the first for which the uniform is below the sum of the weights up to it, divided
    by the sum of all.

    Examples:
        >>> row = np.array([[1, 2, 3]], np.uint8)
        >>> one = T.RandomChoice([T.RandomHorizontalFlip(p=1), T.Invert(), []])
        >>> loader = EchoLoader(
        ...     [row] * 4, batch_size=4, factor=1, seed=5, transform=[one]
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[3, 2, 1], [254, 253, 252], [254, 253, 252], [1, 2, 3]]
    """

    transforms: Any
    p: Any = None

    def _check(self) -> None:
        self._read()
        self._bounds()

    def _bounds(self) -> list[float]:
        """Return where the uniforms of elements begin, and 1."""
        count = len(self.transforms)
        weights = [1.0] * count
        if self.p is not None:
            allowed = f"a list of {count} weights, as long as `transforms`, or None"
            if not arguments.is_sequence(self.p) or len(self.p) != count:
                raise self.refusal("p", self.p, allowed)
            weights = [arguments.number(self, "p", x, 0.0) for x in self.p]
        sums = list(itertools.accumulate(weights))
        if not 0 < sums[-1] < math.inf:
            raise self.refusal("p", self.p, "weights with a sum above 0, and finite")
        return [0.0, *(x / sums[-1] for x in sums)]

    def add_to(self, chain: Chain) -> None:
        self._begin(chain)
        bounds = self._bounds()
        pairs = itertools.pairwise(bounds)
        choose(chain, [(Gate(*pair), i) for i, pair in enumerate(pairs)])


@dataclass(frozen=True, eq=False)
class RandomOrder(Container):
    """All operations, in random order.

    Args:
        transforms: a list of up to 6 elements, operations or lists of operations, each
            of which leaves shape and dtype as they are. There is no mix among them.

    As `torchvision.transforms.v2.RandomOrder`. It takes one random word, the number of
    the permutation among all of them, sorted.

    Examples:
        >>> row = np.array([[10, 200]], np.uint8)
        >>> chain = [T.RandomOrder([T.Posterize(1), T.Solarize(100)])]
        >>> loader = EchoLoader(
        ...     [row] * 4, batch_size=4, factor=1, seed=5, transform=chain
        ... )
        >>> next(iter(loader))[:, 0].tolist()
        [[0, 127], [0, 127], [0, 0], [0, 0]]
    """

    transforms: Any

    def _check(self) -> None:
        self._read()
        if len(self.transforms) > _core.MOST_ORDERED:
            allowed = f"a list of up to {_core.MOST_ORDERED} elements"
            raise self.refusal("transforms", self.transforms, allowed)

    def add_to(self, chain: Chain) -> None:
        if mixes_in(self):
            raise chain.refusal("orders a mix, which stands in no RandomOrder")
        count = len(self.transforms)
        for position in range(count):
            choose(
                chain,
                [
                    (Gate(order=count, position=position, alternative=i), i)
                    for i in range(count)
                ],
            )
