"""What serves other ranks with what this one holds: a thread that runs no user code."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
import threading
import weakref
from collections.abc import Coroutine
from typing import Any

from echobuf.cache.distributed import frames
from echobuf.cache.record import Sealed, is_sound
from echobuf.forked import track
from echobuf.limits import check_descriptors, enough

_GREETING_S = 10.0  # that who connects has to say who it is
_BACKLOG = 4096
_PATIENCE_S = 5.0
_HELD_S = 1.0  # that what was given may be held back
_OF_LOOP = 3  # descriptors; a loop that lacks one prints when it is dropped
_PAUSE_S = 0.1  # when no more sockets can be opened


class Server:
    """Serves until it is closed or dropped.

    Args:
        host: the address to listen at.
        token: what peers have to say.
        store: of this rank.
        length: how many items there are.
        max_bytes: of a record.

    Attributes:
        port: where it listens.
        close: ends it.

    Raises:
        OSError: this machine cannot listen there.
        CapacityError: there are too few descriptors, or threads.
    """

    def __init__(
        self, host: str, *, token: bytes, store: Any, length: int, max_bytes: int
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        service = _Service(token, store, length, max_bytes)
        with (
            enough("a cache that ranks share", "use fewer of them"),
            contextlib.ExitStack() as undo,
        ):
            listener = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
            undo.callback(listener.close)
            listener.setblocking(False)
            self.port: int = listener.getsockname()[1]
            check_descriptors(_OF_LOOP)
            loop = asyncio.new_event_loop()
            undo.callback(loop.close)
            serving = service.accept(listener)
            undo.callback(serving.close)
            stop = loop.create_future()
            thread = threading.Thread(
                target=_run,
                args=(loop, serving, stop),
                name="echobuf-peers",
                daemon=True,
            )
            thread.start()
            undo.pop_all()
        track(listener)
        self.close = weakref.finalize(self, _stop, os.getpid(), loop, stop, thread)


def _run(
    loop: asyncio.AbstractEventLoop,
    serving: Coroutine[Any, Any, None],
    stop: asyncio.Future[None],
) -> None:
    asyncio.set_event_loop(loop)
    try:
        work = loop.create_task(serving)
        stop.add_done_callback(lambda _: work.cancel())
        loop.run_until_complete(asyncio.wait([work]))
        talks = asyncio.all_tasks(loop)
        for talk in talks:
            talk.cancel()
        if talks:
            loop.run_until_complete(asyncio.wait(talks))
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
        thread.join(_PATIENCE_S)


class _Service:
    """What is said to those who connect."""

    def __init__(self, token: bytes, store: Any, length: int, max_bytes: int) -> None:
        self._token = token
        self._store = store
        self._length = length
        self._max_bytes = max_bytes
        self._flushes = False

    async def accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        talks = set()
        with listener:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                track(connection)
                talk = loop.create_task(self._talk(connection))
                talks.add(talk)
                talk.add_done_callback(talks.discard)

    async def _talk(self, connection: socket.socket) -> None:
        line = _Line(connection)
        with connection:
            try:
                greeting = line.receive(frames.GREETING.size)
                if not self._knows(await asyncio.wait_for(greeting, _GREETING_S)):
                    return
                await line.send(frames.WELCOME)
                while True:
                    await self._answer(line)
            except (OSError, asyncio.TimeoutError):
                return  # who is gone, or no peer, gets no answer

    def _knows(self, greeting: bytearray) -> bool:
        magic, token = frames.GREETING.unpack(greeting)
        return magic == frames.MAGIC and hmac.compare_digest(token, self._token)

    async def _answer(self, line: _Line) -> None:
        head = await line.receive(frames.REQUEST.size)
        which, count = frames.REQUEST.unpack(head)
        if which not in (frames.ASK, frames.GIVE) or count > frames.MOST_ITEMS:
            raise frames.StrangeError
        numbers = frames.numbers(await line.receive(8 * count))
        if any(number >= self._length for number in numbers):
            raise frames.StrangeError
        if which == frames.ASK:
            await self._send(line, numbers)
        else:
            await self._take(line, numbers)

    async def _send(self, line: _Line, numbers: list[int]) -> None:
        records = [self._store.get(number) or b"" for number in numbers]
        await line.send(
            frames.ANSWER.pack(max(0, self._store.room()))
            + frames.words(len(record) for record in records)
        )
        for record in records:
            await line.send(record)

    async def _take(self, line: _Line, numbers: list[int]) -> None:
        taken = 0
        sizes = frames.numbers(await line.receive(8 * len(numbers)))
        for number, size in zip(numbers, sizes, strict=True):
            if size > self._max_bytes:
                raise frames.StrangeError
            record = await line.receive(size)
            if is_sound(record, number):
                self._store.put(number, Sealed(record))
                taken += 1
        self._flush_soon()
        await line.send(frames.TAKEN.pack(taken))

    def _flush_soon(self) -> None:
        """Workers of this rank see what a store holds back once it is written."""
        if not self._flushes:
            self._flushes = True
            asyncio.get_running_loop().call_later(_HELD_S, self._flush)

    def _flush(self) -> None:
        self._flushes = False
        self._store.flush()


class _Line:
    """A connection to a peer."""

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
