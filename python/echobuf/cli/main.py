"""Entry point `echobuf COMMAND ...`; a command is imported only when chosen."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from echobuf.cli import EXIT_CODE, MESSAGE, CommandError, UsageError

__all__ = ["main"]

_PROG = "echobuf"
# Name of a command to its module in `echobuf.cli` and description. A module, which must
# be cheap to import, has `configure(parser)` and `run(options) -> exit code`.
_COMMANDS = {
    "demo": ("demo", "train a small model from a slow input, with and without echoing"),
    "bench": (
        "bench.command",
        "measure echobuf beside plain copies, NumPy and a DataLoader on this machine",
    ),
    "analyze": (
        "analyze",
        "measure whether training waits for its input, and what echoing would bring",
    ),
    "serve": (
        "serve",
        "run an upstream once, for several training jobs on this machine",
    ),
    "status": (
        "status",
        "show a server's jobs, their rates and how far they are behind",
    ),
    "doctor": ("doctor", "print versions and devices, and test this installation"),
    "cmake-dir": (
        "cmake_dir",
        "print the folder of the CMake package, for C++ trainers",
    ),
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports bad usage in one line."""

    def error(self, message: str) -> NoReturn:
        line = " ".join(message.split())
        self.exit(2, f"{self.prog}: {line} (see '{self.prog} --help')\n")


class _CommandParser(_Parser):
    """The parser of one command, which imports the command's module when used."""

    module = ""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self.module:
            module = importlib.import_module(f"echobuf.cli.{self.module}")
            self.module = ""
            module.configure(self)
            # An argument of the Python API is the `dest` of the option for it.
            names = {
                action.dest: str([*action.option_strings, action.metavar][0])
                for action in self._actions
            }
            self.set_defaults(run=module.run, option_names=names)
        return super().parse_known_args(args, namespace)


def _parser() -> argparse.ArgumentParser:
    from echobuf import __version__

    parser = _Parser(
        prog=_PROG,
        description="Data echoing: keep training while the input is slow.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"echobuf {__version__}")
    commands = parser.add_subparsers(
        title="commands",
        dest="command",
        metavar="COMMAND",
        required=True,
        parser_class=_CommandParser,
    )
    for name, (module, text) in _COMMANDS.items():
        about = f"{text[0].upper()}{text[1:]}."
        command = commands.add_parser(
            name, help=text, description=about, allow_abbrev=False
        )
        command.module = module
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments without the program's name; by default `sys.argv[1:]`.

    Returns:
        The exit code: 0 for success, 1 if the command failed, 2 for bad usage,
        130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    options = argparse.Namespace(command="", command_line=[_PROG, *arguments])
    try:
        _parser().parse_args(arguments, options)
        return int(options.run(options))
    except SystemExit as stop:  # argparse: --help, --version and bad usage
        return int(stop.code or 0)
    except CommandError as error:
        line = " ".join(str(error).split())
        print(f"{_PROG} {options.command}: {line}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print(MESSAGE, file=sys.stderr)
        return EXIT_CODE
    except BrokenPipeError:
        # The reader has closed the pipe (`echobuf doctor | head`): the buffered rest
        # must not raise again when the interpreter flushes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
