"""Griffe extension: loaders that extend another one show its arguments, too.

When the package is imported, `echobuf.loader.signature.documented` completes their
docstrings; the site reads the sources without importing them.
"""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

SIGNATURE = Path(__file__).parents[1] / "python/echobuf/loader/signature.py"


def signature_module() -> ModuleType:
    """Import the module that completes docstrings, which imports nothing of echobuf."""
    spec = importlib.util.spec_from_file_location("loader_signature", SIGNATURE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class LoaderArguments(griffe.Extension):
    """An extension that completes the docstrings of classes marked `documented`."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Complete all of a package, bases first."""
        documented = signature_module().documented
        for path in ("jax.loader", "torch.loader", "accelerate"):
            cls = pkg[f"{path}.EchoLoader"]
            base = cls.bases[0].canonical_path
            self.complete(cls, pkg.modules_collection[base], documented)

    def complete(self, cls: Any, base: Any, documented: Any) -> None:
        """Put the arguments of a base that is complete into a class's docstring."""
        if "__init__" not in cls.members:
            cls.set_member("__init__", griffe.Alias("__init__", base["__init__"]))
        names = [each.name for each in cls["__init__"].parameters][1:]
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names
        ]
        likeness = type("Base", (), {"__doc__": base.docstring.value})
        text = {
            "__doc__": cls.docstring.value,
            "__signature__": inspect.Signature(parameters),
        }
        cls.docstring.value = documented(type("Loader", (likeness,), text)).__doc__
