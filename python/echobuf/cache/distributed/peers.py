"""Asking the other ranks: one connection to each from every process, on demand."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from echobuf.cache.distributed import frames
from echobuf.forked import track
from echobuf.limits import explain

Given = Sequence[tuple[int, bytearray]]


class Line:
    """The connection to one peer, opened when it is needed.

    Args:
        address: where it listens.
        token: what it wants to hear.
        timeout_s: how long nothing may come.

    Attributes:
        lock: held by the thread that talks.
    """

    def __init__(
        self, address: tuple[str, int], token: bytes, timeout_s: float
    ) -> None:
        self.lock = threading.Lock()
        self._address = address
        self._token = token
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None

    def hang_up(self) -> None:
        """Closes it: an answer that is no longer wanted may be under way."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        self.hang_up()

    def is_open(self) -> bool:
        """Whether it was used before."""
        return self._socket is not None

    def ask(self, numbers: Sequence[int]) -> None:
        """Says which records are wanted."""
        head = frames.REQUEST.pack(frames.ASK, len(numbers))
        self._opened().sendall(head + frames.words(numbers))

    def answer(self, count: int) -> tuple[list[bytearray], int]:
        """The records asked for, empty where there is none; and the peer's room."""
        (room,) = frames.ANSWER.unpack(self._receive(frames.ANSWER.size))
        sizes = frames.numbers(self._receive(8 * count))
        return [self._receive(size) for size in sizes], room

    def give(self, given: Given) -> None:
        """Sends records that the peer may keep."""
        opened = self._opened()
        opened.sendall(
            frames.REQUEST.pack(frames.GIVE, len(given))
            + frames.words(number for number, _ in given)
            + frames.words(len(record) for _, record in given)
        )
        for _, record in given:
            opened.sendall(record)
        self._receive(frames.TAKEN.size)

    def _opened(self) -> socket.socket:
        if self._socket is None:
            self._socket = self._connect()
            self._socket.sendall(frames.GREETING.pack(frames.MAGIC, self._token))
            if self._receive(len(frames.WELCOME)) != frames.WELCOME:
                raise frames.StrangeError("another program answers there")
        return self._socket

    def _connect(self) -> socket.socket:
        opened = socket.create_connection(self._address, self._timeout_s)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        track(opened)
        return opened

    def _receive(self, size: int) -> bytearray:
        assert self._socket is not None
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = self._socket.recv_into(view[got:])
            if count == 0:
                raise ConnectionResetError("it has closed the connection")
            got += count
        return data


class Peers:
    """The other ranks, as one process and its forked children reach them.

    Args:
        addresses: of all ranks.
        token: of the job.
        timeout_s: after which a rank that does not answer is given up.

    Attributes:
        ranks: how many there are, this one included.
    """

    def __init__(
        self, addresses: Sequence[tuple[str, int]], token: bytes, timeout_s: float
    ) -> None:
        self.ranks = len(addresses)
        self._addresses = addresses
        self._token = token
        self._timeout_s = timeout_s
        self._renew()

    def _renew(self) -> None:
        self._lines = [
            Line(address, self._token, self._timeout_s) for address in self._addresses
        ]
        self._process = os.getpid()

    def __getstate__(self) -> tuple[Any, ...]:
        return self._addresses, self._token, self._timeout_s

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def close(self) -> None:
        """Hangs up; another call connects again."""
        for line in self._lines:
            with line.lock:
                line.hang_up()

    def fetch(
        self,
        wanted: Mapping[int, Sequence[int]],
        lost: Callable[[int, OSError], None],
    ) -> dict[int, tuple[list[bytearray], int]]:
        """Asks several ranks at once for records, by their numbers.

        Args:
            wanted: of each rank.
            lost: told of each that does not answer.

        Returns:
            Of each that does: the records, empty where there is none, and the bytes
            that it has room for.

        Raises:
            CapacityError: this process has too few descriptors to ask.
        """
        answers = {}
        with self._held(wanted) as lines:
            reused = {rank: line.is_open() for rank, line in lines.items()}
            failed = {rank: _begin(line, wanted[rank]) for rank, line in lines.items()}
            for rank, line in lines.items():
                try:
                    if (error := failed[rank]) is not None:
                        raise error
                    answers[rank] = _finish(line, wanted[rank], reused[rank])
                except OSError as error:
                    line.hang_up()
                    _check_own(error)
                    lost(rank, error)
        return answers

    def give(self, rank: int, given: Given) -> None:
        """Sends a rank records that it has room for.

        Raises:
            OSError: it does not answer.
            CapacityError: this process has too few descriptors to ask.
        """
        with self._held([rank]) as lines:
            try:
                lines[rank].give(given)
            except OSError as error:
                _check_own(error)
                raise

    @contextlib.contextmanager
    def _held(self, ranks: Any) -> Iterator[dict[int, Line]]:
        """The lines to these ranks, which no other thread uses meanwhile.

        When something goes wrong, Ctrl-C too, nobody reads on where this one was.
        """
        if self._process != os.getpid():
            self._renew()
        with contextlib.ExitStack() as locks:
            lines = {rank: self._lines[rank] for rank in sorted(ranks)}
            for line in lines.values():
                locks.enter_context(line.lock)
            try:
                yield lines
            except BaseException:
                for line in lines.values():
                    line.hang_up()
                raise


def _begin(line: Line, numbers: Sequence[int]) -> OSError | None:
    """Asks, where a connection has gone over a new one; why that failed."""
    reused = line.is_open()
    try:
        line.ask(numbers)
        return None
    except OSError as error:
        line.hang_up()
        return _begin(line, numbers) if reused and _has_gone(error) else error


def _finish(
    line: Line, numbers: Sequence[int], reused: bool
) -> tuple[list[bytearray], int]:
    """The answer; asks again where a connection that was there has gone."""
    try:
        return line.answer(len(numbers))
    except OSError as error:
        line.hang_up()
        if not (reused and _has_gone(error)):
            raise
    failed = _begin(line, numbers)
    if failed is not None:
        raise failed
    return _finish(line, numbers, reused=False)


def _check_own(error: OSError) -> None:
    """Raise where it is this process that cannot ask: no rank is lost by that."""
    clear = explain(error, "a cache that ranks share", "use fewer of them")
    if clear is not None:
        raise clear from error


def _has_gone(error: OSError) -> bool:
    return isinstance(error, ConnectionError)
