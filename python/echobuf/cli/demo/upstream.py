"""Slow upstream of the demo: an HTTP server, and a PyTorch dataset over it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image
from torch.utils.data import IterableDataset

from echobuf.cli.demo.data import augment, decode, label_of
from echobuf.resources import Closing

_SCRIPT = Path(__file__).with_name("server.py")
_TIMEOUT_S = 30.0
_END_S = 5.0


class Gate(threading.Event):
    """Gate that stops the upstream during an evaluation; it is open once made."""

    def __init__(self) -> None:
        super().__init__()
        self.set()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Keep the gate closed for the length of the `with` block."""
        self.clear()
        try:
            yield
        finally:
            self.set()


class DigitStream(IterableDataset[tuple[NDArray[np.uint8], int]]):
    """Endless dataset of distorted digits, in a new order in each epoch.

    Yields images `uint8[SIDE, SIDE]` with their labels. The same seed gives the same
    stream. The gate is waited for before each file is fetched from the server, and
    `prepare` makes the image of the decoded file.
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


class ServerProcess(Closing):
    """Process of the demo's HTTP server for the files of a folder.

    It ends with the `with` block; `port` is its port on the loopback interface.
    """

    def __init__(self, folder: Path) -> None:
        # A new session: Ctrl-C reaches only the demo, which then ends the server.
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_SCRIPT), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self.port = int(self._answer())
        except BaseException:
            self.close()
            raise

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the demo's server ended unexpectedly")
        return line

    def set_bandwidth(self, bytes_per_s: float) -> None:
        """Set the limit that all connections share, in bytes a second."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{bytes_per_s!r}\n")
        self._process.stdin.flush()
        self._answer()

    @property
    def exit_code(self) -> int | None:
        """Return the process's exit code; None while it runs."""
        return self._process.returncode

    def close(self) -> None:
        """End the server; a second call does nothing."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
