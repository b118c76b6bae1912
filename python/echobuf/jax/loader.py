"""`EchoLoader` for JAX."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from echobuf.jax.adapter import JaxAdapter
from echobuf.jax.places import Place, find_place
from echobuf.loader.adapter import Adapter
from echobuf.loader.loader import EchoLoader as _EchoLoader


class EchoLoader(_EchoLoader):
    """Echoes what an iterable yields, in batches of `jax.Array`s.

    Items are pytrees as JAX sees them: what is registered with it (dataclasses, modules
    of Equinox and Flax) comes back in batches. Numbers of 64 bits become 32 where JAX
    has these disabled, as everywhere in JAX.

    On the CPU the arrays of a batch share the memory that it was drawn into, which is
    used again once JAX has let go of all of them; JAX's computations may still run
    when they are dropped, deleted or donated. On a CUDA device they are copies in
    JAX's own memory, ordered after the draw; nothing waits for them.

    Args:
        upstream: an iterable of examples or of batches, or a
            `torch.utils.data.DataLoader`.
        device: "cpu", "cuda", "cuda:N", or a `jax.Device` of this process.
        sharding: makes global arrays of the batches of all processes
            (`jax.make_array_from_process_local_data`): a `jax.sharding.Sharding`, or a
            pytree of them that is a prefix of a batch. Each process has a loader of its
            own, over its share of the examples; `batch_size` is what one process
            brings.
        arguments: those of `echobuf.EchoLoader`.

    Raises:
        OptionError: an argument is out of range.
        DeviceError: JAX has no such device.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        device: Any = "cpu",
        sharding: Any = None,
        **arguments: Any,
    ) -> None:
        self._place: Place = find_place(device, sharding)
        self._sharded = sharding is not None
        super().__init__(upstream, device=self._place.buffer_device, **arguments)

    def _adapter(self) -> Adapter:
        return JaxAdapter(self._place, self._sharded)
