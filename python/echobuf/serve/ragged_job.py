"""Ragged leaves of a job: they are as the server says, and examples fit its options."""

from __future__ import annotations

from typing import Any

from echobuf import _core, capacity
from echobuf._engine import ragged
from echobuf.errors import (
    EchobufError,
    ItemError,
    OptionError,
    UpstreamError,
    message,
)
from echobuf.field import is_ragged
from echobuf.loader_buffer import LoaderBuffer
from echobuf.serve.connection import Connection
from echobuf.spec import make_spec


def check_leaves(spec: Any, connection: Connection) -> None:
    """Check that the leaves are ragged that are so at the server.

    Args:
        spec: as the loader has inferred it.
        connection: to the server.

    Raises:
        OptionError: others are.
    """
    theirs, own = connection.spec.spec, make_spec(spec)
    for field, mine, path in zip(theirs.fields, own.fields, theirs.paths, strict=True):
        if is_ragged(field) == is_ragged(mine):
            continue
        if is_ragged(field) and not own.is_ragged:
            raise OptionError(
                f"`example{path}` of the server {connection.name!r} is ragged, and "
                "`payload_bytes` is None; give `payload_bytes`, the bytes of all "
                f"ragged leaves in the window, at most {connection.payload_bytes:,}."
            )
        raise OptionError(
            f"`ragged` says otherwise than the server {connection.name!r}, for which "
            f"`example{path}` is "
            f"{'ragged' if is_ragged(field) else 'of a fixed shape'}; give the form "
            "alone, 'packed' or 'padded'."
        )


def check_payload(buffer: LoaderBuffer, connection: Connection) -> None:
    """Check that the server keeps as many bytes as the ragged leaves may take.

    Raises:
        OptionError: it keeps fewer.
    """
    own = capacity.payload_bytes(buffer.spec, buffer.options)
    if own > (connection.payload_bytes or 0):
        raise OptionError(
            f"the ragged leaves of the window may take {own:,} bytes, and the server "
            f"{connection.name!r} is for {connection.payload_bytes:,} at most; make "
            "`payload_bytes` smaller, or that of the server larger."
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
