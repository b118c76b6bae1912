"""The bases of operations, `Source`, and the places of operations in a chain."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from echobuf.errors import OptionError, show
from echobuf.transforms import arguments
from echobuf.transforms.arguments import Check

if TYPE_CHECKING:
    from echobuf.transforms.chain import Chain

__all__ = ["Operation", "Source"]


class Operation(ABC):
    """One operation of a chain; immutable.

    The same object in the chains of two leaves makes the same random choices in both:
    the crop of an image is that of its mask. The same object twice in one chain
    chooses twice, independently; its second place in one leaf and its second place in
    another are alike.

    Examples:
        >>> isinstance(T.Invert(), T.Operation)
        True
        >>> crop = T.RandomCrop(2)  # one object: the same window of image and mask
        >>> image = np.arange(16, dtype=np.uint8).reshape(4, 4)
        >>> transform = {0: [crop], 1: [T.Mask(), crop]}
        >>> loader = EchoLoader([(image, image)], batch_size=1, transform=transform)
        >>> images, masks = next(iter(loader))
        >>> (images == masks).all().item()
        True
    """

    _arguments: ClassVar[Mapping[str, Check]] = arguments.checks()
    """The checks of its arguments, each of which returns the form that chains take."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        tables = (vars(base).get("_arguments", {}) for base in reversed(cls.__mro__))
        cls._arguments = arguments.checks(
            **{name: check for table in tables for name, check in table.items()}
        )

    def __post_init__(self) -> None:
        arguments.make_plain(self)
        for name in self._arguments:
            self._value(name)
        self._check()

    def _value(self, name: str) -> Any:
        """Return an argument in the form that chains take.

        Raises:
            OptionError: the operation cannot have this value.
        """
        return self._arguments[name](self, name, getattr(self, name))

    def _check(self) -> None:  # noqa: B027 - for those that have more to check
        """Raise unless the arguments, each of which is allowed, go together."""

    @abstractmethod
    def add_to(self, chain: Chain) -> None:
        """Add the operation to a chain.

        Raises:
            SpecError: it does not fit the result of the chain so far.
        """

    @property
    def chance(self) -> Operation:
        """The operation whose random numbers it uses."""
        return self

    def refusal(self, argument: str, value: Any, allowed: str) -> OptionError:
        """Return the error for a value that an argument cannot have."""
        return OptionError(
            f"`{argument}` of {type(self).__name__} is {show(value)}; it must be "
            f"{allowed}."
        )


class OnImages(Operation):
    """The base of operations that change the numbers of images, and leave masks."""

    _of_colours = False  # it takes 1 or 3 channels

    def add_to(self, chain: Chain) -> None:
        chain.image()
        if chain.is_mask:
            return
        if self._of_colours:
            chain.colours()
        chain.computes()
        self._add(chain)

    @abstractmethod
    def _add(self, chain: Chain) -> None:
        """Add the operation to the chain of an image."""


@dataclass(frozen=True, eq=False)
class Source(Operation):
    """The leaf of the spec from which a further leaf of batches is made.

    It comes first in the chain of a key that the spec does not have: two views of an
    image, or tokens and their labels, are made from one stored leaf.

    Args:
        leaf: its key, as in `transform`.

    Examples:
        >>> view, flip = T.Source("image"), T.RandomHorizontalFlip
        >>> transform = {"image": [flip()], "second": [view, flip()]}
        >>> example = {"image": np.zeros((2, 2))}
        >>> loader = EchoLoader([example], batch_size=1, transform=transform)
        >>> sorted(next(iter(loader)))
        ['image', 'second']
    """

    leaf: Any
    _arguments = arguments.checks(leaf=arguments.key)

    def add_to(self, chain: Chain) -> None:
        raise chain.refusal(
            "comes first in the chain of a key that the spec does not have, and only "
            "there"
        )


# ---- random choices that have an opposite

# As in `echobuf/schedule/words.hpp`.
_PAIR = 0x10000
_RECORD = 0x20000


@dataclass(frozen=True, eq=False, repr=False)
class Alternating(Operation):
    """An operation that makes the opposite choice at every second use of an example."""

    alternate: bool = dataclasses.field(default=False, kw_only=True)
    _arguments = arguments.checks(alternate=arguments.flag)

    def __repr__(self) -> str:
        names = [field.name for field in dataclasses.fields(self)]
        names.remove("alternate")
        if self.alternate:
            names.append("alternate")
        shown = [f"{name}={getattr(self, name)!r}" for name in names]
        return f"{type(self).__name__}({', '.join(shown)})"


class AlternatingFlip(Alternating):
    """An operation of two choices: one random word decides for all uses."""


def words_of(operation: Any) -> int:
    """Return what the core adds to the number of an operation in random draws."""
    if not isinstance(operation, Alternating) or not operation.alternate:
        return 0
    return _RECORD if isinstance(operation, AlternatingFlip) else _PAIR


# ---- places in a chain, those inside of containers included

Key = tuple[int, int]
"""An operation's identity in random draws, with how often it occurred before."""


@dataclass(frozen=True)
class Place:
    """An operation at its place in a chain."""

    operation: Operation  # there; one object may stand at several places
    number: int  # of the operation in random draws
    # The places inside of a container, by branch
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
