"""The agreement of the ranks on the batches of an epoch: reports and decisions."""

from __future__ import annotations

import contextlib
import enum
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

from echobuf.errors import EchobufError, OptionError, StateError, UpstreamError
from echobuf.loader.epoch import EpochFeed, EpochIterator
from echobuf.ranks import states
from echobuf.ranks.liveness import format_error, format_per_rank
from echobuf.ranks.states import Progress, RankPosition, State
from echobuf.ranks.store import RankStore


class RankStatus(enum.IntEnum):
    """The status of a rank in an epoch; more batches may come from a running one."""

    RUNNING = 0
    ENDED = 1  # its shard is used up
    EMPTY = 2  # its shard had no batch, so it has none to pad with
    FAILED = 3  # its upstream has failed
    LEFT = 4  # its loop was left
    ORPHANED = 5  # it has seen that another rank is gone


@dataclass
class RankReport:
    """A rank's report on its epoch, which the other ranks read as a list of JSON."""

    # Batches that the rank certainly hands out; others may advance so far
    count: int = 0
    status: RankStatus = RankStatus.RUNNING  # of the rank after these
    reason: str = ""  # text of a failure


class Decision(enum.Enum):
    """The decision of all ranks on one batch."""

    SERVE = 0  # all ranks hand it out
    WAIT = 1  # not known yet
    END = 2  # the epoch has ended before it
    FAIL = 3  # a rank will not have it


_ORDERLY = {RankStatus.RUNNING, RankStatus.ENDED, RankStatus.EMPTY}


def decide(batch: int, reports: Sequence[RankReport], pad: bool) -> Decision:
    """Return the decision on batch number `batch`, from 1 on; the earlier are served.

    It is the same on every rank, at whatever time that reads the reports: a count only
    grows until its rank stops. Other than `WAIT`, it is final.
    """
    behind = [report.status for report in reports if report.count < batch]
    if not _ORDERLY.issuperset(behind):
        return Decision.FAIL
    if pad:
        return _decide_padded(behind, len(reports))
    if not behind:
        return Decision.SERVE
    ended = RankStatus.ENDED in behind or RankStatus.EMPTY in behind
    return Decision.END if ended else Decision.WAIT


def _decide_padded(behind: list[RankStatus], ranks: int) -> Decision:
    if RankStatus.RUNNING in behind:
        return Decision.WAIT
    if len(behind) == ranks:
        return Decision.END
    return Decision.FAIL if RankStatus.EMPTY in behind else Decision.SERVE


def explain_failure(
    batch: int, reports: Sequence[RankReport], members: Sequence[int]
) -> UpstreamError:
    """Return the error for `Decision.FAIL`."""
    reasons = []
    for report, member in zip(reports, members, strict=True):
        if report.count >= batch:
            continue
        if report.status is RankStatus.FAILED:
            reasons.append(f"rank {member} failed: {report.reason}")
        elif report.status is RankStatus.ORPHANED and report.reason not in reasons:
            reasons.append(report.reason)
        elif report.status is RankStatus.LEFT:
            reasons.append(
                f"rank {member} has left its loop after {report.count} batches; every "
                "rank must take as many steps."
            )
        elif report.status is RankStatus.EMPTY:
            reasons.append(
                f"rank {member} has no batch to pad with: its shard has too few "
                "examples for one."
            )
    return UpstreamError("; ".join(reasons))


