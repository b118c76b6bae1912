"""The code in a page, for tests that run it."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a language, in their order."""
    return _blocks(page.read_text(), language)


def _blocks(text: str, language: str) -> list[str]:
    fence = rf"^```{language}\n(.*?)^```"
    return re.findall(fence, text, re.DOTALL | re.MULTILINE)


def blocks_below(page: Path, title: str, language: str) -> list[str]:
    """The code blocks of a language in one section, `## title`."""
    _, _, rest = page.read_text().partition(f"\n## {title}\n")
    return _blocks(rest.partition("\n## ")[0], language)


def sections(page: Path) -> list[str]:
    """The titles of the sections, `## title`."""
    return re.findall(r"^## (.*)$", page.read_text(), re.MULTILINE)
