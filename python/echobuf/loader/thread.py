"""The one thread that calls a loader's upstream, in the context of its caller."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from echobuf import _core
from echobuf.errors import ClosedError, ForkError
from echobuf.loader.caller_context import CallerContext
from echobuf.progress import Wait
from echobuf.resources import DaemonThread, Signal

_Result = TypeVar("_Result")
_END = object()
_Tasks = queue.SimpleQueue["Task | None"]


def closed_error() -> ClosedError:
    """Return the error for any use of a loader after `close()`."""
    return ClosedError("this loader was closed; make another one around the same data.")


def wait_for_end(is_alive: Callable[[], bool], join: Callable[[float], Any]) -> None:
    """Wait until upstream's current call has returned; say so if that lasts."""
    wait = Wait("end")
    while is_alive():
        join(0.1)
        wait.tick(lambda: "upstream's current `next` to return, to end it")


class Task:
    """A call of a function on the thread of an upstream.

    Args:
        function: that is called.
        args: its arguments, which go when it returns.
        context: of the epoch; None where none is in force, and the last one ends.
        given_up: set when nobody waits for upstream any more.
        is_last: True if the epoch, and so its context, ends with the call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        context: CallerContext | None,
        given_up: Signal,
        *,
        is_last: bool,
    ) -> None:
        self.context = context
        self.is_last = is_last
        self.has_begun = False
        self._call: tuple[Callable[..., Any], tuple[Any, ...]] | None = function, args
        self._given_up = given_up
        self._value: Any = None
        self._error: BaseException | None = None
        self._returned = Signal()
        self._process = os.getpid()
        self._ident: int | None = None

    def run(self, entered: CallerContext | None) -> None:
        """Call the function, in the context, which follows the one that was entered."""
        self._ident = threading.get_ident()
        self.has_begun = True
        try:
            if self.context is not entered:
                if entered is not None:
                    entered.leave()
                if self.context is not None:
                    self.context.enter()
            self._value = self._run()
        except BaseException as error:
            self._error = error
        if os.getpid() != self._process:
            _exit_child(self._error)
        if self.is_last and self.context is not None:
            self.context.leave()
            self.context = None
        if self.is_last and self._error is not None:  # nobody asks for the result
            _report(self._error)
            self.forget()
        self._returned.set()

    def _run(self) -> Any:
        assert self._call is not None
        (function, args), self._call = self._call, None
        if self.context is None:
            return function(*args)
        return self.context.run(function, *args)

    def is_current(self) -> bool:
        """Return True on the thread that runs it."""
        return self._ident == threading.get_ident()

    def is_alive(self) -> bool:
        """Return True if it was begun, here, and is waited for."""
        is_here = self.has_begun and self._process == os.getpid()
        is_over = self._returned.is_set() or self._given_up.is_set()
        return is_here and not is_over

    def join(self, timeout: float | None = None) -> None:
        """Wait for the function to return; Ctrl-C gets through."""
        if self.is_alive():
            self._returned.wait(timeout)

    def result(self) -> Any:
        """Return what the function returned, or raise what it raised; once."""
        if not self._returned.is_set():
            raise closed_error()
        value, error = self._value, self._error
        self.forget()
        if error is None:
            return value
        try:
            raise error
        finally:
            del error  # whose frames hold this one

    def forget(self) -> None:
        """Let go of what the function returned."""
        self._value = self._error = None


class UpstreamThread:
    """The thread that calls an upstream; it ends with this object, or with `close`.

    It is started with the first epoch, holds nothing between calls, and is a daemon.

    Args:
        device: that upstream's items are put into a buffer on.
    """

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self._tasks: _Tasks = queue.SimpleQueue()
        self._thread: DaemonThread | None = None
        self._context: CallerContext | None = None  # of the epoch begun last
        self._given_up = Signal()
        self._is_closed = False
        self._changing = threading.RLock()

    def begin(self, function: Callable[..., _Result], *args: Any) -> _Result:
        """Call a function that begins an epoch; keep the caller's context for it.

        Ctrl-C interrupts the wait for it. The call goes on, and what it returns is
        dropped on the thread.

        Raises:
            RuntimeError: the system starts no more threads.
            ClosedError: the thread was ended, or is.
        """
        self._context = CallerContext(self._device)
        return self.call(function, *args)

    def call(self, function: Callable[..., _Result], *args: Any) -> _Result:
        """Call a function in the context of the epoch begun last; else as `begin`."""
        if self._thread is threading.current_thread():
            return function(*args)  # upstream uses the loader that it feeds
        task = self._new(function, args, self._context)
        try:
            self.submit(task)
            task.join()
            result: _Result = task.result()
        except BaseException:
            self.drop(task.forget)
            raise
        return result

    def iterate(self, items: Iterator[_Result]) -> Iterator[_Result]:
        """Yield what an iterator yields, whose `next` is called on the thread."""
        while (item := self.call(next, items, _END)) is not _END:
            yield item

    def last(self, function: Callable[..., None], *args: Any) -> Task:
        """Return a call that ends the epoch begun last, for `submit`."""
        context, self._context = self._context, None
        return self._new(function, args, context, is_last=True)

    def drop(self, forget: Callable[[], None]) -> None:
        """Let go of a part of an epoch that is given up, on the thread."""
        self._tasks.put(self._new(forget, (), None))

    def _new(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        context: CallerContext | None,
        *,
        is_last: bool = False,
    ) -> Task:
        return Task(function, args, context, self._given_up, is_last=is_last)

    def submit(self, task: Task) -> None:
        """Begin a call; start the thread if it does not run, here."""
        with self._changing:
            if self._is_closed:
                raise closed_error()
            if self._thread is None or not self._thread.is_alive():
                # The queue, too: after a fork, or Ctrl-C, a thread may wait at it.
                self._tasks.put(None)
                tasks = self._tasks = queue.SimpleQueue()
                self._thread = DaemonThread(_serve, (tasks,), name="echobuf-feeder")
                self._thread.start()
            self._tasks.put(task)
            task.has_begun = True

    def _end(self) -> None:
        with self._changing:
            self._is_closed = True
            self._tasks.put(None)

    def leave(self, seconds: float) -> None:
        """End the thread; from then on nobody waits for it longer than that."""
        self._end()
        if self._thread is not None:
            self._thread.join(seconds)
        self._given_up.set()

    def close(self) -> None:
        """End the thread, and wait until upstream's current call returns."""
        self._end()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            wait_for_end(
                lambda: thread.is_alive() and not self._given_up.is_set(), thread.join
            )

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self._tasks.put(None)


def _serve(tasks: _Tasks) -> None:
    """Run the tasks of a queue, up to the first None."""
    _core.this_thread_runs_upstream()
    entered: CallerContext | None = None
    while (task := tasks.get()) is not None:
        task.run(entered)
        entered = None if task.is_last else task.context
        del task  # and with it what it returned, if nobody waits for that


def _report(error: BaseException) -> None:
    """Report an error as Python does where it ends a thread."""
    args = type(error), error, error.__traceback__, threading.current_thread()
    threading.excepthook(threading.ExceptHookArgs(args))


def _exit_child(error: BaseException | None) -> NoReturn:
    """End a process that upstream has forked, as the end of its program would.

    The thread that waits for upstream is not there.
    """
    code = 0
    if isinstance(error, SystemExit):
        if isinstance(error.code, int):
            code = error.code
        elif error.code is not None:
            print(error.code, file=sys.stderr)
            code = 1
    elif error is not None and not isinstance(error, ForkError):
        traceback.print_exception(error)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)
