"""Paths of pictures of a report."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from echobuf.errors import OptionError

SUFFIXES = (".png", ".pdf", ".svg")


def check_picture_path(path: str | PathLike[str]) -> Path:
    """Return the path, if its suffix is a kind of picture that can be written.

    Raises:
        OptionError: the suffix is another.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise OptionError(
            f"`path` is {str(target)!r}; its suffix must be one of "
            f"{', '.join(SUFFIXES)}."
        )
    return target
