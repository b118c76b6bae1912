"""`EchoLoader` for JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import jax

from echobuf.arguments import JAX, Factor, Unit
from echobuf.jax.adapter import JaxAdapter
from echobuf.jax.arrays import Placement, find_placement
from echobuf.loader.items import Adapter
from echobuf.loader.loader import EchoLoader as _EchoLoader
from echobuf.loader.signature import documented
from echobuf.options import takes_options
from echobuf.workers.settings import Context


@documented
class EchoLoader(_EchoLoader):
    """A loader that echoes the items of an iterable, in batches of `jax.Array`s.

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

    Raises:
        OptionError: an argument is out of range.
        DeviceError: JAX has no such device.

    Examples:
        >>> import jax
        >>> import echobuf.jax
        >>> upstream = [{"x": np.full(3, i, np.float32)} for i in range(64)]
        >>> loader = echobuf.jax.EchoLoader(upstream, batch_size=16, factor=2)
        >>> batch = next(iter(loader))
        >>> isinstance(batch["x"], jax.Array), batch["x"].shape
        (True, (16, 3))
    """

    @takes_options(JAX)
    def __init__(  # noqa: PLR0913 - what users may say of a loader
        self,
        upstream: Iterable[Any],
        *,
        batch_size: int | None = None,
        window: int | None = None,
        factor: Factor = "auto",
        max_factor: int = 8,
        unit: Unit = "example",
        batched: bool | None = None,
        length: int | None = None,
        overlap_epochs: bool = False,
        carry: bool = True,
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        in_order: bool = True,
        multiprocessing_context: Context = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        max_restarts: int = 3,
        device: str | jax.Device | None = "cpu",
        seed: int = 0,
        transform: Any = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
        payload_bytes: int | None = None,
        ragged: Any = None,
        pad_value: Any = 0,
        pad_to: int | None = None,
        max_rows: int | None = None,
        pack_to: int | None = None,
        overlong: Literal["error", "cut"] = "error",
        with_info: bool = False,
        sharding: Any = None,
    ) -> None: ...

    def _set_up(self, upstream: Iterable[Any], **arguments: Any) -> None:
        sharding = arguments.pop("sharding")
        self._place: Placement = find_placement(arguments["device"], sharding)
        self._sharded = sharding is not None
        arguments |= {"device": self._place.buffer_device}
        super()._set_up(upstream, **arguments)

    def _adapter(self) -> Adapter:
        return JaxAdapter(self._place, self._sharded)

    def _place_shown(self) -> str:
        return str(self._place.target or super()._place_shown())
