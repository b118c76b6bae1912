"""The installation: version, C++ headers, a check that files fit; the exit hook."""

from __future__ import annotations

import atexit
import os

from echobuf._version import __version__

try:
    from echobuf import _core
except ImportError as _error:
    from echobuf._distributions import explain_missing

    raise ImportError(explain_missing(_error), name="echobuf._core") from _error

if _core.__version__ != __version__:
    from echobuf._distributions import explain_mixed

    raise ImportError(explain_mixed(__version__, _core.__version__), name="echobuf")

__all__ = ["__version__", "get_include"]

# Before all other hooks, so that it runs after them: it puts threads to sleep.
atexit.register(_core.interpreter_exits)


def get_include() -> str:
    """Return the folder of the C++ headers, for `#include <echobuf/buffer.hpp>`.

    Examples:
        >>> from pathlib import Path
        >>> Path(echobuf.get_include(), "echobuf", "buffer.hpp").is_file()
        True
    """
    return os.path.join(os.path.dirname(__file__), "include")
