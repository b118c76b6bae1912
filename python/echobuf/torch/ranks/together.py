"""An epoch of one rank, as long as all ranks agree that it is."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from echobuf.errors import ForkError, UpstreamError
from echobuf.loader.epoch import Epoch
from echobuf.torch.ranks.beginning import Beginning
from echobuf.torch.ranks.hand import Hand, copy_of
from echobuf.torch.ranks.record import Record, Standing, Verdict, explain, judge
from echobuf.torch.ranks.words import in_words
from echobuf.uncopied import Uncopied

_SLICE_S = 0.25  # of a wait for upstream, between looks at the others
_NEEDED = 2  # batches beyond those handed out that others may wait for


class Together(Uncopied, Iterator[Any]):
    """Hands out the batches that every rank has.

    A rank says how many it has in hand. A batch goes out when it is known of all ranks
    that they have it, and what comes after it: so a rank needs nobody any more when the
    last one is out, and may end its process.

    Args:
        epoch: of this rank.
        begin: waits for the other ranks, before the first draw.
        pad: a rank that has ended hands out its last batch again until all have; else
            the epoch ends with the rank that ends first.
        ahead: batches to have in hand.
        finished: called once, when the epoch has come to its end.
    """

    _called = "an iterator of an EchoLoader"

    def __init__(
        self,
        epoch: Epoch,
        begin: Beginning,
        *,
        pad: bool,
        ahead: int,
        finished: Callable[[], None],
    ) -> None:
        self._epoch = epoch
        self._begin: Beginning | None = begin
        self._pad = pad
        self._ahead = max(ahead, _NEEDED)
        self._finished: Callable[[], None] | None = finished
        self._hand = Hand()
        self._padding: Any = None  # the last batch, once it is known to be that
        self._count = 0  # batches drawn
        self._standing = Standing.ON
        self._why = ""
        self._heard: list[Record] = []  # what all ranks have said last
        self._agreed = 0  # batches that all ranks have
        self._verdict: Verdict | None = None  # of what comes after these
        self._failure: Exception | None = None  # of this rank's upstream
        self._error: Exception | None = None  # that ended the epoch
        self._superseded = False
        self._is_open = False  # from the first draw to the end
        self._process = os.getpid()

    def _start(self, begin: Beginning) -> None:
        try:
            self._session, self._progress = begin(self._epoch)
        except Exception as error:
            self._begin, self._error = None, _again(error)
            raise
        self._begin = None
        self._first_is_padding = self._progress.place.again
        self._written = Record()
        self._is_open = True

    def __next__(self) -> Any:
        if self._superseded:
            raise self._epoch.why_ended()
        if os.getpid() != self._process:
            raise ForkError(
                "this iterator was made in the process that this one was forked from, "
                "and is one of the ranks there."
            )
        if self._begin is not None:
            self._start(self._begin)
        if self._error is not None:
            raise _again(self._error)
        batch = self._progress.place.batches + 1
        try:
            if self._verdict is None:
                self._draw_ahead()
                self._settle(batch)
            if self._agreed >= batch:
                self._settle(batch + 1)
                return self._take(batch)
        except UpstreamError as error:  # from the others: one of them is gone
            self._say_that(Standing.ALONE, str(error))
            self._error = _again(error)
            self._close()
            raise
        raise self._end()

    def _take(self, batch: int) -> Any:
        progress = self._progress
        last = self._agreed == batch and self._verdict is Verdict.END
        if len(self._hand) == 0:
            taken = copy_of(self._padding)
            progress.hand_out_last()
        else:
            taken, position = self._hand.first()
            is_own_last = len(self._hand) == 1 and self._standing is Standing.ENDED
            if self._pad and is_own_last:
                self._padding = taken if last else copy_of(taken)
                progress.hand_out_last()
            else:
                progress.hand_out(position)
            self._hand.drop_first()
        progress.done = last
        if not last:  # else the others may have ended, and the store with them
            self._session.write(self._unwritten(), progress.place)
        return taken

    def _end(self) -> BaseException:
        """Ends the epoch; what to raise."""
        self._close()
        if self._verdict is Verdict.END:
            self._progress.done = True
            if self._finished is not None:
                self._finished()
                self._finished = None
            return StopIteration()
        if self._error is None:
            self._error = self._explain()
        return _again(self._error)

    def _explain(self) -> Exception:
        """The error that ends the epoch, on this rank."""
        if self._failure is not None and self._count == self._agreed:
            return self._failure
        names = self._session.meeting.members
        return explain(self._agreed + 1, self._heard, names)

    # ---- drawing ahead, and saying so

    def _draw_ahead(self) -> None:
        """Draws what is there, as far as that does not wait."""
        most = self._progress.place.batches + self._ahead
        while self._standing is Standing.ON and self._count < most:
            if not self._epoch.ready():
                break
            self._draw(None)

    def _draw(self, timeout: float | None) -> None:
        try:
            batch = self._epoch.draw(timeout)
        except TimeoutError:
            return
        except StopIteration:
            bare = self._pad and self._count == 0 and self._padding is None
            self._standing = Standing.BARE if bare else Standing.ENDED
        except Exception as error:
            self._standing = Standing.FAILED
            self._failure = error.with_traceback(None)
            self._why = in_words(error)
        else:
            if self._first_is_padding:
                self._padding, self._first_is_padding = batch, False
                return
            self._hand.add(batch, self._epoch.position())
            self._count += 1

    def _unwritten(self) -> Record | None:
        """How it stands, if that is not written, and others may be waiting for it."""
        before, batches = self._written, self._progress.place.batches
        new = self._count - before.count
        starving = before.count < batches + _NEEDED
        enough = 2 * new >= self._ahead or (starving and new > 0)
        if not enough and self._standing is before.standing:
            return None
        self._written = Record(self._count, self._standing, self._why)
        return self._written

    def _say(self) -> None:
        """Writes it down, if this rank is about to wait."""
        self._session.write(self._unwritten())

    # ---- coming to know

    def _settle(self, batch: int) -> None:
        """Comes to know what becomes of a batch; draws it, if this rank has not."""
        while not self._is_settled(batch):
            self._say()
            if self._standing is not Standing.ON or self._count >= batch:
                self._session.meeting.wait_for(
                    lambda: self._read(batch) or None, self._missing
                )
            elif not self._read(batch):
                self._draw(_SLICE_S)
                if self._count < batch and not self._read(batch):
                    self._look_around(batch)

    def _look_around(self, batch: int) -> None:
        """While upstream is slow: whether the others are there."""
        try:
            self._session.meeting.check_alive()
        except UpstreamError:
            # Who is gone may have said all that is needed before.
            if not self._read(batch):
                raise

    def _missing(self) -> str:
        counts = [record.count for record in self._heard]
        ranks = zip(self._session.meeting.members, counts, strict=True)
        behind = [str(rank) for rank, count in ranks if count == min(counts)]
        return f"the batch after {min(counts)} of rank {', '.join(behind)}"

    def _is_settled(self, batch: int) -> bool:
        return self._agreed >= batch or self._verdict is not None

    def _read(self, batch: int) -> bool:
        """Looks at what all ranks say; whether it is known what becomes of a batch."""
        records = self._heard = self._session.read()
        most = max(record.count for record in records)
        while self._verdict is None and self._agreed <= most:
            verdict = judge(self._agreed + 1, records, self._pad)
            if verdict is Verdict.GO:
                self._agreed += 1
            elif verdict is Verdict.WAIT:
                break
            else:
                self._verdict = verdict
        return self._is_settled(batch)

    # ---- the end

    def supersede(self) -> None:
        """Ends this epoch for good; waits until upstream's current call returns."""
        self._superseded = True
        self._say_that(Standing.LEFT)
        self._epoch.supersede()
        self._close()

    def _say_that(self, standing: Standing, why: str = "") -> None:
        """Tells the others that this rank goes on no further, if they may wait."""
        if self._verdict is not None or self._error is not None:
            return
        if self._begin is not None:
            session = self._begin.session
        elif self._is_open:
            session = self._session
        else:
            return
        if session is None:
            return
        batches = self._progress.place.batches if self._is_open else 0
        with contextlib.suppress(UpstreamError):  # nobody is there to be told
            session.write(Record(batches, standing, why))

    def _close(self) -> None:
        self._is_open = False
        self._epoch.give_way()
        self._hand.clear()

    def __del__(
        self,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        getpid: Callable[[], int] = os.getpid,
    ) -> None:
        # What is imported may be gone by then.
        if getattr(self, "_process", None) != getpid() or is_finalizing():
            return
        self._say_that(Standing.LEFT)


def _again(error: Exception) -> Exception:
    """The same error, without the frames that it has been raised through."""
    another = copy.copy(error)
    another.__cause__ = error.__cause__
    return another
