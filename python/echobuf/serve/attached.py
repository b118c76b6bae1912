"""`attach(name)`: a server's examples as the upstream of a loader."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from echobuf.errors import OptionError
from echobuf.resources import Closing
from echobuf.serve.connection import Connection
from echobuf.serve.reader import ServerReader


class Attached(Closing):
    """A job that is attached to a server: give it to a loader as its upstream.

    A loader over it (`echobuf`'s, torch's or JAX's) has its own factor, seed, order and
    device. Its window lies in the memory of the server; examples are not copied there.
    Its first epoch is the next one that the server begins: iterating the loader waits
    for that.

    It serves one loader, in one process. If the loader leaves an epoch before its end,
    the rest of the epoch is given up.

    Args:
        name: of the server.
        job: name of this job at the server, which no other attached job has; generated
            by default.
        timeout: seconds to wait for the server to start.
        reconnect: seconds to wait for a server that has gone to come back.

    Attributes:
        name: of the server.
        job: name of this job at the server.
        spec: of one example: a pytree of `Field`s.

    Raises:
        OptionError: there is no such server, it is of another version of echobuf or
            another user's, or has a job of that name.

    Examples:
        >>> with echobuf.serve.Server(range(6), "numbers", window=6):
        ...     upstream = echobuf.serve.attach("numbers", job="first")
        ...     print(upstream.name, upstream.job, upstream.spec)
        ...     loader = EchoLoader(upstream, batch_size=3, window=6, factor=1)
        ...     print(sorted(i for batch in loader for i in batch.tolist()))
        ...     loader.close()
        ...     upstream.close()
        numbers first Field(shape=(), dtype=dtype('int64'))
        [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        name: str,
        *,
        job: str | None = None,
        timeout: float = 0.0,
        reconnect: float = 60.0,
    ) -> None:
        if job is not None and (not isinstance(job, str) or not job):
            raise OptionError(f"`job` is {job!r}; it must be a string, or None.")
        connection = Connection(
            name,
            job,
            _check_seconds("timeout", timeout),
            _check_seconds("reconnect", reconnect),
        )
        self.name = connection.name
        self.job = connection.job
        self.spec = connection.spec.tree
        self._length = connection.info.length
        # Held by the loader alone once it has begun: dropping that detaches the job.
        self._connection: Connection | None = connection
        self._held = weakref.ref(connection)
        self._reader: weakref.ref[ServerReader] | None = None  # the loader's

    def __len__(self) -> int:
        """Return the number of fresh examples an epoch.

        Raises:
            TypeError: the server does not know it.
        """
        if self._length is None:
            raise TypeError(f"the server {self.name!r} does not know its length")
        return self._length

    def __iter__(self) -> Iterator[Any]:
        raise OptionError(
            "what `attach` gives is read by a loader alone, without a copy: "
            "`EchoLoader(attach(...), batch_size=..., window=...)`; with factor=1 each "
            "example is served once."
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "what `attach` gives is of one process and cannot be copied or pickled; "
            "in another process, attach there."
        )

    def __repr__(self) -> str:
        return f"attach({self.name!r}, job={self.job!r})"

    def close(self) -> None:
        """Detach from the server, which keeps no examples for this job any more.

        Examples that a loader has not served yet are given up.
        """
        connection = self._held()
        if connection is not None:
            connection.close()

    def __echobuf_reader__(self) -> ServerReader:
        """Return the reader for a loader; at most one loader has one at a time.

        Raises:
            OptionError: another loader has it.
        """
        taken = self._reader is not None and self._reader() is not None
        if taken or self._connection is None:
            raise OptionError(
                "`upstream` is attached to a server for another loader; attach once "
                "for each loader."
            )
        reader = ServerReader(self._connection, weakref.WeakMethod(self._begun))
        self._reader = weakref.ref(reader)
        return reader

    def _begun(self) -> None:
        """Leave the connection to the loader, which has begun."""
        self._connection = None


def _check_seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise OptionError(f"`{name}` is {value!r}; it must be a number of seconds.")
    return seconds
