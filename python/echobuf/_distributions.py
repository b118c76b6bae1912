"""Distributions that pip has installed in the folder `echobuf`: ours, and another.

The distribution of this package is called `data-echoing`. PyPI's `echobuf` is another
project that installs into a folder of the same name.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

NAME = "data-echoing"
OTHER = "echobuf"

_FOLDER = Path(__file__).parent
_MEND = f"pip uninstall -y {OTHER} {NAME}, then pip install {NAME} (with its extras)"


def other_version() -> str | None:
    """Return the version of a distribution named `echobuf`, None if there is none."""
    found = _found(OTHER)
    return None if found is None else found.version


def changed_files() -> list[str]:
    """Return the files of this package that are gone or not as pip installed them.

    Paths are relative to the folder that holds `echobuf`. An installation whose files
    pip keeps no hashes of (an editable one, a checkout) has none.
    """
    ours = _found(NAME)
    if ours is None or _located(ours) != _FOLDER.resolve():
        return []
    return [
        str(file)
        for file in ours.files or ()
        if file.parts[0] == OTHER
        and file.hash is not None
        and _hash(Path(str(file.locate())), file.hash.mode) != file.hash.value
    ]


def troubles() -> list[str]:
    """Return a sentence for each thing that is in this package's way."""
    said = []
    changed = changed_files()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        said.append(
            f"{changed[0]}{more} in {_FOLDER.parent} is not as {NAME} installed it: "
            f"{_MEND}."
        )
    if (version := other_version()) is not None:
        said.append(
            f"{_about_other(version)} Uninstalling it takes files of this package "
            f"with it, so do both: {_MEND}."
        )
    return said


def explain_missing(error: ImportError) -> str:
    """Return why `echobuf._core` cannot be imported, and what to do."""
    if any(_FOLDER.glob("_core*.so")):
        begin = f"echobuf._core cannot be imported from {_FOLDER}: {error}."
    else:
        begin = f"echobuf._core, its native code, is not in {_FOLDER}."
    if (version := other_version()) is not None:
        return f"{begin} {_about_other(version)} Do this: {_MEND}."
    return (
        f"{begin} Install it again: pip install --force-reinstall --no-deps {NAME}; "
        "in a checkout, whose Python files alone are not enough: pip install ."
    )


def explain_mixed(python: str, core: str) -> str:
    """Return what to do where files of two versions are mixed."""
    begin = (
        f"the Python files of echobuf in {_FOLDER} are of version {python}, and its "
        f"native code echobuf._core is of {core}."
    )
    if (version := other_version()) is not None:
        return f"{begin} {_about_other(version)} Do this: {_MEND}."
    return (
        f"{begin} Install one of them: pip install --force-reinstall --no-deps {NAME}; "
        "in a checkout: pip install --no-deps ."
    )


def _about_other(version: str) -> str:
    return (
        f"The distribution {OTHER!r} {version}, another project or an old name of this "
        f"one, is installed, too, and writes into the same folder."
    )


def _found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _hash(path: Path, mode: str) -> str | None:
    """Return the hash as a RECORD file writes it; None if there is no such file."""
    try:
        digest = hashlib.new(mode, path.read_bytes()).digest()
    except (OSError, ValueError):
        return None
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _located(ours: Distribution) -> Path:
    return Path(str(ours.locate_file(OTHER))).resolve()
