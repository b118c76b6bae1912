"""Objects that a forked child must never destroy.

What is of CUDA (modules, events, pinned memory) belongs to the process that started
CUDA: in a forked child the driver refuses the call that would give it back, and CuPy
prints a traceback for that. A child that leaves a buffer alone must not notice it.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, TypeVar

_T = TypeVar("_T")
_spared: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def spare_in_children(owner: _T) -> _T:
    """Return `owner`, which forked children keep for ever, with all that it refers to.

    Args:
        owner: an object that can be referred to weakly.
    """
    _spared[id(owner)] = owner
    return owner


def _keep() -> None:
    # A reference that nobody gives back: the interpreter's end drops those of modules.
    for owner in _spared.values():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


os.register_at_fork(after_in_child=_keep)
