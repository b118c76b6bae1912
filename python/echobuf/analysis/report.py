"""`Report`: what the measurements mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from os import PathLike

from echobuf.analysis import estimate, formulas, others, units
from echobuf.analysis.across import Across, Cluster, ways
from echobuf.analysis.advice import (
    Advice,
    advise,
    candidates,
    consequences,
    of_caches,
)
from echobuf.analysis.estimate import FACTORS, Prediction
from echobuf.analysis.flow import Pace
from echobuf.analysis.measurements import Estimate, Measurements
from echobuf.analysis.memory import Memory, buffer_memory
from echobuf.analysis.others import Remedy
from echobuf.analysis.paths import check_picture_path
from echobuf.errors import EchobufError

_LEAST_S, _MOST_S = 1e-9, 1e6  # that a step or an example takes, within reason
_LEAST_TOGETHER = 0.9  # less cannot be, but for chance
_ASSUMED = 100  # windows in an epoch of an upstream that does not say its length


class Report:
    """Whether echoing pays, which factor, and what else would help.

    `print(report)` shows all of it as a table (of `message` alone without rich).

    Args:
        measurements: what was measured.
        cluster: the ranks to predict for, too, where there are several.
    """

    def __init__(
        self, measurements: Measurements, cluster: Cluster | None = None
    ) -> None:
        self.measurements = measurements
        self.cluster = cluster
        self._predicted: dict[float | str, Prediction] = {}

    # ---- what was measured

    @property
    def upstream_s(self) -> Estimate:
        """t_upstream, seconds per fresh example; of a second pass if there was one."""
        return self.measurements.upstream_s

    @property
    def step_s(self) -> Estimate:
        """t_downstream, seconds per example of a batch."""
        return self.measurements.step_s

    @cached_property
    def ratio(self) -> Estimate:
        """R = t_upstream / t_downstream, with its 95 % interval."""
        return formulas.quotient(self.upstream_s, self.step_s)

    @cached_property
    def first_ratio(self) -> Estimate:
        """R of the first pass, which caches had not warmed up for."""
        return formulas.quotient(self.measurements.upstream_first_s, self.step_s)

    @property
    def wait_share(self) -> float:
        """Part of the time in which the step waited without echoing, 0 to 1."""
        of = self.measurements
        batch_s = of.together_s.mean * of.batch_size
        return min(1.0, max(0.0, of.wait_s.mean / batch_s)) if batch_s > 0 else 0.0

    @property
    def input_stall(self) -> bool:
        """Whether the step waited for more than 50 microseconds a batch on average."""
        return self.measurements.wait_s.mean > formulas.STALL_S

    # ---- what follows

    @property
    def factor(self) -> float | str:
        """The echoing factor to use: a number, "auto", or 1.0 for not echoing.

        It is the best of `candidates`, by `predict(...).speedup`; of those within 3 %
        of the best, the number that echoes least, or "auto" where R is no single
        number. 1.0 if `pays` is None, too.
        """
        return self._advised.factor if self.pays else 1.0

    @property
    def pays(self) -> bool | None:
        """Say if echoing is advised, by what was measured of each side alone.

        None if that cannot be told yet: `reason` says why, and `needed_seconds` how
        long to measure.
        """
        if not self.consistent or not self._advised.decided:
            return None
        return self._advised.factor != 1

    @property
    def reason(self) -> str:
        """Why that is advised, or why nothing can be said yet: one sentence."""
        if not self.consistent:
            return (
                "The step alone or upstream alone was slower than both together, as on "
                "a machine that does other work."
            )
        why = self._advised.why
        return f"{why[0].upper()}{why[1:]}."

    @property
    def needed_seconds(self) -> float | None:
        """About how many seconds to measure until `pays` can be told.

        None where it is told already, and where no time can be named.
        """
        return self._advised.needed_s if self.pays is None else None

    @property
    def candidates(self) -> tuple[float | str, ...]:
        """The factors that `factor` is chosen from: up to R and `max_factor`, "auto".

        Beyond R each further echo takes the place of a fresh example.
        """
        return candidates(self.measurements, self.ratio)

    @property
    def consistent(self) -> bool:
        """Whether both together took as long as the slower alone: 0.9 of it at least.

        Or so long that it may be by chance, as the intervals say. If not, nothing that
        is predicted here is to be relied on.
        """
        of = self.measurements
        alone = (of.upstream_second_s or of.upstream_first_s, of.step_s)
        least_s = max(each.low for each in alone)
        return self._together >= _LEAST_TOGETHER or of.together_s.high >= least_s

    @property
    def epoch_examples(self) -> int:
        """Fresh examples of the epoch that is predicted; 100 windows if not known."""
        of = self.measurements
        return max(1, of.length if of.length is not None else _ASSUMED * of.window)

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """For factors 1 to 16 that fit the window, all `candidates`, and "auto"."""
        numbers: set[float] = {e for e in FACTORS if e <= self.measurements.window}
        numbers |= {e for e in self.candidates if not isinstance(e, str)}
        factors: list[float | str] = [*sorted(numbers), "auto"]
        return tuple(self.predict(factor) for factor in factors)

    def predict(self, factor: float | str) -> Prediction:
        """An epoch with a factor: time, time for the same steps, speed-up.

        Args:
            factor: as for `EchoLoader`.

        Raises:
            OptionError: it is out of range.
        """
        if factor not in self._predicted:
            self._predicted[factor] = estimate.predict(
                self._pace, factor, self.epoch_examples
            )
        return self._predicted[factor]

    @property
    def knee(self) -> int | None:
        """The whole factor next to R; None if R is below 1 or above the table."""
        ratio = self.ratio.mean
        if not 1 <= ratio < FACTORS[-1] + 0.5:
            return None
        return round(ratio)

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What else would help, and by how much."""
        return others.remedies(self.measurements)

    @cached_property
    def across(self) -> tuple[Across, ...]:
        """Epochs on all ranks of the cluster, by how they load; none without one."""
        if self.cluster is None:
            return ()
        return ways(self.measurements, self.cluster, self.epoch_examples)

    def memory(
        self, window: int | None = None, factor: float | str | None = None
    ) -> Memory:
        """What a buffer for these examples takes, on its device and on the host.

        Args:
            window: in examples; that of the measurements unless told.
            factor: the advised one unless told.

        Raises:
            OptionError: no buffer takes these arguments.
        """
        of = self.measurements
        return buffer_memory(
            of.spec,
            batch_size=of.batch_size,
            window=of.window if window is None else window,
            factor=self.factor if factor is None else factor,
            max_factor=of.max_factor,
            device=of.device,
        )

    # ---- in words

    @property
    def message(self) -> str:
        """The result in one line."""
        if not self.consistent:
            return (
                "Measure again: the step alone or upstream alone was slower than both "
                "together, as on a machine that does other work."
            )
        if self.pays is None:
            return f"Cannot tell yet whether echoing pays: {self._advised.why}."
        if not self.pays:
            return f"Echoing does not pay here: {self._advised.why}."
        gain = units.times(self.predict(self.factor).speedup)
        return (
            f"Echoing pays here: R = {units.times(self.ratio.mean)}; factor="
            f"{units.in_code(self.factor)} makes the same steps {gain} times as fast."
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do and to know, one sentence or two each."""
        lines = []
        if self.pays:
            lines.append(f"factor={units.in_code(self.factor)}: {self._advised.why}.")
        lines += consequences(self.factor, self.ratio)
        lines += of_caches(self.measurements, self.ratio)
        return (*lines, *self._slowed(), *self.measurements.notes)

    @property
    def _together(self) -> float:
        """Time of both together, over that of the slower alone."""
        ideal_s = formulas.fresh_s(self.upstream_s.mean, self.step_s.mean, 1)
        return self.measurements.together_s.mean / ideal_s if ideal_s > 0 else 1.0

    def _slowed(self) -> list[str]:
        if not self._together > 1.1:
            return []
        times = units.times(self._together)
        return [
            f"Both together took {times} times as long as the slower alone: they hold "
            "each other up (cores, the GIL, or a loop that loads and "
            "steps in turn). What is predicted supposes that they do not."
        ]

    def __str__(self) -> str:
        try:
            from echobuf.analysis.table import text
        except ModuleNotFoundError:
            hint = "The table needs rich: pip install 'data-echoing[analyze]'."
            return f"{self.message}\n({hint})"
        return text(self)

    def __repr__(self) -> str:
        return f"<Report: {self.message}>"

    # ---- for scripts

    def to_json(self) -> str:
        """Everything as JSON; the fields stand in docs/analyze.md.

        Numbers that are not finite are null.
        """
        from echobuf.analysis.record import as_json

        return json.dumps(as_json(self), indent=1, allow_nan=False)

    def plot(
        self,
        path: str | PathLike[str],
        *,
        measured: Mapping[float, float] | None = None,
    ) -> None:
        """Draws what is predicted, with the points that were measured.

        Args:
            path: the file to write, such as `report.png`.
            measured: further points: echoing factor to seconds per fresh example.

        Raises:
            OptionError: the kind of file is unknown, or it cannot be written.
            EchobufError: matplotlib is not installed.
        """
        target = check_picture_path(path)
        try:
            from echobuf.analysis.picture import write_picture
        except ModuleNotFoundError as error:
            raise EchobufError(
                f"the picture needs {error.name}: pip install 'data-echoing[analyze]'."
            ) from None
        write_picture(self, target, measured or {})

    @cached_property
    def _pace(self) -> Pace:
        of = self.measurements
        upstream_s = min(of.upstream_s.mean, _MOST_S)
        return Pace(
            upstream_s=upstream_s,
            step_s=min(max(of.step_s.mean, _LEAST_S), _MOST_S),
            batch_size=of.batch_size,
            window=of.window,
            max_factor=of.max_factor,
            item=max(1, of.item),
            startup_s=max(0.0, min(of.startup_s, _MOST_S) - of.item * upstream_s),
        )

    @cached_property
    def _advised(self) -> Advice:
        return advise(
            self.measurements, self.ratio, lambda factor: self.predict(factor).speedup
        )
