"""A package with some modules of its own, and all else that of the package itself."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path


class Overlay:
    """A folder for `PYTHONPATH`, in which modules can be changed.

    Folders with a changed module in them are folders here, too; all else is links.

    Args:
        folder: an empty one, which it is made in.
        package: the folder of the package.
        modules: paths in it of what will be changed.
    """

    def __init__(self, folder: Path, package: Path, modules: Collection[str]) -> None:
        self.folder = folder
        self._root = folder / package.name
        self._package = package
        self._modules = {Path(module) for module in modules}
        self._real = {parent for module in self._modules for parent in module.parents}
        self._fill(Path())

    def _fill(self, at: Path) -> None:
        (self._root / at).mkdir()
        for entry in sorted((self._package / at).iterdir()):
            here = at / entry.name
            if entry.name == "__pycache__":
                continue
            if here in self._real:
                self._fill(here)
            elif here in self._modules:
                shutil.copyfile(entry, self._root / here)
            else:
                (self._root / here).symlink_to(entry.resolve())

    def path(self, module: str) -> Path:
        """Return where the copy of a module is."""
        return self._root / module

    def write(self, module: str, text: str) -> None:
        """Give a module another text."""
        self.path(module).write_text(text)
