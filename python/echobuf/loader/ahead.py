"""An epoch whose upstream runs already while the one before is served out."""

from __future__ import annotations

from echobuf.loader.feeder import Feeder
from echobuf.loader.snapshots import Snapshots
from echobuf.loader.upstream import Start


class Ahead:
    """The next epoch of a loader, begun early; dropping it stops its upstream.

    Args:
        number: of the epoch.
        start: what came of beginning upstream.
        feeder: the thread that feeds it; None if there is nothing to feed.
        snapshots: of upstream, that the thread takes.
    """

    def __init__(
        self,
        number: int,
        start: Start,
        feeder: Feeder | None,
        snapshots: Snapshots | None,
    ) -> None:
        self.number = number
        self.start = start
        self._feeder = feeder
        self.snapshots = snapshots

    @property
    def is_fed(self) -> bool:
        """Whether its examples are being put already."""
        return self._feeder is not None

    def take(self) -> Feeder:
        """Its thread, which from now on is the caller's to stop."""
        feeder, self._feeder = self._feeder, None
        assert feeder is not None
        return feeder

    def cancel(self) -> None:
        """Ends its upstream; waits until the current call of that returns."""
        if self._feeder is not None:
            self._feeder.end()

    def __del__(self) -> None:
        if getattr(self, "_feeder", None) is not None:
            self._feeder.stop()  # type: ignore[union-attr]
