"""Output of commands: lines wrapped for the terminal, JSON, and checks of files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echobuf.cli import UsageError

__all__ = [
    "add_json_option",
    "check_output_file",
    "line_width",
    "make_output_folder",
    "print_json",
    "wrapped",
]

_LEAST = 20  # least number of columns for wrapping


def line_width() -> int | None:
    """Return the columns of a line; None for a file or a pipe, which has no limit.

    `COLUMNS` sets it, for a pipe, too.
    """
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()):
        return None
    return max(_LEAST, shutil.get_terminal_size().columns)


def wrapped(line: str, indent: int = 0, most: int | None = None) -> str:
    """Return the line broken at spaces; a word that is too long stays whole.

    Args:
        line: without line breaks.
        indent: spaces before the second line and those that follow.
        most: columns of a line at most, for a pipe, too.
    """
    width = line_width()
    if most is not None:
        width = most if width is None else min(width, most)
    if width is None or len(line) <= width:
        return line
    begin = len(line) - len(line.lstrip())
    return textwrap.fill(
        line[begin:],
        width,
        initial_indent=" " * begin,
        subsequent_indent=" " * min(indent, width // 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_json(content: Mapping[str, Any]) -> None:
    """Print a document for scripts."""
    print(json.dumps(content, indent=1, allow_nan=False))


def add_json_option(parser: Any, of: str) -> None:
    """Add the option `--json`.

    Args:
        parser: of the command.
        of: the printed figures, in words.
    """
    parser.add_argument(
        "--json", action="store_true", help=f"print {of} as JSON, for scripts"
    )


def make_output_folder(out: Path) -> None:
    """Make the folder of `--out`, and check that files can be written there.

    Raises:
        UsageError: the folder cannot be made or written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        _try_writing(out)
    except (OSError, ValueError) as error:
        raise _cannot_write("--out", out, error) from None


def check_output_file(option: str, path: Path) -> None:
    """Check that a file can be written, before there is anything to write.

    A pipe or a device is not opened, as opening may wait for a reader.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        mode = _mode(path)
        if mode is None:
            if not path.parent.is_dir():
                raise UsageError(
                    f"{option} {path}: there is no folder {str(path.parent)!r}"
                )
            _try_writing(path.parent)
        elif stat.S_ISDIR(mode):
            raise UsageError(f"{option} {path}: is a folder; give a file in it")
        elif stat.S_ISREG(mode):
            os.close(os.open(path, os.O_WRONLY))
    except (OSError, ValueError) as error:
        raise _cannot_write(option, path, error) from None


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _try_writing(folder: Path) -> None:
    import tempfile

    with tempfile.TemporaryFile(dir=folder):
        pass


def _cannot_write(option: str, path: Path, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or error
    return UsageError(f"argument {option}: cannot write to {str(path)!r}: {reason}")
