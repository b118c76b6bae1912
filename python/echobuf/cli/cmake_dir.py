"""`echobuf cmake-dir`: the folder of the CMake package."""

from __future__ import annotations

import argparse
from pathlib import Path

from echobuf.cli import CommandError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add an example to the help; the command takes no arguments."""
    parser.epilog = 'for example: cmake -Dechobuf_DIR="$(echobuf cmake-dir)" ...'


def run(options: argparse.Namespace) -> int:
    """Print the folder of the CMake package."""
    import echobuf

    folder = Path(echobuf.__file__).resolve().parent / "cmake"
    if not folder.is_dir():
        raise CommandError(f"no CMake package at {folder}: reinstall echobuf")
    print(folder)
    return 0
