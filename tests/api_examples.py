"""Examples in docstrings: doctests, which take some names for granted.

`python tests/api_examples.py MODULE ...` runs those of the public names of modules,
in a folder of its own, and fails with a name that has none.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import echobuf
import public_api


def docstrings(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and docstrings of an object and its members."""
    yield name, inspect.getdoc(value) or ""
    if inspect.isclass(value):
        for member, defined in public_api.members_of(value).items():
            yield f"{name}.{member}", inspect.getdoc(defined) or ""


def examples_in(text: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(text)


def run(text: str, name: str) -> str:
    """Run the examples in a text; return what fails, empty if nothing does.

    They know the names that docs/api/index.md imports.
    """
    names = {
        "np": np,
        "echobuf": echobuf,
        "EchoBuffer": echobuf.EchoBuffer,
        "EchoLoader": echobuf.EchoLoader,
        "Field": echobuf.Field,
        "T": echobuf.transforms,
    }
    for module in ("cache", "metrics", "serve", "testing"):
        importlib.import_module(f"echobuf.{module}")
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failures: list[str] = []
    runner.run(test, out=failures.append)
    return "".join(failures)


def main(*modules: str) -> int:
    trouble, count = [], 0
    for module in map(importlib.import_module, modules):
        count += len(module.__all__)
        for name in module.__all__:
            texts = list(docstrings(name, getattr(module, name)))
            trouble += [failed for path, text in texts if (failed := run(text, path))]
            if not any(examples_in(text) for _, text in texts):
                trouble.append(f"{name} has no example")
    print("\n".join(trouble) or f"{count} names have examples that run")
    return 1 if trouble else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        status = main(*sys.argv[1:])
        os.chdir("/")
    sys.exit(status)
