"""The iterator of an epoch whose length all ranks agree on."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import optree
import torch

from echobuf.errors import ForkError, UpstreamError
from echobuf.loader.epoch import EpochIterator
from echobuf.ranks.agreement import (
    Decision,
    RankReport,
    RankStatus,
    Rendezvous,
    decide,
    explain_failure,
)
from echobuf.ranks.liveness import format_error
from echobuf.ranks.states import State
from echobuf.resources import Uncopied
from echobuf.trees import NAMESPACE

_SLICE_S = 0.25  # of a wait for upstream, between two reads of the reports
_LEAST_AHEAD = 2  # batches beyond those handed out that other ranks may wait for


class RankIterator(Uncopied, Iterator[Any]):
    """An iterator over the batches that every rank has.

    A rank reports how many batches it has drawn. A batch is handed out when it is known
    that all ranks have it, and what the decision on the next one is: so a rank needs no
    other any more when its last batch is handed out, and its process may end.

    Args:
        epoch: of this rank.
        rendezvous: waits for the other ranks, before the first draw.
        pad: a rank that has ended hands out its last batch again until all have ended;
            else the epoch ends with the rank that ends first.
        ahead: batches to draw ahead.
        end_epoch: returns the function that is called once, when the epoch has ended on
            all ranks; None where the loader is gone.
    """

    _called = "an iterator of an EchoLoader"

    def __init__(
        self,
        epoch: EpochIterator,
        rendezvous: Rendezvous,
        *,
        pad: bool,
        ahead: int,
        end_epoch: Callable[[], Callable[[], None] | None],
    ) -> None:
        self._epoch = epoch
        self._rendezvous: Rendezvous | None = rendezvous
        self._pad = pad
        self._ahead = max(ahead, _LEAST_AHEAD)
        self._end_epoch: Callable[[], Callable[[], None] | None] | None = end_epoch
        # Batches drawn and not handed out: each with the buffer's position after it,
        # and on a device the stream that it was drawn on and an event there.
        self._drawn: deque[tuple[Any, State, tuple[Any, Any] | None]] = deque()
        self._padding: Any = None  # the last batch, once it is known to be the last
        self._count = 0  # batches drawn
        self._status = RankStatus.RUNNING
        self._reason = ""
        self._reports: list[RankReport] = []  # of all ranks, as read last
        self._agreed = 0  # batches that all ranks have
        self._decision: Decision | None = None  # on the batch after these, once final
        self._failure: Exception | None = None  # of this rank's upstream
        self._error: Exception | None = None  # that ended the epoch
        self._is_superseded = False
        self._is_open = False  # from the first draw to the end
        self._process = os.getpid()
        # Held during a draw; never by what ends the epoch from outside. Reentrant, for
        # a signal handler may draw.
        self._drawing = threading.RLock()

    def _start(self, rendezvous: Rendezvous) -> None:
        try:
            self._agreement, self._progress = rendezvous(self._epoch)
        except Exception as error:
            self._rendezvous, self._error = None, _without_frames(error)
            raise
        self._rendezvous = None
        self._first_is_padding = self._progress.at.again
        self._written = RankReport()
        self._is_open = True

    def __next__(self) -> Any:
        """Return the next batch; wait until every rank has it.

        Several threads may draw: each batch goes to one of them.
        """
        with self._drawing:
            return self._next()

    def _next(self) -> Any:
        if self._is_superseded:
            raise self._epoch.why_ended()
        if os.getpid() != self._process:
            raise ForkError(
                "this iterator was made in the process that this one was forked from, "
                "and is one of the ranks there."
            )
        if self._rendezvous is not None:
            self._start(self._rendezvous)
        if self._error is not None:
            raise _without_frames(self._error)
        batch = self._progress.at.batches + 1
        try:
            if self._decision is None:
                self._draw_ahead()
                self._wait_for_decision(batch)
            if self._agreed >= batch:
                self._wait_for_decision(batch + 1)
                return self._hand_out(batch)
        except UpstreamError as error:  # of the agreement: another rank is gone
            self._report_stop(RankStatus.ORPHANED, str(error))
            self._error = _without_frames(error)
            self._close()
            raise
        raise self._end()

    def _hand_out(self, batch: int) -> Any:
        progress = self._progress
        is_last = self._agreed == batch and self._decision is Decision.END
        if not self._drawn:
            taken = copy_batch(self._padding)
            progress.hand_out_last()
        else:
            taken, position, drawn_on = self._drawn[0]
            if drawn_on is not None:  # the caller may take it on another stream
                _make_valid(taken, *drawn_on)
            is_own_last = len(self._drawn) == 1 and self._status is RankStatus.ENDED
            if self._pad and is_own_last:
                self._padding = taken if is_last else copy_batch(taken)
                progress.hand_out_last()
            else:
                progress.hand_out(position)
            self._drawn.popleft()
        progress.is_done = is_last
        if not is_last:  # else the others may have ended, and the store with them
            self._agreement.write(self._next_report(), progress.at)
        return taken

    def _end(self) -> BaseException:
        """End the epoch; return the exception to raise."""
        self._close()
        if self._decision is Decision.END:
            self._progress.is_done = True
            if self._end_epoch is not None:
                end_epoch, self._end_epoch = self._end_epoch(), None
                if end_epoch is not None:
                    end_epoch()
            return StopIteration()
        if self._error is None:
            self._error = self._explain()
        return _without_frames(self._error)

    def _explain(self) -> Exception:
        """Return the error that ends the epoch on this rank."""
        if self._failure is not None and self._count == self._agreed:
            return self._failure
        members = self._agreement.store.members
        return explain_failure(self._agreed + 1, self._reports, members)

    # ---- drawing ahead, and reporting it

    def _draw_ahead(self) -> None:
        """Draw as many batches as can be drawn without waiting."""
        most = self._progress.at.batches + self._ahead
        while self._status is RankStatus.RUNNING and self._count < most:
            if not self._epoch.ready():
                break
            self._draw(None)

    def _draw(self, timeout: float | None) -> None:
        try:
            batch = self._epoch.draw(timeout)
        except TimeoutError:
            return
        except StopIteration:
            is_empty = self._pad and self._count == 0 and self._padding is None
            self._status = RankStatus.EMPTY if is_empty else RankStatus.ENDED
        except Exception as error:
            self._status = RankStatus.FAILED
            self._failure = error.with_traceback(None)
            self._reason = format_error(error)
        else:
            if self._first_is_padding:
                self._padding, self._first_is_padding = batch, False
                return
            self._drawn.append((batch, self._epoch.position(), _record_event(batch)))
            self._count += 1

    def _next_report(self) -> RankReport | None:
        """Return a report if it is new and other ranks may wait for it."""
        last, batches = self._written, self._progress.at.batches
        new = self._count - last.count
        is_awaited = last.count < batches + _LEAST_AHEAD
        is_due = 2 * new >= self._ahead or (is_awaited and new > 0)
        if not is_due and self._status is last.status:
            return None
        self._written = RankReport(self._count, self._status, self._reason)
        return self._written

    # ---- the decision on a batch

    def _wait_for_decision(self, batch: int) -> None:
        """Wait for the decision on a batch; draw it, if this rank has not."""
        while not self._is_decided(batch):
            self._agreement.write(self._next_report())
            if self._status is not RankStatus.RUNNING or self._count >= batch:
                self._agreement.store.wait_for(
                    lambda: self._read(batch) or None, self._missing
                )
            elif not self._read(batch):
                self._draw(_SLICE_S)
                if self._count < batch and not self._read(batch):
                    self._check_liveness(batch)

    def _check_liveness(self, batch: int) -> None:
        """Check the other ranks, while this one waits for its upstream."""
        try:
            self._agreement.store.liveness.check()
        except UpstreamError:
            # A rank that is gone may have written its last report before.
            if not self._read(batch):
                raise

    def _missing(self) -> str:
        counts = [report.count for report in self._reports]
        ranks = zip(self._agreement.store.members, counts, strict=True)
        behind = [str(rank) for rank, count in ranks if count == min(counts)]
        return f"the batch after {min(counts)} of rank {', '.join(behind)}"

    def _is_decided(self, batch: int) -> bool:
        return self._agreed >= batch or self._decision is not None

    def _read(self, batch: int) -> bool:
        """Read the reports; return whether there is a decision on the batch."""
        reports = self._reports = self._agreement.read()
        most = max(report.count for report in reports)
        while self._decision is None and self._agreed <= most:
            decision = decide(self._agreed + 1, reports, self._pad)
            if decision is Decision.SERVE:
                self._agreed += 1
            elif decision is Decision.WAIT:
                break
            else:
                self._decision = decision
        return self._is_decided(batch)

    # ---- the end

    def supersede(self) -> None:
        """End this epoch for good; wait until upstream's current call returns."""
        self._is_superseded = True
        self._report_stop(RankStatus.LEFT)
        self._epoch.supersede()
        self._close()

    def _report_stop(self, status: RankStatus, reason: str = "") -> None:
        """Report to the others that this rank stops, if they may wait for it."""
        if self._decision is not None or self._error is not None:
            return
        if self._rendezvous is not None:
            agreement = self._rendezvous.agreement
        elif self._is_open:
            agreement = self._agreement
        else:
            return
        if agreement is None:
            return
        batches = self._progress.at.batches if self._is_open else 0
        with contextlib.suppress(UpstreamError):  # no other rank is left
            agreement.write(RankReport(batches, status, reason))

    def _close(self) -> None:
        self._is_open = False
        self._epoch.give_way()
        self._drawn.clear()

    def __del__(
        self,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
        getpid: Callable[[], int] = os.getpid,
    ) -> None:
        # Imported modules may be gone by then.
        if getattr(self, "_process", None) != getpid() or is_finalizing():
            return
        self._report_stop(RankStatus.LEFT)


