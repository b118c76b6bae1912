"""The code in a page, for tests that run it."""

from __future__ import annotations

import re
from pathlib import Path


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a language, in their order."""
    fence = rf"^```{language}\n(.*?)^```"
    return re.findall(fence, page.read_text(), re.DOTALL | re.MULTILINE)
