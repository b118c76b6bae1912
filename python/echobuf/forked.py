"""Sockets and locks that a forked child closes.

In a child they would stay open when this process is gone, and its peers would wait for
an answer.
"""

from __future__ import annotations

import io
import os
import socket
import weakref

_open: weakref.WeakSet[socket.socket | io.FileIO] = weakref.WeakSet()


def track(opened: socket.socket | io.FileIO) -> None:
    """Close it in forked children."""
    _open.add(opened)


def _close_all() -> None:
    for each in list(_open):
        each.close()


os.register_at_fork(after_in_child=_close_all)
