"""Upstreams of servers in the tests, and jobs that count their examples."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from echobuf import EchoLoader, serve
from echobuf.resources import Signal
from echobuf.serve.server_loop import ServerLoop
from echobuf.serve.shared_ring import ServerUpstream, SharedRing

NAME = "numbers"


class Numbers:
    """Examples that follow from their numbers, with a count of how often each is made.

    Args:
        n: examples an epoch.
        gate: called with the number of an example before that is made.
    """

    def __init__(self, n: int, gate: Callable[[int], Any] | None = None) -> None:
        self.n = n
        self.made = 0
        self.epochs: list[int] = []
        self._gate = gate

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        for number in range(self.n):
            if self._gate is not None:
                self._gate(number)
            self.made += 1
            yield example(number)


def example(number: int) -> Any:
    return {
        "id": np.int64(number),
        "data": (
            np.full((3, 2), number, np.float32),
            np.full(5, number % 251, np.uint8),
        ),
    }


def ids_of(batch: Any) -> list[int]:
    """Return the numbers of a batch's examples, none of which may be torn."""
    ids = np.asarray(batch["id"])
    first, second = (np.asarray(leaf) for leaf in batch["data"])
    assert (first == ids[:, None, None]).all()
    assert (second == (ids % 251)[:, None]).all()
    return [int(each) for each in ids]


class Job(threading.Thread):
    """A thread that trains on a server's examples, or on an upstream of its own.

    Args:
        epochs: how many.
        kwargs: of the loader.
        upstream: in place of a server.
        attach: arguments of `attach`.
    """

    server = NAME

    def __init__(
        self, epochs: int, kwargs: dict[str, Any], upstream: Any = None, **attach: Any
    ) -> None:
        super().__init__(name="a job")
        self.served: list[list[Any]] = []  # batches of epochs
        self.error: BaseException | None = None
        self._epochs, self._kwargs, self._upstream = epochs, kwargs, upstream
        self._attach = attach
        self.start()

    def run(self) -> None:
        try:
            if self._upstream is not None:
                self._train(self._upstream)
            else:
                with serve.attach(self.server, **self._attach) as attached:
                    self._train(attached)
        except BaseException as error:
            self.error = error

    def _train(self, upstream: Any) -> None:
        loader = EchoLoader(upstream, **self._kwargs)
        for _ in range(self._epochs):
            self.served.append([])
            for batch in loader:
                self.served[-1].append(self.kept(batch))

    def kept(self, batch: Any) -> Any:
        """Return what `served` has of a batch: the numbers of its examples."""
        return ids_of(batch)

    def end(self) -> list[list[Any]]:
        """Return the served batches; raise the error of the thread."""
        self.join(60)
        assert not self.is_alive(), "a job hangs"
        if self.error is not None:
            raise self.error
        return self.served


def server_thread() -> threading.Thread:
    """Return the thread of the one server that runs here."""
    serving = [each for each in threading.enumerate() if each.name == "echobuf-serve"]
    (thread,) = (each for each in serving if each.is_alive())  # and has not returned
    return thread


# `Server` is public, and these parts of it are not; tests take them from here alone.


def stopped_of(server: serve.Server) -> Signal:
    """Return what is set as `close` begins."""
    return server._stopped  # noqa: SLF001 - see above


def ring_of(server: serve.Server) -> SharedRing:
    return server._ring  # noqa: SLF001 - see above


def loop_of(server: serve.Server) -> ServerLoop:
    return server._loop  # noqa: SLF001 - see above


def upstream_of(server: serve.Server) -> ServerUpstream:
    return server._upstream  # noqa: SLF001 - see above


def close_at_gate(
    server: serve.Server, go_on: threading.Event, *, restarting: bool = False
) -> None:
    """Close the server while upstream waits for `go_on`, that is, within this epoch."""
    closing = threading.Thread(target=server.close, kwargs={"restarting": restarting})
    closing.start()
    assert stopped_of(server).wait(60)
    go_on.set()
    closing.join()


class GatedServer:
    """A server whose upstream waits at example 40, until the server is closed."""

    def __init__(self, n: int = 100, **options: Any) -> None:
        self._go_on = threading.Event()
        self._upstream = Numbers(n, lambda i: i < 40 or self._go_on.wait(60))
        self.server = serve.Server(self._upstream, NAME, window=8, **options)

    def close(self, *, restarting: bool = False) -> None:
        """Close the server within this epoch, when 40 examples are made."""
        from helpers import until  # which programs of the tests have not

        until(lambda: self._upstream.made == 40)
        close_at_gate(self.server, self._go_on, restarting=restarting)


def all_of(epoch: list[list[int]]) -> list[int]:
    """Return the examples served in an epoch."""
    return list(itertools.chain.from_iterable(epoch))


def counts_of(epoch: list[list[int]], n: int) -> list[int]:
    """Return how often each example was served."""
    return np.bincount(all_of(epoch), minlength=n).tolist()
