"""Ctrl-C at each place of a call in turn, exactly where Python would raise it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any


class Interrupt:
    """A block in which `KeyboardInterrupt` is raised once, before a certain bytecode.

    Args:
        at: how many bytecodes of the files go before it.
        files: whose bytecodes count, by the ends of their paths.

    Attributes:
        was_raised: whether there were as many.
    """

    def __init__(self, at: int, files: tuple[str, ...]) -> None:
        self.was_raised = False
        self._left = at
        self._files = files

    def __enter__(self) -> None:
        sys.settrace(self._begin)

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _begin(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self.was_raised or not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        return self._count

    def _count(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and not self.was_raised:
            self._left -= 1
            if self._left < 0:
                self.was_raised = True
                raise KeyboardInterrupt
        return self._count
