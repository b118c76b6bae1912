"""`attach(name)`: a server's examples as the upstream of a loader."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from echobuf.closing import Closing
from echobuf.errors import OptionError
from echobuf.serve.link import Link
from echobuf.serve.supply import Supply


class Attached(Closing):
    """A job's place at a server: give it to a loader as its upstream.

    `EchoLoader(attach("imagenet"), batch_size=..., window=..., factor=...)`, torch's
    and JAX's alike, has a factor, a seed, an order and a device of its own; its window
    lies in the memory of the server, and nothing is copied there. Its first epoch is
    the next one that the server begins. Iterating a loader waits for that.

    It is for one loader, and one process. Examples of an epoch that is left before its
    end are given up.

    Args:
        name: of the server.
        job: by which the server knows this job; it must be the only one. Any unless
            told.
        timeout: seconds to wait for the server to be there.
        reconnect: seconds to wait for it to come back when it has gone.

    Attributes:
        name: of the server.
        job: by which the server knows this job.
        spec: what one example looks like: a pytree of `Field`s.

    Raises:
        OptionError: there is no such server, it is of another version of echobuf or
            another user's, or has a job of that name.
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
        link = Link(
            name,
            job,
            _check_seconds("timeout", timeout),
            _check_seconds("reconnect", reconnect),
        )
        self.name = link.name
        self.job = link.job
        self.spec = link.sample.tree
        self._length = link.length
        # The loader's alone once it has begun: a job that drops it leaves the server.
        self._link: Link | None = link
        self._held = weakref.ref(link)
        self._supply: weakref.ref[Supply] | None = None  # the loader's

    def __len__(self) -> int:
        """Fresh examples an epoch.

        Raises:
            TypeError: the server does not know.
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
        """Leaves the server, which keeps nothing for this job any more.

        What a loader has not served of it is given up.
        """
        link = self._held()
        if link is not None:
            link.close()

    def _take(self) -> Supply:
        """For the one loader that has this."""
        taken = self._supply is not None and self._supply() is not None
        if taken or self._link is None:
            raise OptionError(
                "`upstream` is attached to a server for another loader; attach once "
                "for each loader."
            )
        supply = Supply(self._link, weakref.WeakMethod(self._begun))
        self._supply = weakref.ref(supply)
        return supply

    def _begun(self) -> None:
        """The loader has."""
        self._link = None


def _check_seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise OptionError(f"`{name}` is {value!r}; it must be a number of seconds.")
    return seconds
