"""A copy of the kernels' sources with one fault."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from kernels_compiled import ROOT


def mutated(folder: Path, file: str, part: str, by: str) -> Path:
    """Copy the sources, and change one place in one file.

    Args:
        folder: where the copy goes.
        file: the path of the changed file in cpp/.
        part: its text, which must be there once; any space in it, also none or a new
            line, stands for a space.
        by: what stands there then.

    Returns:
        The folder, with "include" and "kernels".
    """
    for name in ("include", "kernels"):
        shutil.copytree(ROOT / "cpp" / name, folder / name)
    spaced = r"\s*".join(map(re.escape, part.split()))
    source = (folder / file).read_text()
    changed, places = re.subn(spaced, lambda _: by, source)
    assert places == 1, (file, part, places)
    (folder / file).write_text(changed)
    return folder
