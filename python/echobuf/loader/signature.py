"""Complete docstrings for loaders that extend another one."""

from __future__ import annotations

import inspect
import re
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

_ENTRY = re.compile(r"    (\w+): ")


def documented(cls: _Class) -> _Class:
    """Complete the `Args:` of a class with the entries of the class it extends."""
    base = cls.__mro__[1]
    if cls.__doc__ is None or base.__doc__ is None:  # python -OO
        return cls
    head, own, rest = _parts(cls.__doc__)
    entries = {**_parts(base.__doc__)[1], **own}
    order = [name for name in inspect.signature(cls).parameters if name in entries]
    lines = [*head, "Args:", *(line for name in order for line in entries[name])]
    cls.__doc__ = "\n".join([*lines, *rest])
    return cls


def _parts(doc: str) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Return a docstring's lines before its arguments, these by name, and the rest."""
    lines = inspect.cleandoc(doc).splitlines()
    start = lines.index("Args:")
    end = start + 1
    entries: dict[str, list[str]] = {}
    name = ""
    while end < len(lines) and lines[end].startswith(" "):
        entry = _ENTRY.match(lines[end])
        name = entry.group(1) if entry else name
        entries.setdefault(name, []).append(lines[end])
        end += 1
    return lines[:start], entries, lines[end:]
