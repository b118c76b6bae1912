"""Upstreams that can say where they are, and go on there: torchdata's protocol."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from echobuf import hints
from echobuf.describe_error import describe
from echobuf.errors import UpstreamStateError
from echobuf.loader.source import as_data_loader, begins_anew
from echobuf.plain import decode, encode
from echobuf.upstream_state import UpstreamState


def as_stateful(upstream: Any) -> Stateful | None:
    """The upstream, if it has a state that says exactly where it is."""
    methods = (getattr(upstream, name, None) for name in _METHODS)
    if not all(_takes(method, count) for count, method in enumerate(methods)):
        return None
    if any(hints.is_of(upstream, *kind) for kind in _OTHER_MEANING):
        return None
    if not all(_keeps_all(stream) for stream in _streams(upstream)):
        return None
    return Stateful(upstream)


def _takes(method: Any, count: int) -> bool:
    """Whether it can be called with so many arguments: others mean something else."""
    try:
        inspect.signature(method).bind(*[None] * count)
    except (TypeError, ValueError):
        return False
    return True


_METHODS = ("state_dict", "load_state_dict")
_OTHER_MEANING = (("torch", "Module"), ("torch", "Optimizer"))


class Stateful:
    """An upstream with `state_dict` and `load_state_dict`.

    Args:
        upstream: `state_dict()` between two items says where it is, `load_state_dict`
            makes the next `iter` go on there, and the `iter` after that begins anew.
    """

    def __init__(self, upstream: Any) -> None:
        self._upstream = upstream
        # Others may set themselves back with the first `next`: then their state tells
        # of the last epoch until it comes.
        self._rewinds = begins_anew(upstream)
        self._loaded = False

    def take(self, offset: int | None) -> UpstreamState:
        """Its state, between two items.

        Raises:
            NotPlainError: there is something in it that cannot be kept.
            Exception: what upstream raised.
        """
        state = encode({"state": self._upstream.state_dict()})
        state["epochs"] = [int(stream.epoch) for stream in _streams(self._upstream)]
        return UpstreamState(offset, state, place())

    def take_at(self, offset: int | None) -> UpstreamState | None:
        """The same at the start (0) or the end (None) of an epoch, where it is known.

        What goes wrong there goes wrong between items, too, and is told then.
        """
        if not self._rewinds:
            return None
        try:
            return self.take(offset)
        except Exception:
            return None

    def load(self, state: UpstreamState) -> None:
        """The next `iter` goes on where the state was taken.

        Raises:
            UpstreamStateError: upstream raised.
        """
        kept = decode(state.encoded)
        try:
            streams = _streams(self._upstream)
            for stream, epoch in zip(streams, kept.get("epochs", ()), strict=True):
                stream.set_epoch(epoch)  # one of another epoch is not gone on with
            self._loaded = True
            self._upstream.load_state_dict(kept["state"])
        except Exception as error:
            raise refused(self._upstream, error) from error

    def unload(self) -> None:
        """The next `iter` begins at the start."""
        if self._loaded:
            self._loaded = False
            for stream in _streams(self._upstream):
                stream.load_state_dict({})  # else each `iter` goes on there


def refused(upstream: Any, error: Exception) -> UpstreamStateError:
    """The error for a state that upstream does not take."""
    return UpstreamStateError(
        f"`upstream`, a {type(upstream).__name__}, does not go on from the state that "
        f"it had when `state` was taken: {describe(error)}. Make it as it was (a "
        'DataLoader with as many workers), or leave `state["upstream"]` out: it is '
        "then read from its start."
    )


def place() -> tuple[int, int]:
    """The rank of this process, and the number of ranks: each may have its share."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


# ---- streams of Hugging Face datasets


def _streams(upstream: Any) -> Iterator[Any]:
    """What keeps a state that was loaded for each later `iter`, of the same epoch."""
    loader = as_data_loader(upstream)
    for each in (upstream, None if loader is None else loader.dataset):
        if hints.is_of(each, "datasets", "IterableDataset"):
            yield each


def _keeps_all(stream: Any) -> bool:
    """Whether a stream has no shuffle buffer, whose content its state leaves out."""
    parts, seen = [getattr(stream, "_ex_iterable", None)], 0
    while parts:
        part = parts.pop()
        if part is None or seen > _MOST_PARTS:
            return False
        if getattr(part, "buffer_size", 1) > 1:
            return False
        seen += 1
        parts += getattr(part, "ex_iterables", ())
        parts += [part.ex_iterable] if hasattr(part, "ex_iterable") else []
    return True


_MOST_PARTS = 1000
