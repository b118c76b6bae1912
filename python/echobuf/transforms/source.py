"""`Source`: a leaf of batches that is made from another one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation


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
