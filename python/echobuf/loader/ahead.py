"""An epoch whose upstream runs already while the one before is served out."""

from __future__ import annotations

from dataclasses import dataclass

from echobuf.loader.run import Run
from echobuf.loader.upstream import Start


@dataclass(frozen=True)
class Ahead:
    """The next epoch of a loader, begun early; dropping it stops its upstream.

    Attributes:
        number: of the epoch.
        start: what came of beginning upstream.
        run: what feeds the buffer already; None if nothing does.
    """

    number: int
    start: Start
    run: Run | None

    def cancel(self) -> None:
        """Ends its upstream; waits until the current call of that returns."""
        if self.run is not None:
            self.run.end()
