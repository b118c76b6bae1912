"""Who reads the data of a loader: its own thread, worker processes, or a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from echobuf.buffer import EchoBuffer
from echobuf.loader import source
from echobuf.loader.adapter import Adapter
from echobuf.loader.attaching import as_attached, check_attached
from echobuf.loader.order import Order, Sampled, is_map_style
from echobuf.loader.ray_data import as_batches

if TYPE_CHECKING:
    from echobuf.serve.supply import Supply
    from echobuf.workers.settings import Settings
    from echobuf.workers.workforce import Workforce


@dataclass(frozen=True)
class Arranged:
    """How upstream is read.

    Attributes:
        upstream: what is iterated.
        workforce: who makes examples in place of this process.
        make: what makes a buffer for them.
        order: which examples are read, where they are read by index.
    """

    upstream: Any
    workforce: Workforce | Supply | None = None
    make: Callable[..., EchoBuffer] = EchoBuffer
    order: Order | None = None


def arrange(
    upstream: Any,
    adapter: Adapter,
    workers: Settings | None,
    *,
    sampler: Any,
    batch_size: Any = None,
    batched: Any = None,
    unit: Any = "example",
    overlap_epochs: Any = False,
) -> Arranged:
    """Says how, from the arguments of a loader.

    Raises:
        OptionError: they do not go together, or `upstream` is none.
    """
    upstream = as_batches(
        upstream, batch_size=batch_size, batched=batched, overlap_epochs=overlap_epochs
    )
    source.check_iterable(upstream)
    if (attached := as_attached(upstream)) is not None:
        check_attached(workers, sampler, batched, unit)
        supply = attached._take()
        return Arranged(supply, supply, supply.make_buffer)
    if workers is not None:
        from echobuf.workers.buffer import SharedBuffer
        from echobuf.workers.workforce import Workforce

        order = Order(upstream, sampler)
        return Arranged(order, Workforce(workers, order, adapter), SharedBuffer, order)
    if sampler is not None or is_map_style(upstream):
        order = Order(upstream, sampler)
        return Arranged(Sampled(order), order=order)
    return Arranged(upstream)
