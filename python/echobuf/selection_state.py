"""The part of a state that says which examples a pass leaves out: marks as text."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from echobuf.errors import StateError


def written(selection: dict[str, Any]) -> dict[str, Any]:
    """Return the core's selection with text in place of bytes."""
    marks = base64.b85encode(zlib.compress(selection["marks"])).decode()
    return {**selection, "marks": marks}


def read(selection: dict[str, Any]) -> dict[str, Any]:
    """Return the reverse of `written`."""
    try:
        marks = zlib.decompress(base64.b85decode(selection["marks"]))
        return {**selection, "marks": marks}
    except (zlib.error, ValueError, AttributeError, TypeError, KeyError) as error:
        raise StateError(f"`state` is damaged: {error}.") from None
