"""Candidates that put records which lie on the device: echobuf and its peers.

Each has a ring that is full, or nearly so, and is overwritten. A run puts some parts of
the records, one after the other; the parts, in the form that the candidate takes, are
made before. Candidates of a kind share the ring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ask import Settings
from echobuf import EchoBuffer, Field
from echobuf.cli.bench.records import check_batch, key_view
from place import Place
from window import records_of

CHECKED = 1024  # records, or those of one put


class Producer(ABC):
    """Puts of parts of the records.

    `settings` has "put", the records of a put; "puts", how many of a run at most; and
    perhaps "unit": "put" counts puts in place of records.
    """

    def __init__(self, place: Place, settings: Settings) -> None:
        self.place, self.settings = place, settings
        self.records = records_of(place, settings)
        self.size = int(settings["put"])
        self.puts = min(settings["puts"], settings["records"] // self.size)
        self.open()
        self.parts = [
            self.part(slice(start, start + self.size))
            for start in range(0, self.puts * self.size, self.size)
        ]

    @abstractmethod
    def open(self) -> None:
        """Import the library, and make the ring and the records on the device."""

    @abstractmethod
    def part(self, rows: slice) -> Any:
        """Return these records as the ring takes them."""

    @abstractmethod
    def put(self) -> None:
        """Put all parts."""

    @abstractmethod
    def empty(self) -> None:
        """Make the ring empty; untimed."""

    @abstractmethod
    def held(self, count: int) -> dict[str, Any]:
        """Return the `count` records that were put since, on the host; untimed."""

    def check(self) -> None:
        """Fail unless the ring holds each record of some puts once."""
        self.empty()
        parts, self.parts = self.parts, self.parts[: max(1, CHECKED // self.size)]
        self.put()
        count = len(self.parts) * self.size
        self.parts = parts
        held = self.held(count)
        check_batch(self.records, held, {**self.settings, "batch": count})
        if sorted(key_view(held[self.settings["key"]])) != list(range(count)):
            raise AssertionError("a record was not put, or more than once")

    def run(self) -> int:
        self.put()
        return self.puts * (1 if self.settings.get("unit") == "put" else self.size)

    def facts(self) -> dict[str, Any]:
        if self.settings.get("unit") == "put":
            return {}
        return {"bytes_per_unit": sum(leaf[0].nbytes for leaf in self.records.values())}


def tensors_of(place: Place, settings: Settings) -> dict[str, Any]:
    """Return the records of a question as tensors on the device, shared."""
    records = records_of(place, settings)
    return place.once(
        f"tensors {settings['fields']} {settings['records']}",
        lambda: {name: place.tensor(array) for name, array in records.items()},
    )


# ---- echobuf: room is made by draws


class Echobuf(Producer):
    """`put_batch` of tensors, or `put` of one record; a window that is drawn once.

    Draws make room, in large batches and outside the time.
    """

    def open(self) -> None:
        settings = self.settings
        key = f"ring {settings['fields']} {settings['records']} {settings['batch']}"
        self.sources = self.leaves()
        self.ring = self.place.once(key, self.make)
        self.buffer = self.ring.buffer
        self._put = self.buffer.put if self.size == 1 else self.buffer.put_batch

    def leaves(self) -> dict[str, Any]:
        """Return the records as they are put."""
        return tensors_of(self.place, self.settings)

    def make(self) -> EchobufRing:
        """Return the ring that candidates of a kind share."""
        return EchobufRing(self.place, self.records, self.settings, factor=1)

    def part(self, rows: slice) -> Any:
        where: Any = rows.start if self.size == 1 else rows
        return {name: leaf[where] for name, leaf in self.sources.items()}

    def begin(self) -> None:
        """Draw until less than a window is resident, so that a window has room."""
        self.ring.drain()

    def put(self) -> None:
        put = self._put
        for part in self.parts:
            put(part)

    def empty(self) -> None:
        self.buffer.close()
        for _ in self.buffer:
            pass
        self.buffer.reset()

    def held(self, count: int) -> dict[str, Any]:
        self.buffer.close()
        drawn = [
            {name: self.place.to_host(leaf) for name, leaf in batch.items()}
            for batch in self.buffer
        ]
        self.buffer.reset()
        return {name: np.concatenate([b[name] for b in drawn]) for name in self.records}


class EchobufRing:
    """A buffer, and arrays that what makes room is drawn into."""

    def __init__(
        self, place: Place, records: dict[str, Any], settings: Settings, factor: int
    ) -> None:
        self._place, batch = place, settings["batch"]
        self.buffer = EchoBuffer(
            {n: Field(a.shape[1:], a.dtype) for n, a in records.items()},
            batch_size=batch,
            window=settings["records"],
            factor=factor,
            device="cuda",
        )
        self._out = {
            name: place.empty((batch, *array.shape[1:]), array.dtype)
            for name, array in records.items()
        }

    def drain(self) -> None:
        """Draw until no batch is ready."""
        while self.buffer.ready():
            self.buffer.next_batch(self._out)
        self._place.sync()

    def close(self) -> None:
        self.buffer.__exit__(None, None, None)


class EchobufCupy(Echobuf):
    """The same, of CuPy's arrays."""

    def leaves(self) -> dict[str, Any]:
        return {
            name: self.place.cupy.from_dlpack(leaf)
            for name, leaf in super().leaves().items()
        }


