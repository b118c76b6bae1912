"""Texts that are compiled side by side, on as many threads as there are cores."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence

from echobuf.resources import DaemonThread


def side_by_side(
    compile_one: Callable[[str], bytes], texts: Sequence[str]
) -> list[bytes]:
    """Return what is made of each text; the caller's thread does its part.

    An error ends it: no other text is begun, and those that were are waited for, since
    a compiler must not run when the interpreter ends. So does Ctrl-C.

    Args:
        compile_one: called on several threads; it should not hold the GIL.
        texts: in the order in which they are begun.
    """
    left = deque(enumerate(texts))
    made: dict[int, bytes] = {}
    failed: list[BaseException] = []

    def work() -> None:
        while True:
            try:
                number, text = left.popleft()
            except IndexError:
                return
            made[number] = compile_one(text)

    def assist() -> None:
        try:
            work()
        except BaseException as error:  # the caller raises it
            failed.append(error)
            left.clear()

    count = min(len(texts), len(os.sched_getaffinity(0)))
    threads = [DaemonThread(assist, name="echobuf-compile") for _ in range(count - 1)]
    try:
        with contextlib.suppress(RuntimeError):  # no thread is left: fewer do the work
            for thread in threads:
                thread.start()
        work()
    finally:
        left.clear()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
    return [made[number] for number in range(len(texts))]
