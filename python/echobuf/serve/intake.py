"""The upstream of a server: begun epoch by epoch, and put into its ring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from echobuf.describe_error import describe
from echobuf.errors import OptionError, UpstreamError
from echobuf.loader import source
from echobuf.loader.adapter import Adapter
from echobuf.loader.arranging import arrange
from echobuf.loader.attaching import as_attached
from echobuf.loader.feeder import Feeder
from echobuf.loader.length import count_units
from echobuf.loader.told import Told
from echobuf.loader.upstream import Start, Upstream
from echobuf.options import check_bool, check_int
from echobuf.serve.sample import Sample, read_sample
from echobuf.serve.station import Station
from echobuf.threads import Signal
from echobuf.workers.settings import Settings

_SLICE_S = 0.25


class Intake:
    """Arguments as for `Server`, which come checked by `check_workers` in `workers`.

    Raises:
        OptionError: an argument is out of range.
    """

    def __init__(
        self,
        upstream: Any,
        *,
        batched: Any,
        length: Any,
        sampler: Any,
        workers: Settings | None,
    ) -> None:
        if batched is not None:
            check_bool("batched", batched)
        self._length = None if length is None else check_int("length", length, 0, None)
        if as_attached(upstream) is not None:
            raise OptionError(
                "`upstream` is attached to a server; what is served already is not "
                "served again: attach jobs to that server."
            )
        arranged = arrange(
            upstream, Adapter(), workers, sampler=sampler, batched=batched
        )
        upstream, self._workforce = arranged.upstream, arranged.workforce
        self._batched = source.yields_batches(upstream) if batched is None else batched
        self._upstream = Upstream(upstream)
        self._told = Told(upstream)
        self._read: Callable[[Any], Any] | None = None

    def first(self) -> tuple[Start, Sample]:
        """Begins the first epoch; what examples look like.

        Raises:
            UpstreamError: it yields nothing, or raises.
            SpecError: the first item cannot be stored.
        """
        start = self.begin(0)
        if start.items is None:
            raise UpstreamError("upstream yields nothing in its first epoch.")
        first = start.first
        if self._workforce is not None:
            first = self._workforce.example
        sample, self._read = read_sample(first, batched=self._batched)
        return start, sample

    def begin(self, number: int) -> Start:
        """Begins an epoch.

        Raises:
            UpstreamError: it raises, or gives no epoch more.
        """
        try:
            self._told.tell(number)
        except Exception as error:
            raise UpstreamError(
                f"`set_epoch({number})` of upstream raised {describe(error)}"
            ) from error
        self._upstream.check_fresh()
        start = self._upstream.begin()
        if self._workforce is not None:
            start = self._workforce.check(start)
        if start.error is not None:
            raise UpstreamError(
                f"upstream failed: {describe(start.error)}"
            ) from start.error
        return start

    def count(self) -> int | None:
        """Fresh examples an epoch, where that is known."""
        if self._length is not None:
            return self._length
        upstream = self._upstream.iterable
        try:
            return count_units(upstream, batched=self._batched, whole=False)
        except TypeError:
            return None

    def feed(self, station: Station, start: Start, there: int, stopped: Signal) -> None:
        """Puts an epoch, but its first `there` examples; until that is done."""
        station.begin()
        if start.items is None:
            station.close()
            return
        assert self._read is not None
        feeder: Feeder
        if self._workforce is not None:
            feeder = self._workforce.feed(station, start, there)  # type: ignore[arg-type]
        else:
            feeder = Feeder(
                station,  # type: ignore[arg-type]
                start.items,
                start.first,
                batched=self._batched,
                read=self._read,
                skipped=there,
                snapshots=None,
            )
        del start
        while not feeder.join(_SLICE_S):
            if stopped.is_set():
                feeder.end()

    def close(self) -> None:
        """Ends the worker processes."""
        self._workforce = None
