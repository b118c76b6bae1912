"""Docstrings open with a verb or a noun, never with a clause."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("python", "tests", "bench", "experiments", "examples")
CLAUSES = ("what", "whether", "where", "whose", "who", "whoever", "whatever")


def clauses_in(text: str) -> Iterator[str]:
    """Yield the first lines of docstrings, attributes' too, that open with a clause."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            first = str(node.value.value).strip().split("\n")[0]
            if re.match(r"\w*", first.lower())[0] in CLAUSES:
                yield first


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_opens_with_a_clause(folder):
    found = [
        f"{path.relative_to(ROOT)}: {first}"
        for path in sorted((ROOT / folder).rglob("*.py*"))
        if path.suffix in (".py", ".pyi")
        for first in clauses_in(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_clause_is_found_in_functions_classes_modules_and_attributes():
    text = '''"""What it is."""
class A:
    """Whether."""
    def f(self):
        """Where, if anywhere."""
    def g(self):
        """Return what it is."""
LIMIT = 3
"""Who passes it is refused."""
'''
    assert sorted(clauses_in(text)) == [
        "What it is.",
        "Where, if anywhere.",
        "Whether.",
        "Who passes it is refused.",
    ]
