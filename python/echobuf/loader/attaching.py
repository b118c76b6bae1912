"""An upstream that is a job's place at a server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from echobuf.errors import OptionError

if TYPE_CHECKING:
    from echobuf.serve.attached import Attached


def as_attached(upstream: Any) -> Attached | None:
    """The upstream if `echobuf.serve.attach` gave it, else None; imports nothing."""
    module = sys.modules.get("echobuf.serve.attached")
    if module is None or not isinstance(upstream, module.Attached):
        return None
    attached: Attached = upstream
    return attached


def check_attached(workers: Any, sampler: Any, batched: bool | None, unit: str) -> None:
    """Refuses what the server decides.

    Raises:
        OptionError: names it.
    """
    if unit != "example":
        raise OptionError(
            f"`unit` is {unit!r}; a server serves examples: leave it out here."
        )
    for name, value in (
        ("num_workers", workers),
        ("sampler", sampler),
        ("batched", batched),
    ):
        if value:
            raise OptionError(
                f"`{name}` is for who reads the data; `upstream` is attached to a "
                "server, which does: say it there, and leave it out here."
            )
