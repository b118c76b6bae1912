"""Errors and warnings of echobuf, and the text of any exception or value in them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any


class EchobufError(Exception):
    """The base of all errors of echobuf.

    Examples:
        >>> try:
        ...     EchoBuffer(Field(2, np.uint8), batch_size=0, window=4)
        ... except echobuf.EchobufError as error:
        ...     print(f"{type(error).__name__}: {error}")
        OptionError: `batch_size` is 0; it must be an int >= 1.
    """


class SpecError(EchobufError, ValueError):
    """A leaf has another structure, shape or dtype than the spec.

    Examples:
        >>> buffer = EchoBuffer({"x": Field(2, np.float32)}, batch_size=1, window=2)
        >>> buffer.put({"x": np.zeros(3, np.float32)})
        Traceback (most recent call last):
            ...
        echobuf.errors.SpecError: `example['x']` has shape [3]; the spec says [2].
        Examples have one shape: resize images, pad sequences with `np.pad(x, (0,
        length - len(x)))`. Or let the length vary: `payload_bytes=` and
        `ragged='packed'` of a loader, `Field((None, *x.shape[1:]), x.dtype)` in the
        spec of a buffer.
    """


class OptionError(EchobufError, ValueError):
    """An argument is out of range.

    Examples:
        >>> EchoBuffer(Field(2, np.uint8), batch_size=8, window=4)
        Traceback (most recent call last):
            ...
        echobuf.errors.OptionError: `window` is 4; it must be at least `batch_size`,
        which is 8. Make the window larger.
    """


class ClosedError(EchobufError, RuntimeError):
    """A put after `close()`, or any call after leaving the context.

    Attributes:
        accepted: for `put_batch`, how many examples were put before the buffer closed.

    Examples:
        >>> buffer = EchoBuffer(Field((), np.int64), batch_size=1, window=2)
        >>> buffer.close()
        >>> buffer.put(7)
        Traceback (most recent call last):
            ...
        echobuf.errors.ClosedError: the buffer is closed; 0 examples were put.
        `reset` begins another epoch.
    """

    accepted: int = 0


class UpstreamError(EchobufError, RuntimeError):
    """Upstream raised; the original is the `__cause__`.

    Examples:
        >>> def upstream():
        ...     yield 1
        ...     raise OSError("the disk is gone")
        >>> list(EchoLoader(upstream(), batch_size=1))
        Traceback (most recent call last):
            ...
        echobuf.errors.UpstreamError: upstream failed: OSError('the disk is gone')
        >>> buffer = EchoBuffer(Field(2, np.uint8), batch_size=1, window=2)
        >>> buffer.fail(OSError("the disk is gone"))  # in a loop of your own
        >>> buffer.next_batch()
        Traceback (most recent call last):
            ...
        echobuf.errors.UpstreamError: upstream failed: OSError('the disk is gone')
    """


class StateError(EchobufError, ValueError):
    """A state that does not fit these arguments, or is damaged.

    Examples:
        >>> loader = EchoLoader(range(8), batch_size=2, factor=2)
        >>> EchoLoader(range(8), batch_size=4, factor=2).load_state_dict(
        ...     loader.state_dict()
        ... )
        Traceback (most recent call last):
            ...
        echobuf.errors.StateError: `state` was taken with `batch_size` 2, but here
        it is 4; make the buffer with the same arguments.
    """


class ItemError(UpstreamError, SpecError):
    """Upstream yielded something that does not fit its first item.

    Examples:
        >>> upstream = [np.zeros(2), np.zeros(3)]
        >>> list(EchoLoader(upstream, batch_size=2, factor=1))
        Traceback (most recent call last):
            ...
        echobuf.errors.ItemError: item 1 of upstream does not fit the first one:
        `example` has shape [3]; the spec says [2]. Examples have one shape: resize
        images, pad sequences with `np.pad(x, (0, length - len(x)))`. Or let the
        length vary: `payload_bytes=` and `ragged='packed'` of a loader,
        `Field((None, *x.shape[1:]), x.dtype)` in the spec of a buffer. If upstream
        yields batches: batched=True.
    """


class UpstreamStateError(UpstreamError, StateError):
    """Upstream does not take the state that it is said to have been in.

    Examples:
        >>> class Upstream:
        ...     read = 0
        ...     def __iter__(self):
        ...         for self.read in range(1, 101):
        ...             yield self.read
        ...     def state_dict(self):
        ...         return {"read": self.read}
        ...     def load_state_dict(self, state):
        ...         raise KeyError("shard")
        >>> loader, resumed = (
        ...     EchoLoader(Upstream(), batch_size=2, window=4, factor=1)
        ...     for _ in range(2)
        ... )
        >>> batches = iter(loader)
        >>> read = [next(batches) for _ in range(20)]
        >>> resumed.load_state_dict(loader.state_dict())
        >>> next(iter(resumed))
        Traceback (most recent call last):
            ...
        echobuf.errors.UpstreamStateError: `upstream`, a Upstream, does not go on
        from the state that it had when `state` was taken: KeyError('shard'). Make
        it as it was (a DataLoader with as many workers), or leave
        `state["upstream"]` out: it is then read from its start.
    """


class StepError(EchobufError, RuntimeError):
    """The training step raised, or does nothing that can be timed.

    Examples:
        >>> def step(batch):
        ...     raise ValueError("labels are missing")
        >>> try:
        ...     echobuf.analyze([np.zeros(2)] * 8, step, batch_size=2, seconds=0.1)
        ... except echobuf.StepError as error:
        ...     print(repr(error.__cause__))
        ValueError('labels are missing')
    """


class CapacityError(EchobufError, MemoryError):
    """The buffer would not fit `max_bytes` or the device.

    Examples:
        >>> EchoBuffer(Field(1024, np.uint8), batch_size=1, window=64, max_bytes=10_000)
        Traceback (most recent call last):
            ...
        echobuf.errors.CapacityError: the buffer needs 98,688 bytes, but `max_bytes`
        allows 10,000. Make `window`, which is 64, smaller, or raise `max_bytes`.
    """


class DeviceError(EchobufError, RuntimeError):
    """No such device, no driver, no CuPy, or a device that was lost.

    Attributes:
        accepted: for `put_batch`, how many examples were put before that.

    Examples:
        >>> with echobuf.testing.simulated_cuda():  # two devices
        ...     EchoBuffer(Field(2, np.uint8), batch_size=1, window=2, device="cuda:7")
        Traceback (most recent call last):
            ...
        echobuf.errors.DeviceError: `device` is 'cuda:7': there is no device 7; this
        machine has 2. There is no such device; see `nvidia-smi -L` and
        CUDA_VISIBLE_DEVICES.
    """

    accepted: int = 0


class MissingPackageError(EchobufError, ImportError):
    """A package is not installed that only what was asked for needs.

    Examples:
        >>> from unittest.mock import patch
        >>> with patch.dict("sys.modules", wandb=None):  # as where it is not installed
        ...     echobuf.metrics.WandB()
        Traceback (most recent call last):
            ...
        echobuf.errors.MissingPackageError: WandB() needs the package `wandb`, and
        import of wandb halted; None in sys.modules: pip install wandb (or
        'data-echoing[metrics]').
    """


class ForkError(EchobufError, RuntimeError):
    """A buffer was used in a forked child.

    Examples:
        >>> import multiprocessing
        >>> buffer = EchoBuffer(Field((), np.int64), batch_size=1, window=2)
        >>> def child():
        ...     try:
        ...         buffer.put(7)
        ...     except echobuf.ForkError:
        ...         raise SystemExit(3)
        >>> process = multiprocessing.get_context("fork").Process(target=child)
        >>> process.start()
        >>> process.join()
        >>> process.exitcode
        3
    """


def describe(error: BaseException) -> str:
    """Return `repr(error)`, or as much of it as can be had.

    Lone surrogates are escaped, so the text can be encoded as UTF-8. An exception whose
    `repr` raises becomes its class name and message, or its class name alone. Only
    `KeyboardInterrupt` is passed on.
    """
    text = _call(repr, error)
    if text is not None:
        return text
    name, said = _name(error), _call(str, error)
    return f"{name}: {said}" if said else name


def message(error: BaseException) -> str:
    """Return `str(error)`, and where that is empty or raises, `describe(error)`.

    Lone surrogates are escaped, as in `describe`.
    """
    return _call(str, error) or describe(error)


def titled(error: BaseException) -> str:
    """Return the class name and `message(error)`, as the last line of a traceback."""
    name, said = _name(error), message(error)
    return said if said.startswith(name) else f"{name}: {said}"


def escape(text: str) -> str:
    """Return `text` with its lone surrogates escaped, as a plain string."""
    # Of `str`, whatever a subclass makes of these.
    return str.encode(text, "utf-8", "backslashreplace").decode()


def _call(convert: Callable[[object], str], error: BaseException) -> str | None:
    try:
        return escape(convert(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a `repr` of users may raise anything
        return None


def _name(error: BaseException) -> str:
    return _call(lambda each: type(each).__name__, error) or "an exception"


def show(value: Any) -> str:
    """Return the `repr` of any value for a message: shortened, and without failing."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__} without a `repr`"
    return shorten(text)


def shorten(text: str, most: int = 300) -> str:
    """Return the beginning of a text, all of it if it is short."""
    return text if len(text) <= most else text[:most] + "..."


def warn_caller(text: str) -> None:
    """Warn with a `UserWarning` that names the user's line that has led here.

    A fixed `stacklevel` would name a line of echobuf or of the import system, for
    callers come by different ways.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect` takes 10 ms to import
    while frame.f_back is not None and _is_passed_over(frame):
        frame = frame.f_back
    warnings.warn_explicit(
        text,
        UserWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_passed_over(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("echobuf", "importlib")
