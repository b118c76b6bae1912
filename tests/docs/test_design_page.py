"""Pages on the design name files and classes that exist."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / name for name in ("design.md", "reasons.md", "design_device.md")
]
BASES = (".", "python/echobuf", "cpp/include/echobuf", "cpp")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
FILE = r"[\w*./-]+\.(?:py|hpp|cpp|cu|md|json)"
FOLDER = r"[\w.-]+(?:/[\w.-]+)*/"
NAME = r"(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_]\w*"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_design_page_names_what_exists(page: Path) -> None:
    assert list(unknown(page.read_text())) == []


def unknown(text: str) -> Iterator[str]:
    """Yield the names in backticks and pictures that the tree does not have."""
    pictures = " ".join(FENCE.findall(text))
    for span in re.findall(r"`([^`\n]+)`", FENCE.sub("", text)):
        yield from [] if exists(span) else [span]
    yield from (found for found in re.findall(FILE, pictures) if not exists(found))
    camel = r"\b[A-Z][a-z]+[A-Z]\w+"
    yield from (found for found in re.findall(camel, pictures) if not exists(found))


def exists(span: str) -> bool:
    """Return whether the tree has what a span names; spans of other kinds pass."""
    if re.fullmatch(FILE, span):
        return any(is_file(base, span) for base in BASES)
    if re.fullmatch(FOLDER, span):
        return any((ROOT / base / span).is_dir() for base in BASES)
    called = span.partition("(")[0]
    if not re.fullmatch(NAME, called):
        return True
    named = set(re.findall(r"\w+", called))
    return any(named <= words for words in words_by_file())


def is_file(base: str, name: str) -> bool:
    """Return whether a file is there; a name without folders may be anywhere in it."""
    if "/" in name:
        return any(path.is_file() for path in (ROOT / base).glob(name))
    return name in file_names() or (ROOT / base / name).is_file()


@functools.cache
def sources() -> list[Path]:
    """Return the files of the package, of the core, and of the tests but this one."""
    return [
        path
        for folder in ("python", "cpp", "tests", "bench")
        for suffix in ("py", "pyi", "hpp", "cpp", "cu")
        for path in (ROOT / folder).rglob(f"*.{suffix}")
        if path != Path(__file__)
    ]


@functools.cache
def file_names() -> set[str]:
    """Return the names of all source files."""
    return {path.name for path in sources()}


@functools.cache
def words_by_file() -> list[set[str]]:
    """Return the words of each source file."""
    return [set(re.findall(r"\w+", path.read_text())) for path in sources()]