class Agreement:
    """The values in the store by which the ranks agree on one epoch of a loader.

    Each rank has a report, and its positions at its last batches, which it alone
    writes.

    Args:
        store: of the ranks.
        number: of the loader's `iter`, the same on all ranks.
        most_apart: the most batches that ranks may be apart.
    """

    def __init__(self, store: RankStore, number: int, most_apart: int) -> None:
        self.store = store
        self._number = number
        self._report_prefix = f"{number}/record"
        self._report_key = f"{self._report_prefix}/{store.rank}"
        self._kept_positions = most_apart + 1
        self._written_keys = {self._report_key}

    def begin(
        self, epoch: int, batches: int, position: RankPosition, arguments: State
    ) -> None:
        """Wait until all ranks have begun; check that they have begun the same epoch.

        Args:
            epoch: its number.
            batches: of this epoch that were handed out before the loaded state was
                taken.
            position: from which this rank goes on.
            arguments: of the loader; None where one is not known.

        Raises:
            OptionError: ranks have different arguments, or are in different epochs.
            StateError: they go on from different batches.
            UpstreamError: a rank could not begin, or is gone.
        """
        self.write(RankReport(), position)
        self._write_beginning(
            {
                "epoch": epoch,
                "batches": batches,
                "base": position.base,
                "arguments": arguments,
            }
        )
        beginnings = self._wait_for_beginnings()
        failed = [(rank, one["failed"]) for rank, one in beginnings if "failed" in one]
        if failed:
            raise UpstreamError(
                "; ".join(f"rank {rank} failed: {reason}" for rank, reason in failed)
            )
        _check_same(beginnings)

    def cannot_begin(self, error: BaseException) -> None:
        """Report to the others, which wait in `begin`, why this rank cannot begin."""
        with contextlib.suppress(UpstreamError):  # no other rank is left
            self.write(RankReport())
            self._write_beginning({"failed": format_error(error)})

    def _write_beginning(self, beginning: dict[str, Any]) -> None:
        self._set({f"{self._number}/begin/{self.store.rank}": beginning})

    def _set(self, values: dict[str, Any]) -> None:
        self._written_keys.update(values)
        self.store.set(values)

    def _wait_for_beginnings(self) -> list[tuple[int, dict[str, Any]]]:
        prefix = f"{self._number}/begin"
        beginnings = self.store.wait_for(
            lambda: self.store.get_all(prefix),
            lambda: self.store.missing(prefix) + " to begin an epoch",
        )
        self.store.liveness.look_up()
        return list(zip(self.store.members, beginnings, strict=True))

    def write(
        self, report: RankReport | None, position: RankPosition | None = None
    ) -> None:
        """Write this rank's report, and its position; not those that are None."""
        values: dict[str, Any] = {}
        if report is not None:
            values[self._report_key] = astuple(report)
        if position is not None:
            key = self._position_key(self.store.rank, position.batches)
            values[key] = asdict(position)
        if values:
            self._set(values)

    def read(self) -> list[RankReport]:
        """Return the reports of all ranks."""
        found = self.store.read_all(self._report_prefix)
        return [RankReport(count, RankStatus(at), why) for count, at, why in found]

    # ---- positions

    def positions(self, batches: int) -> list[RankPosition]:
        """Return each rank's position after so many batches, or its last one before."""
        prefix = f"{self._number}/place {batches % self._kept_positions}"
        found = self.store.get_all(prefix) or [None] * self.store.size
        return [
            RankPosition.from_dict(fields)
            if fields is not None and fields["batches"] == batches
            else self._position_before(rank, batches)
            for rank, fields in enumerate(found)
        ]

    def _position_before(self, rank: int, batches: int) -> RankPosition:
        for count in range(batches, max(-1, batches - self._kept_positions), -1):
            fields = self.store.get(self._position_key(rank, count))
            if fields is not None and fields["batches"] == count:
                return RankPosition.from_dict(fields)
        raise UpstreamError(f"rank {self.store.members[rank]} is too far behind.")

    def _position_key(self, rank: int, batches: int) -> str:
        return f"{self._number}/place {batches % self._kept_positions}/{rank}"

    def forget(self) -> None:
        """Delete all that this rank has written, once no rank reads it any more."""
        for key in self._written_keys:
            self.store.delete(key)


