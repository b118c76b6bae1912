"""An epoch of one rank, as long as all ranks agree that it is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from echobuf.errors import UpstreamError
from echobuf.loader.epoch import Epoch, superseded_error
from echobuf.torch.ranks.hand import Hand, copy_of
from echobuf.torch.ranks.progress import Progress
from echobuf.torch.ranks.record import Record, Standing, Verdict, explain, judge
from echobuf.torch.ranks.session import Session, in_words

_SLICE_S = 0.25  # of a wait for upstream, between looks at the others
_NEEDED = 2  # batches beyond those handed out that others may wait for


class Together(Iterator[Any]):
    """Hands out the batches that every rank has.

    A rank says how many it has in hand. A batch goes out when it is known of all ranks
    that they have it, and what comes after it: so a rank needs nobody any more when the
    last one is out, and may end its process.

    Args:
        epoch: of this rank.
        begin: called before the first draw, waits for the other ranks; gives what they
            talk in, and where this rank notes its progress.
        pad: a rank that has ended hands out its last batch again until all have; else
            the epoch ends with the rank that ends first.
        ahead: batches to have in hand.
        finished: called once, when the epoch has come to its end.
    """

    def __init__(
        self,
        epoch: Epoch,
        begin: Callable[[Epoch], tuple[Session, Progress]],
        *,
        pad: bool,
        ahead: int,
        finished: Callable[[], None],
    ) -> None:
        self._epoch = epoch
        self._begin: Callable[[Epoch], tuple[Session, Progress]] | None = begin
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
        self._error: BaseException | None = None  # that ended the epoch
        self._superseded = False
        self._is_open = False  # from the first draw to the end

    def _start(self) -> None:
        begin = self._begin
        if begin is None:
            return
        try:
            self._session, self._progress = begin(self._epoch)
        except Exception as error:
            self._error = error
            raise
        finally:
            self._begin = None
        self._first_is_padding = self._progress.place.again
        self._written = Record()
        self._is_open = True

    def __next__(self) -> Any:
        if self._superseded:
            raise superseded_error()
        self._start()
        if self._error is not None:
            raise self._error
        batch = self._progress.place.batches + 1
        try:
            if self._is_open:
                self._draw_ahead()
                self._settle(batch)
            if self._agreed >= batch:
                self._settle(batch + 1)
                return self._take(batch)
        except UpstreamError as error:  # from the others: one of them is gone
            self._say_that(Standing.ALONE, str(error))
            self._error = error
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
        self._session.note(progress.place)
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
        return self._error

    def _explain(self) -> BaseException:
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
        self._say()

    def _draw(self, timeout: float | None) -> None:
        try:
            batch = self._epoch.draw(timeout)
        except TimeoutError:
            return
        except StopIteration:
            bare = self._pad and self._count == 0 and self._padding is None
            self._standing = Standing.BARE if bare else Standing.ENDED
        except Exception as error:
            self._standing, self._failure = Standing.FAILED, error
            self._why = in_words(error)
        else:
            if self._first_is_padding:
                self._padding, self._first_is_padding = batch, False
                return
            self._hand.add(batch, self._epoch.position())
            self._count += 1

    def _say(self) -> None:
        """Writes down how it stands, early enough not to be waited for."""
        before, progress = self._written, self._progress
        new = self._count - before.count
        starving = before.count < progress.place.batches + _NEEDED
        enough = 2 * new >= self._ahead or (starving and new > 0)
        if not enough and self._standing is before.standing:
            return
        record = Record(self._count, self._standing, self._why)
        self._session.write(record)
        self._written = record

    # ---- coming to know

    def _settle(self, batch: int) -> None:
        """Comes to know what becomes of a batch; draws it, if this rank has not."""
        while not self._is_settled(batch):
            if self._standing is Standing.ON and self._count < batch:
                self._draw(_SLICE_S)
                self._say()
                self._read(batch)
                if not self._is_settled(batch) and self._count < batch:
                    self._session.meeting.check_alive()
            else:
                self._session.meeting.wait_for(
                    lambda: self._read(batch) or None, "the other ranks' batches"
                )

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
        if not self._is_open or self._verdict is not None or sys.is_finalizing():
            return
        batches = self._progress.place.batches
        with contextlib.suppress(UpstreamError):  # nobody is there to be told
            self._session.write(Record(batches, standing, why))

    def _close(self) -> None:
        self._is_open = False
        self._epoch.give_way()
        self._hand.clear()

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            self._say_that(Standing.LEFT)
