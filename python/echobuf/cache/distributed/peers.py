"""The client of the other ranks' servers: connections, requests, items to share."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echobuf.cache.distributed.membership import LostRanks
from echobuf.cache.distributed.server import (
    GET,
    GET_RESPONSE,
    GREETING,
    MAGIC,
    PUT,
    PUT_RESPONSE,
    REQUEST,
    WELCOME,
    ProtocolError,
    pack_numbers,
    unpack_numbers,
)
from echobuf.cache.items import HEADER_BYTES, DamagedError, ItemEncoder, decode_item
from echobuf.cache.memory import SharedCounters
from echobuf.errors import message
from echobuf.resources import explain, receive, track

PEER_COUNTS = ("from_peers", "peer_bytes", "given", "given_bytes")
"""The names of the counts of `SharedItems`."""
Encoded = Sequence[tuple[int, bytearray]]
"""Numbers of items, and the items, encoded."""


class PeerConnection:
    """The connection to one server, opened with the first request.

    Attributes:
        lock: held by the thread that uses the connection.
    """

    def __init__(
        self, address: tuple[str, int], token: bytes, timeout_s: float
    ) -> None:
        self.lock = threading.Lock()
        self._address = address
        self._token = token
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Close the connection, and drop a response that may be under way."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        self.close()

    def is_open(self) -> bool:
        """Return whether the connection is open, by an earlier request."""
        return self._socket is not None

    def send_get(self, numbers: Sequence[int]) -> None:
        """Send a request for items, by their numbers."""
        header = REQUEST.pack(GET, len(numbers))
        self._connected().sendall(header + pack_numbers(numbers))

    def receive_items(self, count: int) -> tuple[list[bytearray], int]:
        """Return the requested items, empty if missing, and the rank's free bytes."""
        header = self._receive(GET_RESPONSE.size)
        (free,) = GET_RESPONSE.unpack(header)
        sizes = unpack_numbers(self._receive(8 * count))
        return [self._receive(size) for size in sizes], free

    def put(self, items: Encoded) -> None:
        """Send items that the rank may keep; wait for its response."""
        connected = self._connected()
        connected.sendall(
            REQUEST.pack(PUT, len(items))
            + pack_numbers(number for number, _ in items)
            + pack_numbers(len(encoded) for _, encoded in items)
        )
        for _, encoded in items:
            connected.sendall(encoded)
        self._receive(PUT_RESPONSE.size)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = self._connect()
            greeting = GREETING.pack(MAGIC, self._token)
            self._socket.sendall(greeting)
            if self._receive(len(WELCOME)) != WELCOME:
                raise ProtocolError("another program answers there")
        return self._socket

    def _connect(self) -> socket.socket:
        connected = socket.create_connection(self._address, self._timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        track(connected)
        return connected

    def _receive(self, size: int) -> bytearray:
        assert self._socket is not None
        data = receive(self._socket, size)
        if len(data) < size:
            raise ConnectionResetError("it has closed the connection")
        return data


class PeerClient:
    """A client of the other ranks' servers, in one process and its forked children."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], token: bytes, timeout_s: float
    ) -> None:
        self.ranks = len(addresses)
        self._addresses = addresses
        self._token = token
        self._timeout_s = timeout_s
        self._renew()

    def _renew(self) -> None:
        self._connections = [
            PeerConnection(address, self._token, self._timeout_s)
            for address in self._addresses
        ]
        self._process = os.getpid()

    def __getstate__(self) -> tuple[Any, ...]:
        return self._addresses, self._token, self._timeout_s

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def close(self) -> None:
        """Close all connections; a later request connects again."""
        for connection in self._connections:
            with connection.lock:
                connection.close()

    def fetch(
        self,
        numbers: Mapping[int, Sequence[int]],
        on_lost: Callable[[int, OSError], None],
    ) -> dict[int, tuple[list[bytearray], int]]:
        """Request items of several ranks at once.

        Args:
            numbers: of the items, by rank.
            on_lost: called with each rank that does not answer, and the error.

        Returns:
            By rank that has answered: the items, empty where there is none, and the
            rank's free bytes.
        """
        answers = {}
        with self._locked(numbers) as connections:
            reused = {rank: each.is_open() for rank, each in connections.items()}
            failed = {
                rank: send_request(each, numbers[rank])
                for rank, each in connections.items()
            }
            for rank, connection in connections.items():
                try:
                    if (error := failed[rank]) is not None:
                        raise error
                    answers[rank] = receive_response(
                        connection, numbers[rank], reused[rank]
                    )
                except OSError as error:
                    connection.close()
                    _check_local(error)
                    on_lost(rank, error)
        return answers

    def put(self, rank: int, items: Encoded) -> None:
        """Send items to a rank that has room for them."""
        with self._locked([rank]) as connections:
            try:
                connections[rank].put(items)
            except OSError as error:
                _check_local(error)
                raise

    @contextlib.contextmanager
    def _locked(self, ranks: Any) -> Iterator[dict[int, PeerConnection]]:
        """Give the connections to some ranks, which no other thread uses meanwhile.

        An exception, Ctrl-C too, closes them: a response may be half read.
        """
        if self._process != os.getpid():
            self._renew()
        with contextlib.ExitStack() as locks:
            connections = {rank: self._connections[rank] for rank in sorted(ranks)}
            for connection in connections.values():
                locks.enter_context(connection.lock)
            try:
                yield connections
            except BaseException:
                for connection in connections.values():
                    connection.close()
                raise


def send_request(connection: PeerConnection, numbers: Sequence[int]) -> OSError | None:
    """Request items, once more if a reused connection has gone; return the error."""
    reused = connection.is_open()
    try:
        connection.send_get(numbers)
        return None
    except OSError as error:
        connection.close()
        if reused and _has_gone(error):
            return send_request(connection, numbers)
        return error


def receive_response(
    connection: PeerConnection, numbers: Sequence[int], reused: bool
) -> tuple[list[bytearray], int]:
    """Return the response; request again if a reused connection has gone."""
    try:
        return connection.receive_items(len(numbers))
    except OSError as error:
        connection.close()
        if not (reused and _has_gone(error)):
            raise
    failed = send_request(connection, numbers)
    if failed is not None:
        raise failed
    return receive_response(connection, numbers, reused=False)


def _check_local(error: OSError) -> None:
    """Raise `CapacityError` for a fault of this process, by which no rank is lost."""
    clear = explain(error, "a cache that ranks share", "use fewer of them")
    if clear is not None:
        raise clear from error


def _has_gone(error: OSError) -> bool:
    return isinstance(error, ConnectionError)


@dataclass(frozen=True)
class SharedItems:
    """The items that one rank gets from the others, and gives them.

    Item number i is of the partition of rank i % ranks.
    """

    client: PeerClient
    rank: int  # this one
    lost_ranks: LostRanks  # as this rank knows them
    counters: SharedCounters  # of `PEER_COUNTS`, and "damaged"

    def fetch(self, numbers: Sequence[int]) -> tuple[dict[int, Any], dict[int, int]]:
        """Fetch items from the ranks that own their partitions.

        Returns:
            The items that were found, by their index in `numbers`; and the free bytes
            of each rank that has answered.
        """
        self.lost_ranks.check()
        indices: dict[int, list[int]] = {}
        for index, number in enumerate(numbers):
            rank = number % self.client.ranks
            if rank != self.rank and rank not in self.lost_ranks:
                indices.setdefault(rank, []).append(index)
        requested = {rank: [numbers[i] for i in each] for rank, each in indices.items()}
        answers = self.client.fetch(requested, self._add_lost)
        items, free = {}, {}
        for rank, (found, free_bytes) in answers.items():
            free[rank] = free_bytes
            for index, encoded in zip(indices[rank], found, strict=True):
                if encoded:
                    items.update(self._decode(index, numbers[index], encoded))
        return items, free

    def _decode(self, index: int, number: int, encoded: bytearray) -> dict[int, Any]:
        try:
            item = decode_item(encoded, number)
        except DamagedError:
            self.counters.add(damaged=1)
            return {}
        self.counters.add(from_peers=1, peer_bytes=len(encoded))
        return {index: item}

    def give(self, items: Mapping[int, Any], free: Mapping[int, int]) -> None:
        """Send items that were read from the source to the ranks that keep them."""
        for rank, free_bytes in free.items():
            owned = {n: i for n, i in items.items() if n % self.client.ranks == rank}
            given = _encode_fitting(owned, free_bytes)
            if not given:
                continue
            try:
                self.client.put(rank, given)
            except OSError as error:
                self._add_lost(rank, error)
            else:
                size = sum(len(encoded) for _, encoded in given)
                self.counters.add(given=len(given), given_bytes=size)

    def _add_lost(self, rank: int, error: OSError) -> None:
        self.lost_ranks.add(rank, message(error))


def _encode_fitting(items: Mapping[int, Any], free: int) -> list[tuple[int, bytearray]]:
    """Return the encoded items, as many as fit."""
    fitting = []
    for number, item in items.items():
        if free < HEADER_BYTES:
            break
        encoder = ItemEncoder(item)
        if encoder.size <= free:
            free -= encoder.size
            fitting.append((number, encoder.encode(number)))
    return fitting