def _check_same(beginnings: list[tuple[int, dict[str, Any]]]) -> None:
    for name in beginnings[0][1]["arguments"]:
        values = [(rank, one["arguments"].get(name)) for rank, one in beginnings]
        known = [value for _, value in values if value is not None]
        if any(value != known[0] for value in known):
            raise OptionError(
                f"`{name}` differs between ranks ({format_per_rank(values)}); make the "
                "loader with the same arguments on all of them."
            )
    for name, error, text in _ALIKE:
        values = [(rank, one[name]) for rank, one in beginnings]
        if len({value for _, value in values}) > 1:
            raise error(text.format(format_per_rank(values)))


_ALIKE: tuple[tuple[str, type[EchobufError], str], ...] = (
    (
        "epoch",
        OptionError,
        "the ranks are in different epochs ({}); call `set_epoch` with the same number "
        "on all of them, or load states taken at the same batch.",
    ),
    (
        "base",
        StateError,
        "the ranks begin at different examples of their shards ({}); load the same "
        "state on all of them.",
    ),
    (
        "batches",
        StateError,
        "the ranks go on from different batches of the epoch ({}); load states taken "
        "at the same batch on all of them.",
    ),
)


@dataclass
class Agreements:
    """The agreements of a loader's ranks: one an epoch, in the same order on all."""

    store: RankStore
    uneven: str  # "drop" or "pad"
    ahead: int  # batches that a rank draws ahead
    last: Agreement | None = None  # the agreement on the last epoch that was begun
    progress: Progress | None = None  # of this rank in that epoch
    _count: int = 0

    def begin(self) -> Agreement:
        """Return an agreement on another epoch."""
        self._count += 1
        return Agreement(self.store, self._count, 2 * self.ahead + 4)


# ---- the beginning of an epoch


@dataclass(frozen=True)
class LoaderCallbacks:
    """Methods of a loader that an epoch calls; the loader is referenced weakly."""

    # Returns the loader's; known when an epoch has begun
    arguments: Callable[[], State]
    # Writes the epoch's length for the other ranks
    write_length: weakref.WeakMethod[Callable[[], None]]
    # Undoes the beginning of an epoch that the ranks did not begin
    take_back: weakref.WeakMethod[Callable[[int, Any], None]]
    # Ends the epoch when all ranks have handed out its last batch
    end_epoch: weakref.WeakMethod[Callable[[], None]]


@dataclass
class Rendezvous:
    """The rendezvous of one epoch; it may be called again after Ctrl-C."""

    agreements: Agreements
    callbacks: LoaderCallbacks
    agreement: Agreement | None = None  # on the epoch; None before the first call
    _previous: Agreement | None = None  # on the epoch before

    def __call__(self, epoch: EpochIterator) -> tuple[Agreement, Progress]:
        """Begin the epoch on all ranks; return the agreement and the progress here."""
        if self.agreement is None:
            self._previous = self.agreements.last
            self.agreement = self.agreements.begin()
        run = self._start(epoch, self.agreement)
        arguments = self.callbacks.arguments()
        progress = states.begin_progress(run.resume, run.number, arguments["seed"])
        self.agreements.last, self.agreements.progress = self.agreement, progress
        # The length may be known with the first item only.
        if (write_length := self.callbacks.write_length()) is not None:
            write_length()
        # Ranks may have different seeds.
        compared = {**arguments, "uneven": self.agreements.uneven}
        del compared["seed"]
        try:
            self.agreement.begin(run.number, progress.before, progress.at, compared)
        except Exception:
            epoch.supersede()
            if (take_back := self.callbacks.take_back()) is not None:
                take_back(run.number, run.resume)
            raise
        if self._previous is not None:
            self._previous.forget()
        return self.agreement, progress

    def _start(self, epoch: EpochIterator, agreement: Agreement) -> EpochFeed:
        try:
            run = epoch.start()
            if run.error is not None:
                raise run.error
        except Exception as error:
            agreement.cannot_begin(error)
            raise
        return run
