"""A copy of the kernels' sources with one fault."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernels_compiled import ROOT


def mutated(folder: Path, file: str, part: str, by: str) -> Path:
    """Copy the sources, and change one place in one file.

    Args:
        folder: where the copy goes.
        file: the path of the changed file in cpp/.
        part: its text, which must be there once.
        by: what stands there then.

    Returns:
        The folder, with "include" and "kernels".
    """
    for name in ("include", "kernels"):
        shutil.copytree(ROOT / "cpp" / name, folder / name)
    source = (folder / file).read_text()
    assert source.count(part) == 1, (file, part)
    (folder / file).write_text(source.replace(part, by))
    return folder
