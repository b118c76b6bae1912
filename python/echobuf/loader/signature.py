"""Explicit signatures and complete docstrings for loaders that extend another one."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

_Init = TypeVar("_Init", bound=Callable[..., None])
_Class = TypeVar("_Class", bound=type)

_ENTRY = re.compile(r"    (\w+): ")


def declared(init: _Init) -> _Init:
    """Make of an `__init__` without a body one that calls the method `_set_up`.

    `_set_up` gets every argument that `init` declares by name, defaults included.
    So a loader with more arguments than its base declares all of them once, for
    readers and type checkers, and hands those of the base on as a mapping.
    """

    @functools.wraps(init)
    def collect(self: Any, *args: Any, **given: Any) -> None:
        init(self, *args, **given)  # raises Python's own TypeError for a wrong name
        self._set_up(*args, **{**collect.__kwdefaults__, **given})  # type: ignore[attr-defined]

    collect.__kwdefaults__ = init.__kwdefaults__  # type: ignore[attr-defined]
    return collect  # type: ignore[return-value]


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
