"""The protocol of servers and jobs: JSON messages, with file descriptors."""

from __future__ import annotations

import base64
import json
import os
import pickle
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import optree

from echobuf import _core, nodes
from echobuf.errors import CapacityError, describe
from echobuf.field import Field
from echobuf.loader.items import Adapter, check_example, infer_batch
from echobuf.resources import receive as receive_bytes
from echobuf.spec import Spec, make_spec
from echobuf.spec import describe as describe_spec
from echobuf.trees import NAMESPACE, flatten, map_leaves, paths_of_none

VERSION = _core.__version__
"""Of echobuf: a server and its jobs have the same."""

_LENGTH = struct.Struct(">I")
_MAX_BYTES = 1 << 24
_MAX_FILES = 4

Message = dict[str, Any]


class MessageError(ValueError):
    """A message that does not follow the protocol."""


def send(
    connection: socket.socket, message: Message, files: tuple[int, ...] = ()
) -> None:
    """Send a message, with file descriptors."""
    text = json.dumps(message).encode()
    whole = _LENGTH.pack(len(text)) + text
    # In one call: a peer that refuses the message may close after its first part.
    sent = socket.send_fds(connection, [whole], list(files)) if files else 0
    if sent < len(whole):  # sendall(b"") raises if the peer has gone
        connection.sendall(whole[sent:])


def receive(
    connection: socket.socket, seconds: float
) -> tuple[Message | None, list[int]]:
    """Return the next message and its file descriptors; None if the peer has closed.

    Raises:
        TimeoutError: the message was not complete within the time.
        MessageError: the bytes do not follow the protocol.
        CapacityError: this process has no room for the descriptors.
    """
    end = time.monotonic() + seconds
    connection.settimeout(seconds)
    head, files, flags, _ = socket.recv_fds(connection, _LENGTH.size, _MAX_FILES)
    try:
        for file in files:  # not inherited by programs that are started
            os.set_inheritable(file, False)
        if flags & socket.MSG_CTRUNC:
            raise no_descriptors()
        whole = head + receive_bytes(connection, _LENGTH.size - len(head), end)
        message = None
        if len(whole) == _LENGTH.size:
            (length,) = _LENGTH.unpack(whole)
            message = _receive_text(connection, length, end)
    except BaseException:
        close_files(files)
        raise
    return message, files


def _receive_text(connection: socket.socket, length: int, end: float) -> Message | None:
    if length > _MAX_BYTES:
        raise MessageError(f"a message of {length:,} bytes")
    text = receive_bytes(connection, length, end)
    if len(text) < length:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"what came is no JSON ({describe(error)})") from None
    if not isinstance(message, dict):
        raise MessageError("what came is no dictionary")
    return message


def no_descriptors() -> CapacityError:
    """Return the error for a process at its limit of file descriptors."""
    return CapacityError(
        "this process has no file descriptor left, and one that attaches to a server "
        "needs five: close files, or raise the limit (`ulimit -n`)."
    )


def close_files(files: list[int]) -> None:
    """Close the file descriptors, and empty the list."""
    while files:
        os.close(files.pop())


def pack(value: Any) -> str:
    """Return a Python value, pickled, as text."""
    return base64.b64encode(pickle.dumps(value)).decode()


def unpack(text: str) -> Any:
    """Return a packed value; the sender is the same user (`address.check_peer`)."""
    return pickle.loads(base64.b64decode(text))


@dataclass(frozen=True)
class ExampleSpec:
    """The structure of an example, which a server sends to its jobs, pickled."""

    tree: Any  # pytree with a `Field` for each leaf
    # For each leaf the name of a torch dtype that NumPy lacks, or None
    foreign: tuple[str | None, ...]

    @property
    def carries(self) -> bool:
        """True if examples carry leaves, for which there is None in the tree."""
        return any(
            True for _ in paths_of_none(flatten(self.tree, is_leaf=_is_field)[1])
        )

    @property
    def spec(self) -> Spec:
        """The internal spec of an example."""
        nodes.learn(self.tree)
        return make_spec(self.tree)

    def describe(self) -> str:
        """Return the spec as one line of text."""
        return describe_spec(self.spec)

    def example(self, length: int = 0) -> Any:
        """Return an example of zeros, with leaves of upstream's types."""
        nodes.learn(self.tree)
        fields, treespec = flatten(self.tree, is_leaf=_is_field)
        return treespec.unflatten(
            _zeros(field, length, name)
            for field, name in zip(fields, self.foreign, strict=True)
        )


