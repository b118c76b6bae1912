"""The context of the thread that begins an epoch, for the thread that runs upstream."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

_Result = TypeVar("_Result")
_Setting = Callable[[], AbstractContextManager[Any]]

_AUTOCAST = ("cpu", "cuda", "xpu", "mps", "hpu", "xla", "mtia", "maia")
_JAX = (
    "enable_x64",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "disable_jit",
    "debug_nans",
    "debug_infs",
    "log_compiles",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "threefry_partitionable",
)


class CallerContext:
    """The settings of the calling thread that Python code may depend on.

    They are its context variables, and what NumPy, torch, JAX and, with a CUDA device,
    CuPy keep for each thread; none of these is imported for it.

    Args:
        device: "cpu", "cuda" or "cuda:N".
    """

    def __init__(self, device: str) -> None:
        self._variables = contextvars.copy_context()
        if (decimal := sys.modules.get("decimal")) is not None:
            # The variable has an object whose settings change in place.
            self._variables.run(_copy_decimal, decimal)
        self._settings = [*_settings()]
        if device != "cpu":
            from echobuf.cuda.device import caller_stream  # imported where it is used

            self._settings += caller_stream(device)
        self._entered = contextlib.ExitStack()

    def enter(self) -> None:
        """Put the settings in force on the calling thread."""
        for setting in self._settings:
            self._entered.enter_context(setting())

    def leave(self) -> None:
        """Undo `enter`, on the same thread."""
        self._entered.close()

    def run(self, function: Callable[..., _Result], *args: Any) -> _Result:
        """Call a function with the context variables; it may change them."""
        return self._variables.run(function, *args)


def _copy_decimal(decimal: Any) -> None:
    decimal.setcontext(decimal.getcontext().copy())


def _settings() -> Iterator[_Setting]:
    """Yield a setting after the other, to be entered on another thread."""
    if np.lib.NumpyVersion(np.__version__) < "2.0.0":  # later: a context variable
        yield functools.partial(np.errstate, **np.geterr())
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if hasattr(torch, "is_grad_enabled"):  # else another thread imports it right now
        yield from _settings_of_torch(torch)
    if hasattr(jax, "config"):
        yield from _settings_of_jax(jax)


def _settings_of_torch(torch: Any) -> Iterator[_Setting]:
    if torch.cuda.is_initialized():
        yield functools.partial(torch.cuda.device, torch.cuda.current_device())
        stream = torch.cuda.current_stream()
        if stream != torch.cuda.default_stream():
            yield functools.partial(torch.cuda.stream, stream)
    device = torch.get_default_device()
    yield lambda: _default_device(torch, device)
    if torch.is_inference_mode_enabled():
        yield torch.inference_mode
    yield functools.partial(torch.set_grad_enabled, torch.is_grad_enabled())
    caches = torch.is_autocast_cache_enabled()
    for kind, dtype in _autocast_of(torch):
        yield functools.partial(torch.autocast, kind, dtype=dtype, cache_enabled=caches)


def _default_device(torch: Any, device: Any) -> AbstractContextManager[Any]:
    if torch.get_default_device() == device:
        return contextlib.nullcontext()  # a device that is entered slows calls down
    return device  # type: ignore[no-any-return]


def _autocast_of(torch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the kinds of devices for which autocast is on, each with its dtype."""
    if not hasattr(torch, "get_autocast_dtype"):  # before torch 2.4
        if torch.is_autocast_enabled():
            yield "cuda", torch.get_autocast_gpu_dtype()
        if torch.is_autocast_cpu_enabled():
            yield "cpu", torch.get_autocast_cpu_dtype()
        return
    own = torch._C._get_privateuse1_backend_name()  # noqa: SLF001 - no public way
    for kind in (*_AUTOCAST, own):
        with contextlib.suppress(RuntimeError):  # a kind that this torch does not know
            if torch.is_autocast_enabled(kind):
                yield kind, torch.get_autocast_dtype(kind)


def _settings_of_jax(jax: Any) -> Iterator[_Setting]:
    for name in _JAX:
        setter = getattr(jax, name, None)
        if setter is not None and hasattr(jax.config, f"jax_{name}"):
            value = getattr(jax.config, f"jax_{name}")
            yield functools.partial(_jax_setting, jax, name, setter, value)


def _jax_setting(
    jax: Any, name: str, setter: Callable[[Any], Any], value: Any
) -> AbstractContextManager[Any]:
    if getattr(jax.config, f"jax_{name}") == value:
        return contextlib.nullcontext()
    return setter(value)  # type: ignore[no-any-return]
