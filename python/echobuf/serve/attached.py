"""`attach(name)`: a server's examples as the upstream of a loader."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from echobuf import _core
from echobuf.buffer import EchoBuffer
from echobuf.errors import OptionError, StateError, UpstreamError
from echobuf.loader.upstream import Start
from echobuf.serve.following import FollowFeeder
from echobuf.serve.link import Link, left
from echobuf.side_host import HostSide

_SLICE_S = 0.25


class Attached:
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
        supply = None if self._supply is None else self._supply()
        if supply is not None:
            supply.close()
        link = self._held()
        if link is not None:
            link.close()

    def __enter__(self) -> Attached:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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


@dataclass(frozen=True)
class Turn:
    """An epoch of the server's.

    Attributes:
        epoch: its number there.
        base: the position of its first example.
    """

    epoch: int
    base: int


class Supply:
    """What of a loader's work is done by a server.

    Args:
        link: to it.
        begun: called when the first epoch is asked for, if that is still there.

    Attributes:
        crew: there are no worker processes here.
    """

    crew = None

    def __init__(
        self, link: Link, begun: Callable[[], Callable[[], None] | None]
    ) -> None:
        self._link = link
        self._begun = begun
        self._next: int | None = None
        self._turn: Turn | None = None
        self._follower: _core.Follower | None = None
        self._buffer: EchoBuffer | None = None

    # ---- what is iterated: turns

    def __iter__(self) -> Iterator[Turn]:
        yield self._await_turn()

    def __len__(self) -> int:
        if self._link.length is None:
            raise TypeError(f"the server {self._link.name!r} does not know its length")
        return self._link.length

    def _await_turn(self) -> Turn:
        place = self._link.place
        if (begun := self._begun()) is not None:
            begun()
        while True:
            self._link.check()
            code, epoch, base = place.wait_epoch(self._next, _SLICE_S)
            if code == 0:
                self._next = epoch + 1
                return Turn(epoch, base)
            raise_for(code, self._link)

    def is_ready(self) -> bool:
        """Whether the next epoch has begun, or never will."""
        code, _, _ = self._link.place.wait_epoch(self._next, 0.0)
        return code != _core.FOLLOWED_TIMEOUT

    # ---- as worker processes do

    @property
    def example(self) -> Any:
        """One like those that come."""
        return self._link.sample.example()

    def check(self, start: Start) -> Start:
        """Notes which turn it is."""
        if start.items is not None:
            self._turn = start.first
        return start

    def make_buffer(self, spec: Any, **arguments: Any) -> EchoBuffer:
        """A buffer over the server's slots.

        Raises:
            OptionError: its window is larger than those that the server is for.
        """
        assert self._turn is not None
        on_device = arguments["device"] != "cpu"
        if on_device and self._link.spilled:
            raise OptionError(
                f"`device` is {arguments['device']!r}, and the server keeps examples "
                "on a disk, from which a device cannot read: leave `spill` of the "
                "server out."
            )
        lent = self._link.place.lend(self._link.memory, self._turn.base, on_device)
        self._buffer = LentBuffer(spec, lent, self._link, **arguments)
        side = self._buffer._side
        slots = self._link.place.slots()
        if isinstance(side, HostSide):
            if side.slots > slots:
                raise OptionError(
                    f"`window` is {arguments['window']}, which needs {side.slots} "
                    f"slots, and the server {self._link.name!r} has {slots}; make it "
                    "smaller, or `window` of the server larger."
                )
            self._follower = _core.Follower(side.core, self._link.place)
        else:
            self._follower = _core.DeviceFollower(side.core, self._link.place)
        return self._buffer

    def feed(self, buffer: EchoBuffer, start: Start, needed: int) -> FollowFeeder:
        """Feeds an epoch.

        Raises:
            StateError: it is to go on in the middle of one.
        """
        turn: Turn = start.first
        if needed > 0:
            raise StateError(
                "`state` was taken in the middle of an epoch, and what a server has "
                "served does not come again; take states between epochs, or give the "
                "loader an upstream of its own."
            )
        follower = self._follower
        assert follower is not None
        if buffer._draining():  # the epoch before is still served: this one is ahead
            self._link.place.leave(turn.epoch - 1)
        else:
            self._link.place.leave(turn.epoch)
            gap = follower.gap(turn.base)
            if gap:
                buffer._reset(buffer._epoch, gap)
        follower.begin(turn.base)
        return FollowFeeder(buffer, follower, self._link, turn.epoch)

    def close(self) -> None:
        """The server is left: nothing more can be drawn."""
        if self._buffer is not None:
            self._buffer.fail(left())


class LentBuffer(EchoBuffer):
    """A buffer whose slots are a server's."""

    def __init__(
        self, spec: Any, lent: _core.LentSlots, link: Link, **arguments: Any
    ) -> None:
        self._lent = lent
        super().__init__(spec, **arguments)
        self._ends.cut_off = link.why_cut_off


def raise_for(code: int, link: Link) -> None:
    """Raises what a code of the core's means; nothing for one that means to wait."""
    link.check()
    if code == _core.FOLLOWED_DROPPED:
        raise link.why_cut_off()
    if code == _core.FOLLOWED_OVER:
        raise UpstreamError(f"the server {link.name!r} has served all of its epochs.")
    if code == _core.FOLLOWED_FAILED:
        raise UpstreamError(
            f"upstream of the server {link.name!r} failed: {link.place.why()}"
        )


def _check_seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not seconds >= 0:
        raise OptionError(f"`{name}` is {value!r}; it must be a number of seconds.")
    return seconds
