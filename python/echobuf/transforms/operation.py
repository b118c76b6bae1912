"""The base of operations, and `Source`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf.errors import OptionError
from echobuf.transforms.chain import Chain

if TYPE_CHECKING:
    from echobuf.transforms.chain import Chain


class Operation(ABC):
    """One operation of a chain; never changed once it is made.

    The same object in the chains of two leaves does the same to both: the crop of an
    image is that of its mask.
    """

    @abstractmethod
    def add_to(self, chain: Chain) -> None:
        """Add what it does to a chain.

        Raises:
            SpecError: it does not fit what the chain makes so far.
        """

    @property
    def chance(self) -> Operation:
        """The operation that it shares its chance with."""
        return self

    def refusal(self, argument: str, value: Any, allowed: str) -> OptionError:
        """Return the error for an argument that it cannot take."""
        return OptionError(
            f"`{argument}` of {type(self).__name__} is {value!r}; it must be {allowed}."
        )


@dataclass(frozen=True, eq=False)
class Source(Operation):
    """Says from which leaf of the spec a further leaf of batches is made.

    It comes first in the chain of a key that the spec does not have: two views of an
    image, tokens and what is to be told of them, from what is stored once.

    Args:
        leaf: its key, as in `transform`.
    """

    leaf: Any

    def add_to(self, chain: Chain) -> None:
        raise chain.refusal(
            "comes first in the chain of a key that the spec does not have, and only "
            "there"
        )
