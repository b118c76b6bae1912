"""What says whether a cache directory is that of the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from echobuf.cache.record import Draft
from echobuf.errors import OptionError


def check_identity(identity: Any) -> str | None:
    """What the caller says, or an `OptionError`."""
    if identity is None or (isinstance(identity, str) and identity):
        return identity
    raise OptionError(
        f"`identity` is {identity!r}; it must be a string that says which data these "
        "are, and how they were prepared, such as 'imagenet-2012, 256 px, v3'."
    )


def derive(dataset: Any, count: int, read: Callable[[int], Any]) -> str:
    """An identity where the caller gives none: from three items, as they are cached.

    Args:
        dataset: the source; one of Hugging Face's has a fingerprint, which is part.
        count: how many items it has.
        read: gives an item as it is to be cached.
    """
    kind = type(dataset)
    seen = hashlib.sha256(f"{kind.__module__}.{kind.__qualname__}".encode())
    fingerprint = getattr(dataset, "_fingerprint", None)
    if isinstance(fingerprint, str):
        seen.update(fingerprint.encode())
    for number in sorted({0, count // 2, count - 1}) if count else ():
        seen.update(Draft(read(number)).seal(number))
    return f"items {seen.hexdigest()[:32]}"
