"""The slow input: fetch by HTTP, decode, distort; an ordinary PyTorch dataset."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image
from torch.utils.data import IterableDataset

from echobuf.cli.demo.data import augment, decode, label_of

__all__ = ["DigitStream", "Gate"]

_TIMEOUT_S = 30.0


class Gate:
    """Stops the upstream while the clock stands still for an evaluation."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def wait(self) -> None:
        """Returns when the gate is open."""
        self._open.wait()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keeps the gate closed for the length of the `with` block."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()


class DigitStream(IterableDataset[tuple[NDArray[np.uint8], int]]):
    """Distorted digits without end: epoch after epoch, each in a new order.

    Args:
        port: The server's port on the loopback interface.
        names: The files to fetch.
        seed: Seeds the order and the distortions; the same seed, the same stream.
        gate: Each example passes it before it is fetched.
        prepare: Makes a picture of the decoded file, with chance from a generator.
    """

    def __init__(
        self,
        port: int,
        names: tuple[str, ...],
        seed: int,
        gate: Gate,
        prepare: Callable[[Image, np.random.Generator], NDArray[np.uint8]] = augment,
    ) -> None:
        self._port = port
        self._names = names
        self._seed = seed
        self._gate = gate
        self._prepare = prepare

    def __iter__(self) -> Iterator[tuple[NDArray[np.uint8], int]]:
        """Yields images `uint8[SIDE, SIDE]` with their labels."""
        rng = np.random.default_rng(self._seed)
        address = ("127.0.0.1", self._port)
        with closing(HTTPConnection(*address, timeout=_TIMEOUT_S)) as connection:
            while True:
                for index in rng.permutation(len(self._names)):
                    self._gate.wait()
                    name = self._names[index]
                    image = self._prepare(decode(_fetch(connection, name)), rng)
                    yield image, label_of(name)


def _fetch(connection: HTTPConnection, name: str) -> bytes:
    connection.request("GET", f"/{name}")
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        raise RuntimeError(f"the demo's server answers {response.status} for {name}")
    return body