def read_spec(
    item: Any, infer: Callable[[Any], Any], *, boxed: Any = None
) -> tuple[ExampleSpec, Adapter]:
    """Infer the spec of examples from the first item of upstream.

    Returns:
        The spec, and an adapter that reads items like the first one.
    """
    adapter = _adapter_for(item)
    tree = infer(adapter.read_first(item if boxed is None else boxed))
    foreign = adapter.foreign() or [None] * len(make_spec(tree).fields)
    return ExampleSpec(tree, tuple(foreign)), adapter


def fixed_tree(first: Any, *, batched: bool) -> Any:
    """Return the tree of `Field`s of an example whose leaves have fixed shapes."""
    if batched:
        return infer_batch(first)[0]
    check_example(first)
    return map_leaves(lambda leaf: Field(np.shape(leaf), np.asarray(leaf).dtype), first)


def _adapter_for(item: Any) -> Adapter:
    torch = sys.modules.get("torch")
    leaves = optree.tree_leaves(item, namespace=NAMESPACE)
    if torch is None or not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return Adapter()
    from echobuf.torch.adapter import TorchAdapter

    return TorchAdapter()


def _zeros(field: Field, length: int, foreign: str | None) -> Any:
    shape = [length if extent is None else extent for extent in field.shape]
    if foreign is None:
        return np.zeros(shape, field.dtype)
    import torch

    return torch.zeros(shape, dtype=getattr(torch, foreign.removeprefix("torch.")))


def _is_field(node: Any) -> bool:
    return isinstance(node, Field)


# ---- the contents of messages


@dataclass(frozen=True)
class ServerInfo:
    """The properties of a server that a job gets when it attaches."""

    example: str  # its `ExampleSpec`, packed
    spec: str  # of an example, as text
    length: int | None  # fresh examples an epoch, or None if unknown
    window: int  # the largest window that a job may have
    lease_s: float  # seconds without a heartbeat after which a job is dropped
    spilled: bool  # True if examples are kept on a disk
    # The largest that a job may have, for ragged leaves; or None
    payload_bytes: int | None


@dataclass(frozen=True)
class Job:
    """A job that is attached to a server.

    Attributes:
        job: name of the job.
        process: number of its process.
        epoch: number of the epoch that it is in, or waits for.
        waiting: True if that epoch has not begun yet.
        rate: fresh examples a second that it takes.
        lag: fresh examples that the server has and the job has not taken yet.
        held: fresh examples kept for the job: its window, and the lag.
        silent_s: seconds since its last heartbeat.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6, jobs=2):
        ...     upstream = echobuf.serve.attach("numbers", job="first")
        ...     (job,) = echobuf.serve.status("numbers").jobs
        ...     upstream.close()
        >>> job.job, job.epoch, job.waiting
        ('first', 0, True)
    """

    job: str
    process: int
    epoch: int
    waiting: bool
    rate: float
    lag: int
    held: int
    silent_s: float


@dataclass(frozen=True)
class Status:
    """The state of a server, as `status` returns it.

    Attributes:
        name: of the server.
        process: number of its process.
        version: of echobuf.
        spec: of one example, as text.
        epoch: number of the epoch that it is in, or will begin.
        running: True if it is in an epoch.
        published: fresh examples that it has served, in all epochs.
        rate: fresh examples a second that it serves.
        slots: fresh examples that it can keep.
        lease_s: seconds without a heartbeat after which a job is dropped.
        jobs: the attached jobs.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6):
        ...     status = echobuf.serve.status("numbers")
        >>> status.spec, status.published, status.lease_s
        ('int64[]', 0, 10.0)
    """

    name: str
    process: int
    version: str
    spec: str
    epoch: int
    running: bool
    published: int
    rate: float
    slots: int
    lease_s: float
    jobs: tuple[Job, ...]
