"""Losses of batches, as `report` takes them, on their way to the core."""

from __future__ import annotations

import functools
import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from echobuf import _core
from echobuf._engine.late_losses import Reported, host_array, later
from echobuf.errors import OptionError, SpecError, show
from echobuf.reuse_state import Pending

if TYPE_CHECKING:
    from echobuf._engine.engine import Engine

LAG = 2
"""Batches that are handed out before a loss that a device computes is looked at."""

_Late = tuple[int, Callable[[], Reported]]
"""The batch that losses count for, and what waits for them."""


class Reports:
    """Takes the losses of batches, at once or once a device has computed them.

    A loss in host memory counts at once. One on a device counts after `LAG` further
    batches, whenever it was computed: with the same reports, the order is the same.

    Args:
        engine: whose core they are for.

    Attributes:
        drawn: batches that were handed out.
        has_work: False if `begin_draw` would do nothing.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._report_there = engine.backend.report
        core = engine.core
        self._native: _core.DeviceBuffer | _core.RaggedDeviceBuffer | None = None
        if isinstance(core, _core.DeviceBuffer | _core.RaggedDeviceBuffer):
            self._native = core
        self._whole_batches = engine.whole_batches
        options = engine.options
        self._silent: int | None = 1 + 4 * options.window // options.batch_size
        self.drawn = 0
        self._late: deque[_Late] = deque()
        self.has_work = True

    def take(self, info: Any, loss: Any) -> None:
        """Take the losses of the examples of a batch.

        Raises:
            SpecError: they are not one number for each example of `info`.
            OptionError: one is not finite, or an index is negative.
        """
        index = getattr(info, "index", None)
        if index is None or callable(index):  # a tuple's is a method
            raise SpecError(
                f"`info` is {show(info)}; it must be the `BatchInfo` of a batch."
            )
        self._silent = None
        code = self._report_there(index, loss)
        if code is not None:
            self._check_code(code)
            return
        wait = later(index, loss)
        if wait is not None:
            self._late.append((self.drawn + LAG, wait))
            self.has_work = True
            return
        self._report(*self._check(host_array(index), host_array(loss)))

    def begin_draw(self) -> None:
        """Hand over what is due before the next batch."""
        if self._silent is not None and self.drawn >= self._silent:
            self._warn()
        while self._late and self._late[0][0] <= self.drawn + 1:
            _, wait = self._late.popleft()
            index, loss = self._check(*wait(), is_late=True)
            self._report(index, loss)
        self.has_work = self._silent is not None or len(self._late) > 0

    def end_draw(self) -> None:
        """Count a batch that was handed out."""
        self.drawn += 1

    def end(self) -> None:
        """Note that an epoch has been served out."""
        if self._silent is not None and self.drawn > 0:
            self._warn()

    def _warn(self) -> None:
        """Warn, once, that there was no report so far."""
        self._silent = None
        warnings.warn(
            "`reuse` is 'loss', and no loss was reported: all examples are served "
            "`factor` times, with weight 1. Call `report(info, loss)` after each step.",
            stacklevel=5,
        )

    def pending(self) -> list[Pending]:
        """Return the losses that do not count yet, for a state; wait for them."""
        found: list[Pending] = []
        if self._native is not None:
            answer = self._native.pending_reports()
            if isinstance(answer, int):
                self._check_code(answer)
            else:
                found += answer
        for at, (due, wait) in enumerate(self._late):
            waited = self._check(*wait(), is_late=True)
            self._late[at] = due, functools.partial(_values, waited)
            found.append((due - self.drawn, *waited))
        return found

    def restore(self, pending: list[Pending]) -> None:
        """Take what `pending` returned."""
        for batches, index, loss in pending:
            if self._native is not None:
                self._check_code(self._native.report_late(batches, index, loss))
            else:
                waited = functools.partial(_values, (index, loss))
                self._late.append((self.drawn + batches, waited))
                self.has_work = True

    def forget(self) -> None:
        """Drop what belongs to an epoch that is over."""
        self._late.clear()

    def _check(self, index: Any, loss: Any, *, is_late: bool = False) -> Reported:
        if index.ndim != 1 or index.dtype.kind not in "iu":
            raise SpecError(
                f"`info.index` is of {index.dtype}{list(index.shape)}; it must be that "
                "of a batch, integers."
            )
        if loss.dtype.kind not in "fiu":
            raise SpecError(
                f"`loss` is of dtype {loss.dtype}; it must be of numbers, one for each "
                "example."
            )
        if loss.ndim == 0 and self._whole_batches:
            loss = np.full(len(index), loss)
        if loss.shape != index.shape:
            raise SpecError(
                f"`loss` has shape {list(loss.shape)}, and `info` is of {len(index)} "
                f"examples; give one loss for each, of shape [{len(index)}] (in torch: "
                "reduction='none')."
            )
        with np.errstate(over="ignore"):
            kept = np.ascontiguousarray(loss, np.float32)
        if not is_late and not np.isfinite(kept).all():
            row = int(np.flatnonzero(~np.isfinite(kept))[0])
            raise OptionError(
                f"`loss` has {loss[row]} in row {row}; losses must be finite, also as "
                "float32. Leave such a batch out of `report`."
            )
        return np.ascontiguousarray(index, np.int64), kept

    def _report(self, index: Any, loss: Any) -> None:
        code = self._engine.core.report(index, loss)
        if code == _core.MISMATCH:
            raise OptionError(
                "`info.index` has a negative number; it must be that of a batch."
            )
        if code is not None:
            self._check_code(code)

    def _check_code(self, code: int) -> None:
        if code != 0:
            self._engine.termination.check(code)


def _values(reported: Reported) -> Reported:
    return reported


class ReportedDraws:
    """Draws batches, and hands over what was reported before each of them.

    Args:
        draws: draws them.
        reports: of the same buffer.
    """

    def __init__(self, draws: Any, reports: Reports) -> None:
        self._draws = draws
        self._reports = reports

    def next(self, timeout: float | None) -> list[Any] | int:
        """Return the leaves of the next batch, or a code."""
        reports = self._reports
        if reports.has_work:  # for every batch: calls that do nothing would count
            reports.begin_draw()
        leaves: list[Any] | int = self._draws.next(timeout)
        if leaves.__class__ is list:
            reports.drawn += 1
        else:
            self._ended(leaves)
        return leaves

    def next_on(self, stream: Any, timeout: float | None) -> list[Any] | int:
        """Do the same on a stream."""
        self._reports.begin_draw()
        leaves: list[Any] | int = self._draws.next_on(stream, timeout)
        if not isinstance(leaves, int):
            self._reports.end_draw()
        self._ended(leaves)
        return leaves

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Draw the next batch into arrays; return its length, or minus a code."""
        self._reports.begin_draw()
        count: int = self._draws.next_into(leaves, timeout, stream)
        if count >= 0:
            self._reports.end_draw()
        self._ended(-count)
        return count

    def before_replay(self, stream: Any, timeout: float | None) -> int:
        """Make the next batch that of a graph; return 0 or a code."""
        self._reports.begin_draw()
        code: int = self._draws.before_replay(stream, timeout)
        if code == 0:
            self._reports.end_draw()
        self._ended(code)
        return code

    def _ended(self, outcome: Any) -> None:
        if outcome == _core.FINISHED:
            self._reports.end()


