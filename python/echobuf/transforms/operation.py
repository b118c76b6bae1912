"""What operations have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from echobuf.errors import OptionError

if TYPE_CHECKING:
    from echobuf.transforms.chain import Chain


class Operation(ABC):
    """One operation of a chain; never changed once it is made.

    The same object in the chains of two leaves does the same to both: the crop of an
    image is that of its mask.
    """

    @abstractmethod
    def add_to(self, chain: Chain) -> None:
        """Adds what it does to a chain.

        Raises:
            SpecError: it does not fit what the chain makes so far.
        """

    @property
    def chance(self) -> Operation:
        """The operation that it shares its chance with."""
        return self

    def refusal(self, argument: str, value: Any, allowed: str) -> OptionError:
        """The error for an argument that it cannot take."""
        return OptionError(
            f"`{argument}` of {type(self).__name__} is {value!r}; it must be {allowed}."
        )