def _without_frames(error: Exception) -> Exception:
    """Return a copy of an error without the frames that it was raised through."""
    another = copy.copy(error)
    another.__cause__ = error.__cause__
    return another


def copy_batch(batch: Any) -> Any:
    """Return a batch with copies of its tensors, and of its lists of objects."""
    return optree.tree_map(
        _copy_leaf, batch, is_leaf=_holds_no_tensor, namespace=NAMESPACE
    )


def _holds_no_tensor(node: Any) -> bool:
    return type(node) is list and not _tensors_of(node)


def _copy_leaf(leaf: Any) -> Any:
    return torch.clone(leaf) if isinstance(leaf, torch.Tensor) else copy.copy(leaf)


def _tensors_of(batch: Any) -> list[torch.Tensor]:
    leaves = optree.tree_leaves(batch, namespace=NAMESPACE)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _record_event(batch: Any) -> tuple[Any, Any] | None:
    """Return the current stream and an event on it; None for a batch on the CPU."""
    leaf = next(iter(_tensors_of(batch)), None)
    if leaf is None or not leaf.is_cuda:
        return None
    stream = torch.cuda.current_stream(leaf.device)
    return stream, stream.record_event()


def _make_valid(batch: Any, stream: Any, event: Any) -> None:
    """Order a batch's draw before later work on the current stream."""
    leaves = _tensors_of(batch)
    current = torch.cuda.current_stream(leaves[0].device)
    if current == stream:
        return
    current.wait_event(event)
    for leaf in leaves:
        leaf.record_stream(current)
