"""Where a picture may go; asked before anything is measured or imported."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from echobuf.errors import OptionError

SUFFIXES = (".png", ".pdf", ".svg")


def check_picture_path(path: str | PathLike[str]) -> Path:
    """The path, if its suffix says a kind of picture that can be written.

    Raises:
        OptionError: it does not.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise OptionError(
            f"`path` is {str(target)!r}; its suffix must be one of "
            f"{', '.join(SUFFIXES)}."
        )
    return target
