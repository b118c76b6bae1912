"""The server of a rank's items to the other ranks: a thread that runs no user code.

Messages have headers of fixed size, and nothing in them is pickled. A client sends a
greeting, and the server a welcome. Then the client sends requests, a header and a body
each, and the server responds to each before the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
import struct
import threading
import weakref
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf.cache.items import EncodedItem, is_valid
from echobuf.resources import check_descriptors, enough, track

GREETING = struct.Struct("<8s32s")  # magic, token
MAGIC = b"ecbpeer1"
WELCOME = b"ecbhello"
TOKEN_BYTES = 32

GET, PUT = 1, 2
REQUEST = struct.Struct("<II")  # kind, count; then the numbers of the items
# To a GET: the free bytes; then the size of each encoded item (0: none), and these.
GET_RESPONSE = struct.Struct("<Q")
# The body of a PUT has the sizes of the encoded items, too, and these.
PUT_RESPONSE = struct.Struct("<I")  # the number of items that were valid
MOST_ITEMS = 1 << 24

_GREETING_S = 10.0  # from the connection of a client to its greeting
_BACKLOG = 4096
_JOIN_S = 5.0  # for the thread to end
_FLUSH_S = 1.0  # from a PUT until its items are flushed
_LOOP_DESCRIPTORS = 3  # an event loop that lacks one prints when it is dropped
_PAUSE_S = 0.1  # after a connection that could not be accepted


class ProtocolError(OSError):
    """An error of a message that is not one of this protocol."""


def pack_numbers(values: Iterable[int]) -> bytes:
    """Return numbers as 64-bit words."""
    return np.fromiter(values, "<u8").tobytes()


def unpack_numbers(data: bytes | bytearray) -> list[int]:
    """Return the numbers that `pack_numbers` has packed."""
    numbers: list[int] = np.frombuffer(data, "<u8").tolist()
    return numbers


class CacheServer:
    """A server of a rank's items, which runs until it is closed or dropped."""

    def __init__(
        self, host: str, *, token: bytes, store: Any, length: int, max_bytes: int
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        handler = _RequestHandler(token, store, length, max_bytes)
        with (
            enough("a cache that ranks share", "use fewer of them"),
            contextlib.ExitStack() as undo,
        ):
            listener = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
            undo.callback(listener.close)
            listener.setblocking(False)
            self.port: int = listener.getsockname()[1]
            check_descriptors(_LOOP_DESCRIPTORS)
            loop = asyncio.new_event_loop()
            undo.callback(loop.close)
            accepting = handler.accept(listener)
            undo.callback(accepting.close)
            stop = loop.create_future()
            thread = threading.Thread(
                target=_run,
                args=(loop, accepting, stop),
                name="echobuf-peers",
                daemon=True,
            )
            thread.start()
            undo.pop_all()
        track(listener)
        self.close = weakref.finalize(self, _stop, os.getpid(), loop, stop, thread)


def _run(
    loop: asyncio.AbstractEventLoop,
    accepting: Coroutine[Any, Any, None],
    stop: asyncio.Future[None],
) -> None:
    asyncio.set_event_loop(loop)
    try:
        work = loop.create_task(accepting)
        stop.add_done_callback(lambda _: work.cancel())
        loop.run_until_complete(asyncio.wait([work]))
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
    finally:
        loop.close()


def _stop(
    process: int,
    loop: asyncio.AbstractEventLoop,
    stop: asyncio.Future[None],
    thread: threading.Thread,
) -> None:
    if os.getpid() != process or not thread.is_alive():
        return  # a forked child, which has no such thread
    loop.call_soon_threadsafe(stop.cancel)
    if thread is not threading.current_thread():
        thread.join(_JOIN_S)


@dataclass(eq=False)
class _RequestHandler:
    """A handler of the connections of all clients."""

    token: bytes
    store: Any
    length: int
    max_bytes: int
    _will_flush: bool = False

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        tasks = set()
        with listener:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                track(connection)
                task = loop.create_task(self._handle_connection(connection))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def _handle_connection(self, accepted: socket.socket) -> None:
        connection = _Connection(accepted)
        with accepted:
            try:
                greeting = connection.receive(GREETING.size)
                if not self._is_member(await asyncio.wait_for(greeting, _GREETING_S)):
                    return
                await connection.send(WELCOME)
                while True:
                    await self._handle_request(connection)
            except (OSError, asyncio.TimeoutError):
                return  # a client that is gone, or is no rank, gets no response

    def _is_member(self, greeting: bytearray) -> bool:
        magic, token = GREETING.unpack(greeting)
        return magic == MAGIC and hmac.compare_digest(token, self.token)

    async def _handle_request(self, connection: _Connection) -> None:
        head = await connection.receive(REQUEST.size)
        kind, count = REQUEST.unpack(head)
        if kind not in (GET, PUT) or count > MOST_ITEMS:
            raise ProtocolError
        numbers = unpack_numbers(await connection.receive(8 * count))
        if any(number >= self.length for number in numbers):
            raise ProtocolError
        if kind == GET:
            await self._handle_get(connection, numbers)
        else:
            await self._handle_put(connection, numbers)

    async def _handle_get(self, connection: _Connection, numbers: list[int]) -> None:
        items = [item or b"" for item in self.store.get_all(numbers)]
        await connection.send(
            GET_RESPONSE.pack(max(0, self.store.free_bytes()))
            + pack_numbers(len(item) for item in items)
        )
        for item in items:
            await connection.send(item)

    async def _handle_put(self, connection: _Connection, numbers: list[int]) -> None:
        valid = 0
        sizes = unpack_numbers(await connection.receive(8 * len(numbers)))
        for number, size in zip(numbers, sizes, strict=True):
            if size > self.max_bytes:
                raise ProtocolError
            encoded = await connection.receive(size)
            if is_valid(encoded, number):
                self.store.put(number, EncodedItem(encoded))
                valid += 1
        self._flush_soon()
        await connection.send(PUT_RESPONSE.pack(valid))

    def _flush_soon(self) -> None:
        """Flush after a second: this rank's workers see buffered items only then."""
        if not self._will_flush:
            self._will_flush = True
            asyncio.get_running_loop().call_later(_FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._will_flush = False
        self.store.flush()


class _Connection:
    """A connection to a client."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = asyncio.get_running_loop()
        self._connection = connection

    async def send(self, data: bytes | bytearray) -> None:
        await self._loop.sock_sendall(self._connection, data)

    async def receive(self, size: int) -> bytearray:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = await self._loop.sock_recv_into(self._connection, view[got:])
            if count == 0:
                raise ConnectionResetError
            got += count
        return data
