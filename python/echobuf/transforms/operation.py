"""The base of operations, and `Source`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf.errors import OptionError, show

if TYPE_CHECKING:
    from echobuf.transforms.chain import Chain


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

    def __post_init__(self) -> None:
        from echobuf.transforms import arguments  # which imports this module

        arguments.make_plain(self)
        arguments.key(self, "leaf", self.leaf)

    def add_to(self, chain: Chain) -> None:
        raise chain.refusal(
            "comes first in the chain of a key that the spec does not have, and only "
            "there"
        )