class Reporting:
    """A base of `EchoBuffer`: the losses that its consumer reports."""

    _engine: Engine

    def report(self, info: Any, loss: Any) -> None:
        """Report the losses of a batch, with `reuse="loss"`.

        An example whose last loss lies under the mean of those in the window is left
        out of each later pass with probability `thin`; in the passes that it stays in,
        its weight is 1 / (1 - `thin`), so that means weighted by `info.weight` are
        those of plain echoing in expectation (InfoBatch: Qin et al. 2023,
        arXiv:2303.04947). A pass goes by the reports that were made before the batch
        that holds its first draw. Losses of examples that have left the window are
        passed over. An info does not know its epoch: report it before the next one.

        Nothing waits for losses on a device (CuPy's, tensors, `jax.Array`s): they
        count from the second batch after the report on. One that turns out not to be
        finite is passed over. On a buffer's own device they are float16, bfloat16,
        float32 or float64. With CUDA graphs call `report` after each replay. A state
        that is taken waits for those that do not count yet, and keeps them.

        Args:
            info: the `BatchInfo` of the batch, or of a part of it.
            loss: the loss of each of its examples, without weights: numbers `[n]`. With
                `unit="batch"` one number for all is enough, and of several the mean
                counts.

        Raises:
            SpecError: `loss` is not one number for each example of `info`.
            OptionError: a loss is not finite, an index is negative, the buffer has no
                `reuse="loss"`, or the stream is being captured.

        Examples:
            >>> buffer = EchoBuffer(
            ...     np.float32(0),
            ...     batch_size=4,
            ...     window=8,
            ...     factor=4,
            ...     with_info=True,
            ...     reuse="loss",
            ... )
            >>> buffer.put_batch(np.arange(4, dtype=np.float32))
            >>> buffer.close()
            >>> for batch, info in buffer:  # 15 draws in place of 16
            ...     print(batch.tolist(), info.weight.tolist())
            ...     buffer.report(info, loss=batch)
            [1.0, 0.0, 1.0, 3.0] [1.0, 1.0, 1.0, 1.0]
            [2.0, 0.0, 2.0, 0.0] [1.0, 1.0, 1.0, 2.0]
            [3.0, 3.0, 1.0, 0.0] [1.0, 1.0, 2.0, 2.0]
            [2.0, 2.0, 3.0] [1.0, 2.0, 1.0]
        """
        reports = self._engine.reports
        if reports is None:
            raise OptionError(
                "`report` is for a buffer with reuse='loss', which this one does not "
                "have."
            )
        reports.take(info, loss)
