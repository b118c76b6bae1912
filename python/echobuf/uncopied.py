"""Objects that belong to one process, and say so where they are copied."""

from __future__ import annotations

from typing import NoReturn


class Uncopied:
    """Base of what has threads and memory: `copy` and `pickle` raise `TypeError`."""

    _called = "an EchoLoader"
    _remedy = (
        "Make another one around the same data, in the process that uses it, and load "
        "this one's `state_dict()` into it."
    )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._called} cannot be copied or pickled: it has memory and threads of "
            f"its own. {self._remedy}"
        )
