"""flashbax: an item buffer of jitted functions on JAX arrays, on the CPU."""

from __future__ import annotations

from typing import Any

from echobuf.cli.bench.records import Records
from echobuf.cli.bench.sampling import Sampling
from peers.replay import REPLAY, ReplayEchoing

GUARANTEES = (
    *REPLAY,
    ("batch", "copied; read-only JAX arrays"),
    ("timed", "the copy and the random indices"),
)


class Flashbax:
    """`make_item_buffer`, with the state donated to `add`."""

    packages = ("flashbax", "jax")
    guarantees = GUARANTEES

    def open(self, settings: dict[str, Any], capacity: int) -> None:
        import flashbax
        import jax
        import numpy as np

        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", "cpu")
        self.jax = jax
        buffer = flashbax.make_item_buffer(
            max_length=capacity,
            min_length=settings["batch"],
            sample_batch_size=settings["batch"],
            add_batches=True,
        )
        example = {
            name: np.zeros(shape, dtype)
            for name, (shape, dtype) in settings["fields"].items()
        }
        self.state = buffer.init(example)
        self.key = jax.random.PRNGKey(0)
        self.jit_add = jax.jit(buffer.add, donate_argnums=0)

        def draw(state: Any, key: Any) -> Any:
            key, now = jax.random.split(key)
            return key, buffer.sample(state, now).experience

        self.jit_sample = jax.jit(draw)

    def add(self, records: Records) -> None:
        self.state = self.jit_add(self.state, records)

    def sample(self) -> Any:
        self.key, batch = self.jit_sample(self.state, self.key)
        return self.jax.block_until_ready(batch)


class Sample(Flashbax, Sampling):
    """Samples of records that stay."""


class Echo(Flashbax, ReplayEchoing):
    """Echoing by sampling."""
