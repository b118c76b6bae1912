"""Arrays of `echobuf.jax.EchoLoader`, and a computation with each."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np

from place import Place
from smoke import NOT_THERE, SETTINGS, main, same, upstream


def why_not(place: Place) -> str | None:
    """Return the reason why JAX cannot compute on the device; None if it can."""
    if importlib.util.find_spec("jax") is None:
        return "JAX is not there"
    import jax

    try:
        jax.devices("cpu" if place.simulated else "cuda")
    except RuntimeError as error:
        return f"JAX {jax.__version__} has no CUDA: {error}"
    return None


def smoke(place: Place) -> str:
    reason = why_not(place)
    if reason is not None:
        print(reason)
        raise SystemExit(NOT_THERE)
    import jax

    import echobuf.jax

    def batches(device: str) -> list[Any]:
        loader = echobuf.jax.EchoLoader(
            upstream(), batched=True, device=device, **SETTINGS
        )
        return [jax.tree.map(np.array, (batch, total(batch))) for batch in loader]

    @jax.jit
    def total(batch: Any) -> Any:
        return batch["image"].astype("int32").sum()

    got, expected = batches("cuda"), batches("cpu")
    if [number for _, number in got] != [number for _, number in expected]:
        raise AssertionError("sums of batches differ from those of the CPU")
    return same([batch for batch, _ in got], [batch for batch, _ in expected])


if __name__ == "__main__":
    sys.exit(main(__doc__, smoke))
