"""`FILE:NAME` on a command line: what a Python file of the user's defines."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from echobuf.cli import UsageError
from echobuf.describe_error import describe, message

__all__ = ["call_target", "load_target", "where"]


def load_target(target: str) -> Any:
    """Runs the file as a module, and gives what has that name in it.

    The file's folder comes first in `sys.path`, as when Python runs it; what stands
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
    """What a function of the file gives.

    Args:
        found: that function.
        target: where it was found.
        returns: what it is for, in words.

    Raises:
        UsageError: it raised.
    """
    file = Path(target.rpartition(":")[0])
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{target}() raised {describe(error)}{where(error, file)}; it is called "
            f"without arguments, and returns {returns}"
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
        name = f"_{name}_"  # json.py: what others have imported stays
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(
            f"{str(file)!r} is not a Python file: its name does not end in '.py'"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickle finds it, for worker processes
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(
            f"importing {str(file)!r} failed: {describe(error)}{where(error, file)}"
        ) from error
    return module


def where(error: BaseException, file: Path) -> str:
    """The last line of the file that the error passed through, as ` (line 12)`."""
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
