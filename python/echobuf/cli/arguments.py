"""Types of command-line arguments for `argparse`, and `FILE:NAME` targets."""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from echobuf.cli import UsageError
from echobuf.errors import describe, message

_ARGUMENT = re.compile(r"`(\w+)=?`")


def with_option_names(error: Exception, options: Mapping[str, str]) -> str:
    """Return the message of `error` with the command's options in place of arguments.

    The message of an error with a cause quotes the user's code, whose arguments stay.

    Args:
        error: raised by a Python call; its message names arguments in backticks.
        options: argument to the command's option for it.
    """
    said = message(error)
    if error.__cause__ is not None:
        return said
    return _ARGUMENT.sub(lambda found: options.get(found[1], found[0]), said)


def whole_number(text: str) -> int:
    """Parse a whole number from 1 on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return value


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None


def number_that(allows: Callable[[float], bool], words: str) -> Callable[[str], float]:
    """Return a function that parses numbers; `words` say which are allowed, not NaN."""

    def parse(text: str) -> float:
        value = number(text)
        if not allows(value):
            raise argparse.ArgumentTypeError(f"must be {words}, not {text}")
        return value

    return parse


positive = number_that(lambda s: 0 < s < math.inf, "a number of seconds > 0")
rate = number_that(lambda r: 0 < r < math.inf, "a number > 0, of examples a second")
share = number_that(lambda s: 0 <= s <= 1, "a number from 0 to 1")


def load_target(target: str) -> Any:
    """Run a Python file as a module, and return the object of a name in it.

    The file's folder comes first in `sys.path`, as when Python runs the file; code
    under `if __name__ == "__main__":` does not run.

    Args:
        target: such as `train.py:make`; the name may have dots.

    Raises:
        UsageError: there is no such file or name, or the file raised.
    """
    file, name = _split(target)
    found: Any = _import(file)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UsageError(
                f"{str(file)!r} defines no {name!r}; {_names(found)}"
            ) from None
    return found


def call_target(found: Any, target: str, returns: str) -> Any:
    """Call a function that `load_target` found; `returns` is its result, in words."""
    file = Path(target.rpartition(":")[0])
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{target}() raised {describe(error)}{_raised_at(error, file)}; it is "
            f"called without arguments, and returns {returns}"
        ) from error


def _split(target: str) -> tuple[Path, str]:
    file, colon, name = target.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(
            f"{target!r} is not FILE:NAME; give a Python file and a name in it, such "
            "as 'train.py:make'"
        )
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} in {target!r} is not a name in a Python file")
    path = Path(file)
    try:
        if path.is_file():
            return path, name
    except (OSError, ValueError) as error:
        raise UsageError(f"{file!r} cannot be read: {message(error)}") from None
    what = "is a folder, not a file" if path.is_dir() else "does not exist"
    raise UsageError(f"{file!r} {what}; give a Python file, such as 'train.py:make'")


def _import(file: Path) -> ModuleType:
    name = file.stem
    if name in sys.modules:
        name = f"_{name}_"  # such as json.py: imported modules stay as they are
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(
            f"{str(file)!r} is not a Python file: its name does not end in '.py'"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that pickle finds it in worker processes
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        where = _raised_at(error, file)
        raise UsageError(
            f"importing {str(file)!r} failed: {describe(error)}{where}"
        ) from error
    return module


def _raised_at(error: BaseException, file: Path) -> str:
    """Return the last line of the file in the error's traceback, as ` (line 12)`."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f" (line {error.lineno})"
    line, trace = None, error.__traceback__
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) in (file, file.resolve()):
            line = trace.tb_lineno
        trace = trace.tb_next
    return "" if line is None else f" (line {line})"


def _names(found: Any) -> str:
    names = [
        name
        for name, value in getattr(found, "__dict__", {}).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    return f"it defines {', '.join(names[:8])}" if names else "it defines nothing"
