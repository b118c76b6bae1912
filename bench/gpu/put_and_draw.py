"""The same candidates in a loop that puts and samples: four batches for each put."""

from __future__ import annotations

from producers import Echobuf, EchobufRing, Flashbax, Producer, Torchrl

FACTOR = 4


class Loop(Producer):
    """Puts, each with `FACTOR` batches of as many records."""

    def run(self) -> int:
        self.put()
        return self.puts


class EchobufLoop(Loop, Echobuf):
    """Each record is drawn `FACTOR` times; batches are the caller's."""

    def make(self) -> EchobufRing:
        ring = EchobufRing(self.place, self.records, self.settings, FACTOR)
        segment = self.settings["records"] // FACTOR
        part = {name: leaf[:segment] for name, leaf in self.sources.items()}
        for _ in range(FACTOR):
            ring.buffer.put_batch(part)
            ring.drain()
        # From here on a pass is ready whenever another segment has been put.
        ring.buffer.put_batch(part)
        return ring

    def check(self) -> None:
        """Check nothing: the puts are those of `Echobuf`."""

    def begin(self) -> None:
        """Draw nothing: draws are in the time."""

    def put(self) -> None:
        put, next_batch = self._put, self.buffer.next_batch
        for part in self.parts:
            put(part)
            for _ in range(FACTOR):
                next_batch(timeout=60)


class TorchrlLoop(Loop, Torchrl):
    """Samples with replacement."""

    def put(self) -> None:
        put, sample = self._put, self.buffer.sample
        for part in self.parts:
            put(part)
            for _ in range(FACTOR):
                sample()


class FlashbaxLoop(Loop, Flashbax):
    """Samples with replacement."""

    def put(self) -> None:
        ring = self.ring
        add, sample, state, key = ring.add, ring.sample, ring.state, ring.key
        for part in self.parts:
            state = add(state, part)
            for _ in range(FACTOR):
                key, batch = sample(state, key)
        ring.state, ring.key = state, key
        self.jax.block_until_ready(batch)
