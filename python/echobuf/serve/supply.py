"""What of a loader's work a server does: the epochs, the spec, and the slots."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from echobuf import _core
from echobuf._engine.engine import Engine
from echobuf.buffer import EchoBuffer, engine_of
from echobuf.errors import OptionError, StateError
from echobuf.host_backend import HostBackend
from echobuf.loader.readers import FeedRequest
from echobuf.loader.upstream import Start
from echobuf.serve.following import FollowFeeder, Held
from echobuf.serve.link import Link, unopened

_SLICE_S = 0.25


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
        pool: there are no worker processes here.
        is_pool: the server has its own processes.
    """

    pool = None
    is_pool = False

    def __init__(
        self, link: Link, begun: Callable[[], Callable[[], None] | None]
    ) -> None:
        self._link = link
        self._begun = begun
        self._next: int | None = None
        self._turn: Turn | None = None
        self._follower: _core.Follower | None = None
        self._buffer: EchoBuffer | None = None
        self._feeder: FollowFeeder | None = None  # of the epoch begun last
        self._held = Held()

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
        self._leave_held()  # or the server might wait for this job
        while True:
            self._link.check()
            code, epoch, base = place.wait_epoch(self._next, _SLICE_S)
            if code == 0:
                self._held.epoch = epoch  # first: an epoch that is taken is fed or left
                self._next = epoch + 1
                return Turn(epoch, base)
            self._link.raise_for(code)

    def _leave_held(self) -> None:
        """Leave an epoch that will not be fed; nothing before it is drawn any more."""
        held = self._held.epoch
        if held is not None:
            if self._buffer is not None:
                self._buffer.reset(engine_of(self._buffer).epoch)
            self._next = held + 1
            self._link.place.leave(held + 1)
            self._held.epoch = None  # last: what is interrupted is done again

    def close(self) -> None:
        """Leave the server."""
        self._link.close()

    def is_ready(self) -> bool:
        """Whether the next epoch has begun, or never will.

        None is begun ahead while one is held: that is left once nothing is drawn.
        """
        if self._held.epoch is not None:
            return False
        code, _, _ = self._link.place.wait_epoch(self._next, 0.0)
        return code != _core.FOLLOWED_TIMEOUT

    # ---- as worker processes do

    def first_item(self, start: Start) -> Any:
        """Return an example of zeros, like those that come."""
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
            CapacityError: the slots cannot be mapped.
        """
        assert self._turn is not None
        if arguments["window"] > self._link.window:
            raise OptionError(
                f"`window` is {arguments['window']:,}, and the server "
                f"{self._link.name!r} is for windows of {self._link.window:,} at most; "
                "make it smaller, or `window` of the server larger."
            )
        on_device = arguments["device"] != "cpu"
        if on_device and self._link.spilled:
            raise OptionError(
                f"`device` is {arguments['device']!r}, and the server keeps examples "
                "on a disk, from which a device cannot read: leave `spill` of the "
                "server out."
            )
        try:
            lent = self._link.place.lend(self._link.memory, self._turn.base, on_device)
        except (RuntimeError, MemoryError) as error:
            raise unopened(self._link.name, error) from error
        self._buffer = LentBuffer(spec, lent, self._link, **arguments)
        backend = engine_of(self._buffer).backend
        slots = self._link.place.slots()
        if isinstance(backend, HostBackend):
            if backend.slots > slots:
                raise OptionError(
                    f"`window` is {arguments['window']}, which needs {backend.slots} "
                    f"slots, and the server {self._link.name!r} has {slots}; make it "
                    "smaller, or `window` of the server larger."
                )
            self._follower = _core.Follower(backend.core, self._link.place)
        else:
            self._follower = _core.DeviceFollower(backend.core, self._link.place)
        return self._buffer

    def feed(self, engine: Engine, request: FeedRequest) -> FollowFeeder:
        """Feeds an epoch.

        Raises:
            StateError: it is to go on in the middle of one.
        """
        turn: Turn = request.start.first
        if request.needed > 0:
            raise StateError(
                "`state` was taken in the middle of an epoch, and what a server has "
                "served does not come again; take states between epochs, or give the "
                "loader an upstream of its own."
            )
        follower = self._follower
        assert follower is not None
        if self._feeder is not None:
            self._feeder.join()  # a follower is one thread's
        if engine.is_draining():  # the epoch before is still served: this one is ahead
            self._link.place.leave(turn.epoch - 1)
        else:
            self._link.place.leave(turn.epoch)
            gap = follower.gap(turn.base)
            if gap:
                engine.reset(engine.epoch, gap)
        follower.begin(turn.base)
        feeder = FollowFeeder(engine, follower, self._link, turn.epoch, self._held)
        self._feeder = feeder
        if not feeder.is_stopped():
            self._held.epoch = None
        return feeder


class LentBuffer(EchoBuffer):
    """A buffer whose slots are a server's."""

    def __init__(
        self, spec: Any, lent: _core.BorrowedSlots, link: Link, **arguments: Any
    ) -> None:
        self._lent = lent
        super().__init__(spec, **arguments)
        engine_of(self).termination.cut_off = link.why_cut_off
        link.buffer = weakref.ref(self)
