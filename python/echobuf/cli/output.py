"""Output of commands: lines wrapped for the terminal, JSON, and checks of files."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import sys
import textwrap
from pathlib import Path
from typing import Any

from echobuf.cli import UsageError

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
        indent: spaces before each line but the first.
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


def print_json(content: Any) -> None:
    """Print a document for scripts."""
    print(json.dumps(content, indent=1, allow_nan=False))


def add_json_option(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the option `--json`, which prints figures that `of` names."""
    parser.add_argument(
        "--json", action="store_true", help=f"print {of} as JSON, for scripts"
    )


def add_out_option(parser: argparse.ArgumentParser, default: Path, of: str) -> None:
    """Add the option `--out`, for the folder of the files that `of` names."""
    parser.add_argument(
        "--out",
        type=Path,
        default=default,
        metavar="FOLDER",
        help=f"folder for {of} (default: %(default)s)",
    )


def make_output_folder(out: Path) -> None:
    """Make the folder of `--out`, and check that files can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        _try_writing(out)
    except (OSError, ValueError) as error:
        raise _cannot_write("--out", out, error) from None


def check_output_file(option: str, path: Path) -> None:
    """Check that a file can be written, before there is anything to write.

    A pipe or a device is not opened, as opening may wait for a reader.
    """
    try:
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if not path.parent.is_dir():
                raise UsageError(
                    f"{option} {path}: there is no folder {str(path.parent)!r}"
                ) from None
            _try_writing(path.parent)
            return
        if stat.S_ISDIR(mode):
            raise UsageError(f"{option} {path}: is a folder; give a file in it")
        if stat.S_ISREG(mode):
            os.close(os.open(path, os.O_WRONLY))
    except (OSError, ValueError) as error:
        raise _cannot_write(option, path, error) from None


def _try_writing(folder: Path) -> None:
    import tempfile

    with tempfile.TemporaryFile(dir=folder):
        pass


def _cannot_write(option: str, path: Path, error: Exception) -> UsageError:
    reason = getattr(error, "strerror", None) or error
    return UsageError(f"argument {option}: cannot write to {str(path)!r}: {reason}")
