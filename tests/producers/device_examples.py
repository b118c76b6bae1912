"""Examples that lie on a simulated device, and what the driver did for their puts."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import optree

import echobuf
import fake_cuda
from echobuf import Field
from echobuf.testing import Simulation, SimulationError, simulated_cuda
from helpers import WAIT_S, Worker

DTYPES = [
    np.dtype(each)
    for each in (
        *("bool", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"),
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e5m2,
    )
]
SHAPES = [(), (1,), (3,), (7,), (16,), (5, 3), (2, 1, 4), (0,), (3, 0, 2), (300,)]
_API = Path(echobuf.get_include()) / "echobuf" / "cuda" / "api.hpp"
SYMBOLS = sorted(set(re.findall(r"\bcu[A-Z]\w+", _API.read_text())))
"""All calls of the driver that echobuf makes."""


def on_device(simulation: Simulation, tree: Any, device: int = 0) -> Any:
    """Copy the leaves of an example, or of a batch, to a device."""
    return optree.tree_map(lambda leaf: simulation.array(leaf, device), tree)


def some(tree: Any, chance: random.Random, move: Callable[[Any], Any]) -> Any:
    """Move some of the leaves, at least one."""
    leaves, structure = optree.tree_flatten(tree)
    chosen = {chance.randrange(len(leaves)), chance.randrange(len(leaves))}
    moved = [move(x) if i in chosen else x for i, x in enumerate(leaves)]
    return optree.tree_unflatten(structure, moved)


def laid_out(simulation: Simulation, leaf: np.ndarray, dice: random.Random) -> Any:
    """Copy a leaf to a device in any layout: dense, reversed, or part of another."""
    back = (slice(None, None, -1),) * leaf.ndim
    kind = dice.choice(["dense", "reversed", "transposed", "part"])
    if kind == "reversed":
        return simulation.array(leaf[back].copy())[back]
    if kind == "transposed":
        return simulation.array(leaf.T.copy()).T
    if kind == "part" and leaf.ndim:
        part = (slice(1, None, 2), *(slice(1, None) for _ in leaf.shape[1:]))
        shape = (2 * leaf.shape[0], *(extent + 1 for extent in leaf.shape[1:]))
        whole = np.zeros(shape, leaf.dtype)
        whole[part] = leaf
        return simulation.array(whole)[part]
    return simulation.array(leaf)


class Interface:
    """An array that says where it is by `__cuda_array_interface__` alone."""

    def __init__(self, array: Any, **changes: Any) -> None:
        self._array = array
        interface = {**array.__cuda_array_interface__, **changes}
        self.__cuda_array_interface__ = {
            name: value for name, value in interface.items() if value is not ...
        }


class Capsule:
    """An array that DLPack alone hands over, as JAX's."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.streams: list[int | None] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        self.streams.append(stream)
        return self._array.__dlpack__(stream=stream, **options)


# ---- random examples


def random_spec(dice: random.Random) -> Any:
    """Fields of any shape and dtype, in any structure."""

    def field() -> Field:
        return Field(dice.choice(SHAPES), dice.choice(DTYPES))

    return dice.choice(
        [
            field,
            lambda: {f"leaf {i}": field() for i in range(dice.randint(1, 5))},
            lambda: (field(), [field(), {"a": field()}], field()),
        ]
    )()


def values(field: Field, lead: tuple[int, ...], chance: np.random.Generator) -> Any:
    """Random numbers of a dtype; every bit of most dtypes."""
    shape = (*lead, *field.shape)
    if field.dtype == bool:
        return chance.integers(0, 2, shape).astype(bool)
    size = field.dtype.itemsize
    return chance.integers(0, 256, (*shape, size), np.uint8).view(field.dtype)[..., 0]


def random_batch(spec: Any, n: int, seed: int) -> Any:
    chance = np.random.default_rng(seed)
    return optree.tree_map(lambda field: values(field, (n,), chance), spec)


def rows(batch: Any, which: Any) -> Any:
    """Return a part of a batch; of an index, an example."""
    return optree.tree_map(lambda leaf: leaf[which, ...], batch)


# ---- what is drawn


def bits(batch: Any) -> list[Any]:
    """Return what a batch is, bit for bit: structure, shapes, dtypes and bytes."""
    leaves, structure = optree.tree_flatten(batch, namespace="echobuf")
    arrays = [np.asarray(leaf) for leaf in leaves]
    return [structure, *((a.shape, str(a.dtype), a.tobytes()) for a in arrays)]


def drawn(buffer: echobuf.EchoBuffer) -> list[Any]:
    """Return all batches that are left, bit for bit."""
    batches = []
    with contextlib.suppress(StopIteration):
        while True:
            batches.append(bits(buffer.next_batch(timeout=WAIT_S)))
    return batches


def served(
    spec: Any, options: dict[str, Any], put: Callable[[Any], None], device: str
) -> list[Any]:
    """Return the batches of a buffer that another thread puts to, and closes."""

    def feed() -> None:
        try:
            put(buffer)
        finally:
            buffer.close()

    with echobuf.EchoBuffer(spec, device=device, **options) as buffer:
        worker = Worker(feed)
        batches = drawn(buffer)
        worker.result()
    return batches


# ---- what the driver says


@contextlib.contextmanager
def counted() -> Iterator[dict[str, int]]:
    """The driver's calls inside, by symbol, once they have ended."""
    before = {symbol: fake_cuda.calls(symbol) for symbol in SYMBOLS}
    calls: dict[str, int] = {}
    yield calls
    for symbol in SYMBOLS:
        if made := fake_cuda.calls(symbol) - before[symbol]:
            calls[symbol] = made


def reports_of(body: Callable[[Simulation], Any], seed: int = 1) -> str:
    """Return the reports of the driver on what `body` does; its result is kept."""
    try:
        with simulated_cuda(seed) as simulation:
            _kept = body(simulation)
    except SimulationError as error:
        return "\n".join(error.reports)
    return ""
