"""Signatures, docstrings and docs/options.md as the table of options has them.

`python tests/written_options.py` writes anew what `test_written_options.py` compares,
from the table of the tree: what is installed has the compiled modules alone.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import echobuf

if __name__ == "__main__":  # before the table is imported
    echobuf.__path__.insert(0, str(Path(__file__).parents[1] / "python/echobuf"))

from echobuf.arguments import BUFFER, JAX, LOADER, REQUIRED, TORCH, Option, Owner
from echobuf.option_table import OptionTable
from echobuf.options import options_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python/echobuf"
PAGE = ROOT / "docs/options.md"

# The class of each file, its options, and those of the class that it extends, whose
# docstring has their entries.
CLASSES: dict[Path, tuple[str, Owner, Owner]] = {
    PACKAGE / "buffer.py": ("EchoBuffer", BUFFER, ()),
    PACKAGE / "loader/loader.py": ("EchoLoader", LOADER, ()),
    PACKAGE / "torch/loader.py": ("EchoLoader", TORCH, LOADER),
    PACKAGE / "jax/loader.py": ("EchoLoader", JAX, LOADER),
}

_ENTRY = re.compile(r"        \w+: ")
_HEAD = "| option | of | allowed | default | in a state | meaning |"


def written() -> dict[Path, str]:
    """Return the text of each file that follows from the table."""
    texts = {path: with_options(path.read_text(), *CLASSES[path]) for path in CLASSES}
    return {**texts, PAGE: with_table(PAGE.read_text())}


# ---- classes


def with_options(text: str, name: str, owner: Owner, base: Owner) -> str:
    """Return the text of a module with the signature and the docstring of a class."""
    cls = next(
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    init = next(
        node
        for node in cls.body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    lines = text.splitlines()
    end = init.body[0].lineno - 1
    lines[init.args.kwonlyargs[0].lineno - 1 : end] = parameters(owner)
    docstring = cls.body[0]
    start = lines.index("    Args:", docstring.lineno) + 1
    start = next_entry(lines, start + 1)  # of what is given by position
    end = lines.index("", start)
    lines[start:end] = entries(owner, base)
    return "\n".join(lines) + "\n"


def next_entry(lines: list[str], start: int) -> int:
    while not _ENTRY.match(lines[start]):
        start += 1
    return start


def parameters(owner: Owner) -> list[str]:
    """Return the lines of a signature."""
    lines = []
    for name, row in options_of(owner):
        of = row.of(owner)
        default = "" if of.default is REQUIRED else f" = {shown(of.default)}"
        lines.append(f"        {name}: {of.type}{default},")
    return lines


def shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def entries(owner: Owner, base: Owner) -> list[str]:
    """Return the lines of a docstring; without those that a base has as well."""
    lines = []
    for name, row in options_of(owner):
        doc = row.of(owner).doc
        if base and row.is_of(base) and row.of(base).doc == doc:
            continue
        lines += wrapped(f"{name}: {doc}")
    return lines


def wrapped(entry: str) -> list[str]:
    """Return the lines of an entry; code is not broken."""
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), entry)
    lines = textwrap.wrap(
        whole,
        88,
        initial_indent=" " * 8,
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


# ---- docs/options.md


def with_table(text: str) -> str:
    """Return the page with the table of all options, its last one."""
    start = text.index(_HEAD)
    end = text.find("\n\n", start)
    rest = "\n" if end < 0 else text[end:]
    return text[:start] + "\n".join(table()) + rest


def table() -> Iterator[str]:
    yield _HEAD
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, row in vars(OptionTable).items():
        if isinstance(row, Option):
            cells = (f"`{name}`", owners(row), code(row.check.allowed), defaults(row))
            yield f"| {' | '.join((*cells, row.state or 'no', meaning(row)))} |"


def owners(row: Option[object]) -> str:
    names = {"buffer": "buffer", "loaders": "loaders", "ranks": "torch", "jax": "JAX"}
    return ", ".join(names[kind] for kind in row.has)


def defaults(row: Option[object]) -> str:
    """Return the default, or those of buffers and loaders where they differ."""
    found = []
    for kind in row.has:
        default = row.of((kind,)).default
        found.append("required" if default is REQUIRED else f"`{shown(default)}`")
    if len({*found}) == 1:
        return found[0]
    return ", ".join(
        f"{kind}: {each}" for kind, each in zip(row.has, found, strict=True)
    )


def meaning(row: Option[object]) -> str:
    """Return the first sentence of the entry, of loaders where they have it."""
    doc = row.of(LOADER if row.is_of(LOADER) else (row.has[0],)).doc
    assert doc is not None
    return re.split(r"(?<=[^.])\. |\.$", doc)[0].replace("|", "\\|")


def code(allowed: str) -> str:
    """Return what is allowed, with texts marked as code."""
    return re.sub(r"'([\w:]+)'", r'`"\1"`', allowed)


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text)
