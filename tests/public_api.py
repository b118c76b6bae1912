"""The public API as text: names, signatures and first lines of docstrings.

`python tests/public_api.py > tests/public_api.txt` writes anew what
`test_public_api.py` compares.
"""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

MODULES = (
    "echobuf",
    "echobuf.accelerate",
    "echobuf.analysis",
    "echobuf.cache",
    "echobuf.cache.distributed",
    "echobuf.jax",
    "echobuf.metrics",
    "echobuf.serve",
    "echobuf.testing",
    "echobuf.torch",
    "echobuf.transforms",
)


def api() -> str:
    """Return a line for each public name of each module, sorted."""
    return "".join(f"{line}\n" for name in MODULES for line in lines_of(name))


def lines_of(module_name: str) -> Iterator[str]:
    module = importlib.import_module(module_name)
    for name in sorted(module.__all__):
        yield from lines_of_object(f"{module_name}.{name}", getattr(module, name))


def lines_of_object(path: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield f"class {path}{signature_of(value)}: {first_line(value)}"
        for name, member in sorted(members_of(value).items()):
            yield line_of_member(f"{path}.{name}", member)
    elif callable(value):
        yield f"def {path}{signature_of(value)}: {first_line(value)}"
    else:
        yield f"{path}: {type(value).__name__}"


def members_of(cls: type) -> dict[str, Any]:
    """Return what a class and the package's bases of it define."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "echobuf":
            members |= vars(base)
    return {name: member for name, member in members.items() if name[0] != "_"}


def line_of_member(path: str, member: Any) -> str:
    if isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
    if isinstance(member, enum.Enum):
        return f"  {path} = {member.value!r}"
    if callable(member):
        return f"  def {path}{signature_of(member)}: {first_line(member)}"
    if isinstance(member, property):
        return f"  property {path}: {first_line(member)}"
    return f"  {path}"


def signature_of(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except ValueError:  # of a native or built-in class
        return "(...)"


def first_line(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


if __name__ == "__main__":
    print(api(), end="")
