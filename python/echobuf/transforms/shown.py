"""Values of the caller's in messages."""

from __future__ import annotations

from typing import Any


def show(value: Any) -> str:
    """Return the `repr` of any value for a message: shortened, and without failing."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__} without a `repr`"
    return shorten(text)


def shorten(text: str, most: int = 300) -> str:
    """Return the beginning of a text, all of it if it is short."""
    return text if len(text) <= most else text[:most] + "..."
