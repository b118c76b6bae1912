"""`echobuf cmake-dir`: where `find_package(echobuf)` finds the C++ headers."""

from __future__ import annotations

import argparse
from pathlib import Path

from echobuf.cli import CommandError

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds what the command takes: nothing, but an example for its help."""
    parser.epilog = 'for example: cmake -Dechobuf_DIR="$(echobuf cmake-dir)" ...'


def run(options: argparse.Namespace) -> int:
    """Prints the folder of the CMake package.

    Raises:
        CommandError: This installation has none.
    """
    import echobuf

    folder = Path(echobuf.__file__).resolve().parent / "cmake"
    if not folder.is_dir():
        raise CommandError(f"no CMake package at {folder}: reinstall echobuf")
    print(folder)
    return 0
