"""Pack an installed data-echoing into a wheel again: its files, without a build.

`python .ci/pack.py FOLDER` writes the wheel of its environment into FOLDER.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

# Of the installation, not of the wheel.
LEFT_OUT = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}


def pack(folder: Path) -> None:
    """Write the wheel; `wheel pack` lists its files in a new RECORD."""
    with tempfile.TemporaryDirectory() as tree:
        for file in metadata.files("data-echoing") or ():
            if ".." in file.parts or file.name in LEFT_OUT or file.suffix == ".pyc":
                continue
            target = Path(tree, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file.locate(), target)
        subprocess.run(
            [sys.executable, "-m", "wheel", "pack", tree, "--dest-dir", str(folder)],
            check=True,
        )


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    pack(out)
