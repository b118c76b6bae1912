"""Timing of the training step alone, on a resident batch."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from echobuf.analysis import timing
from echobuf.analysis.source import raised_at
from echobuf.analysis.timing import Phase, Timings
from echobuf.errors import DeviceError, OptionError, StepError, describe
from echobuf.trees import NAMESPACE

_WARM_UP = 0.4  # largest share of the phase for the warm-up
_SETTLED = 1.25  # slowest over quickest of the last calls, at which they are settled
_LAST = 3
_BLOCK = 1 / 40  # share of the phase for the calls between two waits for the device
_AT_ONCE_S = 1e-5  # a quicker step does not train


class Step:
    """The caller's training step, and its timing on one resident batch.

    Args:
        function: takes a batch, and trains on it.
        synchronize: the caller's, called without arguments; None: `wait_for_devices`.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        synchronize: Callable[[], Any] | None = None,
    ) -> None:
        if not callable(function):
            raise OptionError(
                f"`step` is {function!r:.60}; it must be a function that takes one "
                "batch and trains on it."
            )
        if synchronize is not None and not callable(synchronize):
            raise OptionError(
                f"`synchronize` is {synchronize!r}; it must be a function without "
                "arguments that returns when the device is done, or None."
            )
        self._function = function
        self._synchronize = synchronize
        self._is_checked = False
        self.changes_batch = False  # in place; known after the warm-up

    def run(self, batch: Any) -> Any:
        """Train on a batch, without waiting for the device."""
        try:
            result = self._function(batch)
        except (Exception, SystemExit) as error:
            raise StepError(
                f"`step` raised {describe(error)}{raised_at(error)}"
            ) from error
        if not self._is_checked:
            _check_trained(result)
            if self._synchronize is None:
                _check_devices(result)
            self._is_checked = True
        return result

    def wait(self, result: Any) -> None:
        """Wait for the device to finish the step that returned `result`."""
        try:
            if self._synchronize is None:
                wait_for_devices(result)
            else:
                self._synchronize()
        except Exception as error:
            raise StepError(
                "waiting for the device after `step` raised "
                f"{describe(error)}{raised_at(error)}"
            ) from error

    def measure(self, batch: Any, batch_size: int, phase: Phase) -> Timings:
        """Time repeated calls on one batch, in seconds per example.

        Leaves out the warm-up (compilation, caches). Waits for the device after several
        calls only, so that calls overlap on it as they do in training.
        """
        kept = _copied(batch)
        call_s = self._warm_up(batch, kept, phase)
        timings = Timings()
        calls = max(1, int(phase.allowed_s * _BLOCK / max(call_s, 1e-9)))
        if self.changes_batch:
            calls = 1
        while not phase.is_over(timings):
            seconds = self._timed(batch, kept, calls)
            timings.add(seconds, calls * batch_size, times=calls)
        mean_s = timings.estimate().mean * batch_size
        if mean_s < _AT_ONCE_S:
            raise StepError(
                f"`step` returned after {mean_s * 1e6:.2g} microseconds on average: "
                "too soon to have trained on a batch, and R = t_upstream / "
                "t_downstream would mean nothing; give the function that does one "
                "step of training."
            )
        return timings

    def _warm_up(self, batch: Any, kept: Any, phase: Phase) -> float:
        """Call the step until its times settle; return the quickest late call's."""
        times = [self._timed(batch, kept, 1)]
        self.changes_batch = not _are_equal(batch, kept)
        while True:
            times.append(self._timed(batch, kept, 1))
            last = times[-_LAST:]
            settled = len(times) > _LAST and max(last) <= _SETTLED * min(last)
            share = _WARM_UP if len(times) > _LAST else 1.0
            if settled or phase.elapsed_s >= share * phase.allowed_s:
                return min(last)

    def _timed(self, batch: Any, kept: Any, calls: int) -> float:
        if self.changes_batch:
            batch = copy.deepcopy(kept)
        begin = timing.now()
        for _ in range(calls):
            result = self.run(batch)
        self.wait(result)
        return timing.now() - begin


def _check_trained(result: Any) -> None:
    """Raise `StepError` for a result that has yet to be run."""
    if inspect.isgenerator(result) or inspect.iscoroutine(result):
        kind = type(result).__name__
        result.close()
        raise StepError(
            f"`step` returned a {kind}, which has yet to be run; give a plain function "
            "that trains on the batch."
        )
    if inspect.isfunction(result):
        raise StepError(
            "`step` returned a function and did not train; give that function itself."
        )


def _copied(batch: Any) -> Any:
    try:
        return copy.deepcopy(batch)
    except Exception:  # without a copy, a step that changes the batch is not seen
        return batch


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether structures are equal, and leaves' bytes where NumPy reads them."""
    mine, structure = optree.tree_flatten(one, namespace=NAMESPACE)
    others, other_structure = optree.tree_flatten(other, namespace=NAMESPACE)
    if structure != other_structure:
        return False
    pairs = zip(mine, others, strict=True)
    try:
        return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
    except Exception:  # on a device, donated, or no array
        return True


# ---- devices of the frameworks in use, none of which is imported here

_ON_CPU = (1, 3)  # DLPack's numbers of the host and of CUDA's pinned memory
_KNOWN = ("torch", "jax", "jaxlib", "cupy", "numpy")
_OF_TORCH = ("cpu", "cuda", "xpu", "mps", "meta")  # meta needs no waiting


def wait_for_devices(result: Any) -> None:
    """Wait for the devices of torch, JAX and CuPy, where they are imported."""
    for device in _torch_devices():
        device.synchronize()
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "live_arrays"):
        # The step's arrays; all live ones where it returns none.
        mine = [leaf for leaf in _leaves(result) if isinstance(leaf, jax.Array)]
        for array in mine or jax.live_arrays():
            if not array.is_deleted():
                array.block_until_ready()
    if _has_cupy():
        sys.modules["cupy"].cuda.Device().synchronize()


def _torch_devices() -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return []
    modules = [getattr(torch, name, None) for name in ("cuda", "xpu")]
    found = [each for each in modules if each is not None and each.is_initialized()]
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        found.append(torch.mps)
    return found


def _has_cupy() -> bool:
    cupy = sys.modules.get("cupy")
    try:
        return cupy is not None and cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no driver
        return False


def _check_devices(result: Any) -> None:
    """Raise `DeviceError` if the result is on a device that is not waited for."""
    for leaf in _leaves(result):
        if (device := _unknown_device(leaf)) is not None:
            raise DeviceError(
                f"`step` works on {device}, which echobuf cannot wait for, so its "
                "time is unknown; wait for the device inside `step` and return "
                "nothing of it, or give `echobuf.analyze` a `synchronize=`, a "
                "function that returns when the device is done."
            )


def _leaves(tree: Any) -> list[Any]:
    return optree.tree_leaves(tree, namespace=NAMESPACE)


def _unknown_device(leaf: Any) -> str | None:
    """Return the device of a leaf, in words, if echobuf cannot wait for it."""
    package = type(leaf).__module__.partition(".")[0]
    tensor: Any = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(leaf, tensor):
        kind = leaf.device.type
        return None if kind in _OF_TORCH else f"a {kind} device with torch"
    if package not in _KNOWN and _is_elsewhere(leaf):
        return f"a device with {package}"
    return None


def _is_elsewhere(leaf: Any) -> bool:
    ask = getattr(leaf, "__dlpack_device__", None)
    if ask is not None:
        try:
            return int(ask()[0]) not in _ON_CPU
        except Exception:
            return False
    return any(name in str(getattr(leaf, "device", "")) for name in ("GPU", "TPU"))