class ByHost(Echobuf):
    """Each part is copied to the host, and put from there."""

    def put(self) -> None:
        for part in self.parts:
            self._put({name: leaf.cpu().numpy() for name, leaf in part.items()})


# ---- others


class Copy(Producer):
    """A copy of the same bytes on the device, to places that lie side by side."""

    def open(self) -> None:
        self.sources, self.ring = self.place.once(
            f"copied {self.settings['fields']} {self.settings['records']}",
            lambda: tuple(
                {n: self.place.resident(a) for n, a in self.records.items()}
                for _ in range(2)
            ),
        )

    def part(self, rows: slice) -> Any:
        return [(self.ring[n][rows], self.sources[n][rows]) for n in self.records]

    def put(self) -> None:
        copy = self.place.copy
        for part in self.parts:
            for target, source in part:
                copy(target, source)

    def empty(self) -> None:
        for leaf in self.ring.values():
            leaf[...] = 0

    def held(self, count: int) -> dict[str, Any]:
        return {n: self.place.to_host(leaf[:count]) for n, leaf in self.ring.items()}


class Torchrl(Producer):
    """`extend` of a `ReplayBuffer` over a `LazyTensorStorage`; `add` of one record.

    Of one record `add` takes less than half of the time of `extend`.
    """

    def open(self) -> None:
        self.sources = tensors_of(self.place, self.settings)
        self.device = next(iter(self.sources.values())).device
        key = f"TorchRL {self.settings['fields']} {self.settings['records']}"
        self.buffer = self.place.once(key, self._make)
        self._put = self.buffer.add if self.size == 1 else self.buffer.extend

    def _make(self) -> Any:
        from torchrl.data import LazyTensorStorage, ReplayBuffer

        storage = LazyTensorStorage(self.settings["records"], device=self.device)
        return ReplayBuffer(storage=storage, batch_size=self.settings["batch"])

    def part(self, rows: slice) -> Any:
        from tensordict import TensorDict

        many = TensorDict(
            {name: leaf[rows] for name, leaf in self.sources.items()},
            batch_size=[self.size],
            device=self.device,
        )
        return many[0] if self.size == 1 else many

    def put(self) -> None:
        put = self._put
        for part in self.parts:
            put(part)

    def empty(self) -> None:
        self.buffer.empty()

    def held(self, count: int) -> dict[str, Any]:
        held = self.buffer.storage[:count]
        return {name: self.place.to_host(held[name]) for name in self.records}


class Flashbax(Producer):
    """`add` of an item buffer, jitted, with the state donated."""

    def open(self) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        if not self.place.simulated and jax.default_backend() != "gpu":
            raise ImportError(f"jax runs on {jax.default_backend()} here")
        self.jax = jax
        key = f"{self.settings['fields']} {self.settings['records']}"
        self.sources = self.place.once(
            f"jax {key}",
            lambda: {n: jax.numpy.asarray(a) for n, a in self.records.items()},
        )
        self.ring = self.place.once(f"flashbax {key}", self._make)

    def _make(self) -> FlashbaxRing:
        return FlashbaxRing(self.jax, self.records, self.settings)

    def part(self, rows: slice) -> Any:
        return {name: leaf[rows] for name, leaf in self.sources.items()}

    def begin(self) -> None:
        self.jax.block_until_ready(self.ring.state)

    def put(self) -> None:
        add, state = self.ring.add, self.ring.state
        for part in self.parts:
            state = add(state, part)
        self.ring.state = state
        if self.settings.get("unit") != "put":
            self.jax.block_until_ready(state)

    def empty(self) -> None:
        self.ring.empty()

    def held(self, count: int) -> dict[str, Any]:
        experience = self.ring.state.experience
        return {name: np.asarray(experience[name])[0, :count] for name in self.records}


class FlashbaxRing:
    """The functions and the state of an item buffer."""

    def __init__(self, jax: Any, records: dict[str, Any], settings: Settings) -> None:
        import flashbax

        buffer = flashbax.make_item_buffer(
            max_length=settings["records"],
            min_length=1,
            sample_batch_size=settings["batch"],
            add_batches=True,
        )
        self._init, self._first = buffer.init, {n: a[0] for n, a in records.items()}
        self.add = jax.jit(buffer.add, donate_argnums=0)

        def draw(state: Any, key: Any) -> Any:
            key, now = jax.random.split(key)
            return key, buffer.sample(state, now).experience

        self.sample = jax.jit(draw)
        self.key = jax.random.PRNGKey(0)
        self.empty()

    def empty(self) -> None:
        self.state = None  # before another is allocated
        self.state = self._init(self._first)
