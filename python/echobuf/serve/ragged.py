"""Ragged leaves of a server's examples: those of its upstream, and those of a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from echobuf import _core, capacity
from echobuf._engine import ragged
from echobuf.arguments import check_int
from echobuf.errors import (
    CapacityError,
    EchobufError,
    ItemError,
    OptionError,
    UpstreamError,
    message,
)
from echobuf.field import is_ragged
from echobuf.loader import source
from echobuf.loader.items import (
    MOST_AHEAD,
    infer_batch,
    infer_ragged_example,
)
from echobuf.loader.ragged import BatchDecoder, RaggedRequest, find_batch_decoder
from echobuf.loader_buffer import LoaderBuffer
from echobuf.serve.connection import Connection
from echobuf.spec import make_spec

LARGEST = 4  # examples in `payload_bytes`, as the core has it
_MOST_BYTES = 2**60
_MOST_SLOTS = 2**24 - 1  # that claims of payload can number


@dataclass(frozen=True)
class RaggedServing:
    """The arguments of a server for ragged leaves, checked."""

    payload_bytes: int  # the most that ragged leaves of a job's window may take
    request: RaggedRequest  # which leaves are ragged

    def batch_decoder(self, upstream: Any, first: Any) -> BatchDecoder:
        """Return the decoder of batches like the first one of upstream."""
        size = source.loader_batch_size(upstream)
        return find_batch_decoder(first, size, self.request.flags_of_batch(first))

    def inference(self, more: Iterator[Any], *, batched: bool) -> Callable[[Any], Any]:
        """Return what infers the spec of an example from the first item."""

        def infer(first: Any) -> Any:
            if batched:
                spec, _ = infer_batch(first)
            else:
                spec = infer_ragged_example(first, more, self.request.flags)
            if not make_spec(spec).is_ragged:
                raise OptionError(
                    f"`payload_bytes` is {self.payload_bytes}, but in what upstream "
                    "yields first no leaf varies in length. Name those that do, "
                    "`ragged={'tokens': 'packed', 'label': None}`, in a pytree like an "
                    "example; or leave the arguments for ragged leaves out."
                )
            return spec

        return infer


def most_ahead(window: int) -> int:
    """Return how many items may be looked at before any are put."""
    return min(MOST_AHEAD, window)


def check_serving(payload_bytes: Any, ragged: Any, slots: int) -> RaggedServing | None:
    """Check the arguments of a server; None for examples of one size."""
    if payload_bytes is None:
        if ragged is not None:
            raise OptionError(
                f"`ragged` is {ragged!r}, and `payload_bytes` is None; give "
                "`payload_bytes`, the most bytes that ragged leaves of a job's window "
                "may take."
            )
        return None
    payload = check_int("payload_bytes", payload_bytes, LARGEST, None)
    if payload > _MOST_BYTES:
        raise CapacityError(
            f"`payload_bytes` is {payload:,}, more than any memory; make it smaller."
        )
    if slots > _MOST_SLOTS:
        raise OptionError(
            f"2 * `window` + `lag` is {slots:,}; where examples have ragged leaves it "
            f"must be at most {_MOST_SLOTS:,}. Make `lag` smaller."
        )
    return RaggedServing(payload, RaggedRequest(ragged))


# ---- of a job: leaves are as the server says, and examples fit its options


def check_leaves(spec: Any, connection: Connection) -> None:
    """Check that the leaves are ragged that are so at the server."""
    theirs, own = connection.spec.spec, make_spec(spec)
    for field, mine, path in zip(theirs.fields, own.fields, theirs.paths, strict=True):
        if is_ragged(field) == is_ragged(mine):
            continue
        if is_ragged(field) and not own.is_ragged:
            raise OptionError(
                f"`example{path}` of the server {connection.name!r} is ragged, and "
                "`payload_bytes` is None; give `payload_bytes`, the bytes of all "
                "ragged leaves in the window, at most "
                f"{connection.info.payload_bytes:,}."
            )
        raise OptionError(
            f"`ragged` says otherwise than the server {connection.name!r}, for which "
            f"`example{path}` is "
            f"{'ragged' if is_ragged(field) else 'of a fixed shape'}; give the form "
            "alone, 'packed' or 'padded'."
        )


def check_payload(buffer: LoaderBuffer, connection: Connection) -> None:
    """Check that the server keeps as many bytes as the ragged leaves may take."""
    own = capacity.payload_bytes(buffer.spec, buffer.options)
    most = connection.info.payload_bytes or 0
    if own > most:
        raise OptionError(
            f"the ragged leaves of the window may take {own:,} bytes, and the server "
            f"{connection.name!r} is for {most:,} at most; make `payload_bytes` "
            "smaller, or that of the server larger."
        )


def misfit_error(buffer: LoaderBuffer, reader: _core.RingReader) -> EchobufError:
    """Return the error for an example that the job's options do not allow."""
    kind, size = reader.misfit()
    if kind == _core.MISFIT_SHARE:
        share: int = buffer.core.share_bytes
        cause = ragged.record_too_large("it", size, share, buffer.options)
        error = UpstreamError(
            f"an example of the server is too large for this job: {message(cause)}"
        )
        error.__cause__ = cause
        return error
    pack_to = buffer.options.pack_to
    if kind == _core.MISFIT_LENGTH:
        return ItemError(
            f"an example of the server has {size:,} rows; `pack_to` is {pack_to}. Make "
            "`pack_to` larger, or cut examples in upstream of the server."
        )
    return ItemError(
        f"an example of the server has leaves of different lengths, one of them "
        f"{size:,} rows; with `pack_to`, which is {pack_to}, all leaves of an example "
        "are of one length."
    )
