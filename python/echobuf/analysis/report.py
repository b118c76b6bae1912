"""`Report`: the result of an analysis, derived from its measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path

from echobuf.analysis import cost_model, units
from echobuf.analysis.advice import (
    Advice,
    advise,
    cache_advice,
    candidates,
    consequences,
    ragged_advice,
    worth_advice,
)
from echobuf.analysis.cost_model import Cluster, ClusterEpoch, cluster_epochs
from echobuf.analysis.measurements import Estimate, Measurements
from echobuf.analysis.prediction import (
    FACTORS,
    EchoWorth,
    Memory,
    Prediction,
    Remedy,
    buffer_memory,
    find_remedies,
    predict,
    worth_of,
)
from echobuf.analysis.simulation import Pipeline
from echobuf.errors import EchobufError, OptionError
from echobuf.repeats import Repeats

_SUFFIXES = (".png", ".pdf", ".svg")
_LEAST_S, _MOST_S = 1e-9, 1e6  # limits on the time of a step or an example
_LEAST_TOGETHER = 0.9  # both together over the slower alone; less is a bad measurement
_INCONSISTENT = (
    "the step alone or upstream alone was slower than both together, as on a machine "
    "that does other work"
)
_ASSUMED = 100  # windows in an epoch of an upstream without a length


class Report:
    """Result of `analyze`: whether echoing pays, which factor, and other remedies.

    `print(report)` shows it as a table of at most 80 columns (`message` alone where
    rich is not installed). Times are in seconds.

    Args:
        measurements: the timings of upstream and of the step.
        cluster: ranks of a job to predict epochs for, too.
        repeats: price of echoes; by default that of `Repeats()`, for one epoch.

    Examples:
        >>> import time
        >>> def upstream():
        ...     while True:
        ...         time.sleep(0.002)  # reads and decodes
        ...         yield np.zeros(8)
        >>> def step(batch):
        ...     return sum(range(2_000))  # trains
        >>> report = echobuf.analyze(upstream(), step, batch_size=4, seconds=0.2)
        >>> report.predict(2).speedup > 1
        True
        >>> report.memory(window=1024, factor=2)
        Memory(bytes_device=0, bytes_host=104448)
        >>> report.payload_bytes() is None  # all examples are of one length
        True
        >>> report.worths[1].worth < 2  # of an example with one echo
        True
        >>> report.plot("report.png")
        >>> "advice" in report.to_json()
        True
    """

    def __init__(
        self,
        measurements: Measurements,
        cluster: Cluster | None = None,
        repeats: Repeats | None = None,
    ) -> None:
        self.measurements = measurements
        self.cluster = cluster
        self.repeats = Repeats() if repeats is None else repeats
        self._predicted: dict[float | str, Prediction] = {}

    # ---- timings

    @property
    def upstream_s(self) -> Estimate:
        """Return t_upstream, seconds per fresh example; of the second pass if any."""
        return self.measurements.upstream_s

    @property
    def step_s(self) -> Estimate:
        """Return t_downstream, seconds per example of a batch."""
        return self.measurements.step_s

    @cached_property
    def ratio(self) -> Estimate:
        """Return R = t_upstream / t_downstream, with its 95 % interval."""
        return cost_model.quotient(self.upstream_s, self.step_s)

    @cached_property
    def first_ratio(self) -> Estimate:
        """Return R of the first pass, before caches had warmed up."""
        return cost_model.quotient(self.measurements.upstream_first_s, self.step_s)

    @property
    def wait_share(self) -> float:
        """Return the share of time that the step waited, without echoing: 0 to 1."""
        measured = self.measurements
        batch_s = measured.together_s.mean * measured.batch_size
        share = measured.wait_s.mean / batch_s if batch_s > 0 else 0.0
        return min(1.0, max(0.0, share))

    @property
    def input_stall(self) -> bool:
        """Return whether the step waited over 50 microseconds a batch on average."""
        return self.measurements.wait_s.mean > cost_model.STALL_S

    # ---- conclusions

    @property
    def factor(self) -> float | str:
        """Return the echoing factor to use: a number, "auto", or 1.0 for not echoing.

        It is the best of `candidates` by `predict(...).speedup`; of those within 3 %
        of the best, the number that echoes least, or "auto" where R varies. It is 1.0
        if `pays` is None, too.
        """
        return self._advised.factor if self.pays else 1.0

    @property
    def pays(self) -> bool | None:
        """Return whether echoing is advised, from the timings of each side alone.

        None if the timings do not suffice yet: then `reason` says what is missing, and
        `needed_seconds` how long to measure.
        """
        if not self.consistent or not self._advised.decided:
            return None
        return self._advised.factor != 1

    @property
    def reason(self) -> str:
        """Return the reason for `pays` and `factor`, as one sentence."""
        reason = self._advised.reason if self.consistent else _INCONSISTENT
        return f"{reason[0].upper()}{reason[1:]}."

    @property
    def needed_seconds(self) -> float | None:
        """Return the estimated seconds of measuring until `pays` is known.

        None where `pays` is known already, and where no time would be enough.
        """
        return self._advised.needed_s if self.pays is None else None

    @property
    def candidates(self) -> tuple[float | str, ...]:
        """Return the factors to choose from: up to R and `max_factor`, and "auto".

        Beyond R each further echo takes the place of a fresh example.
        """
        return candidates(self.measurements, self.ratio)

    @property
    def consistent(self) -> bool:
        """Return whether upstream and step together took as long as the slower alone.

        0.9 of that time is enough, or as much as the intervals allow. If not, no
        prediction of this report can be relied on.
        """
        measured = self.measurements
        upstream_s = measured.upstream_second_s or measured.upstream_first_s
        least_s = max(upstream_s.low, measured.step_s.low)
        return self._together >= _LEAST_TOGETHER or measured.together_s.high >= least_s

    @property
    def epoch_examples(self) -> int:
        """Return the fresh examples of a predicted epoch; 100 windows if not known."""
        length, window = self.measurements.length, self.measurements.window
        return max(1, _ASSUMED * window if length is None else length)

    @cached_property
    def predictions(self) -> tuple[Prediction, ...]:
        """Predict for factors 1 to 16 that fit the window, `candidates`, and "auto"."""
        numbers: set[float] = {e for e in FACTORS if e <= self.measurements.window}
        numbers |= {e for e in self.candidates if not isinstance(e, str)}
        factors: list[float | str] = [*sorted(numbers), "auto"]
        return tuple(self.predict(factor) for factor in factors)

    def predict(self, factor: float | str) -> Prediction:
        """Predict an epoch with a factor: time, time for the same steps, speed-up.

        Args:
            factor: a number >= 1, or "auto", as for `EchoLoader`.

        Returns:
            The prediction; times are in seconds.

        Raises:
            OptionError: the factor is out of range.
        """
        if factor not in self._predicted:
            self._predicted[factor] = predict(
                self._pipeline, factor, self.epoch_examples
            )
        return self._predicted[factor]

    @cached_property
    def worths(self) -> tuple[EchoWorth, ...]:
        """Price the echoes of each of `predictions`, by `repeats`: a hint, no rule."""
        count = self.epoch_examples
        return tuple(worth_of(each, self.repeats, count) for each in self.predictions)

    @property
    def knee(self) -> int | None:
        """Return the whole factor next to R; None if R is below 1 or above 16.5."""
        ratio = self.ratio.mean
        return round(ratio) if 1 <= ratio < FACTORS[-1] + 0.5 else None

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """List other remedies (workers, caches, storage) with their speed-ups."""
        return find_remedies(self.measurements)

    @cached_property
    def across(self) -> tuple[ClusterEpoch, ...]:
        """Predict epochs over all ranks, by way of loading; empty without `cluster`."""
        if self.cluster is None:
            return ()
        return cluster_epochs(self.measurements, self.cluster, self.epoch_examples)

    def memory(
        self, window: int | None = None, factor: float | str | None = None
    ) -> Memory:
        """Return the bytes of a buffer for these examples, on its device and host.

        Args:
            window: in examples; that of the measurements by default.
            factor: the advised one by default.

        Raises:
            OptionError: no buffer accepts these arguments.
        """
        measured = self.measurements
        return buffer_memory(
            measured.spec,
            batch_size=measured.batch_size,
            window=measured.window if window is None else window,
            factor=self.factor if factor is None else factor,
            max_factor=measured.max_factor,
            device=measured.device,
            ragged=measured.ragged,
        )

    def payload_bytes(
        self, window: int | None = None, factor: float | str | None = None
    ) -> int | None:
        """Return the `payload_bytes` to use; None where no leaf is ragged.

        Shares fit the largest example, and three standard deviations above their mean.
        """
        lengths, window = self.measurements.ragged, window or self.measurements.window
        if lengths is None:
            return None
        return lengths.payload_bytes(window, factor or self.factor)

    # ---- in words

    @property
    def message(self) -> str:
        """Return the result as one line of text."""
        if not self.consistent:
            return f"Measure again: {_INCONSISTENT}."
        if self.pays is None:
            return f"Cannot tell yet whether echoing pays: {self._advised.reason}."
        if not self.pays:
            return f"Echoing does not pay here: {self._advised.reason}."
        gain = units.times(self.predict(self.factor).speedup)
        return (
            f"Echoing pays here: R = {units.times(self.ratio.mean)}; factor="
            f"{units.in_code(self.factor)} makes the same steps {gain} times as fast."
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """List advice and remarks, one or two sentences each."""
        lines: list[str] = []
        if self.pays:
            code = units.in_code(self.factor)
            lines.append(f"factor={code}: {self._advised.reason}.")
            lines += consequences(self.factor, self.ratio)
            price = next(each for each in self.worths if each.factor == self.factor)
            lines += worth_advice(price, self.ratio, self.repeats)
        lines += ragged_advice(self.measurements, self.payload_bytes())
        lines += cache_advice(self.measurements, self.ratio)
        if self._together > 1.1:
            lines.append(
                f"Both together took {units.times(self._together)} times as long as "
                "the slower alone: they hold each other up (cores, the GIL, or a loop "
                "that loads and steps in turn). What is predicted supposes that they "
                "do not."
            )
        return (*lines, *self.measurements.notes)

    @property
    def _together(self) -> float:
        """Return the time of upstream and step together, over that of the slower."""
        ideal_s = cost_model.fresh_s(self.upstream_s.mean, self.step_s.mean, 1)
        return self.measurements.together_s.mean / ideal_s if ideal_s > 0 else 1.0

    def __str__(self) -> str:
        try:
            from echobuf.analysis.report_table import text
        except ModuleNotFoundError:
            hint = "The table needs rich: pip install 'data-echoing[analyze]'."
            return f"{self.message}\n({hint})"
        return text(self)

    def __repr__(self) -> str:
        return f"<Report: {self.message}>"

    # ---- for scripts

    def to_json(self) -> str:
        """Return the whole report as JSON text; docs/analyze.md lists the fields.

        Numbers that are not finite are null.
        """
        from echobuf.analysis.report_json import as_json

        return json.dumps(as_json(self), indent=1, allow_nan=False)

    def plot(
        self,
        path: str | PathLike[str],
        *,
        measured: Mapping[float, float] | None = None,
    ) -> None:
        """Draw the predicted time and speed-up over the factor, with measured points.

        Args:
            path: the file to write, such as `report.png` (.png, .pdf or .svg).
            measured: further points: echoing factor to seconds per fresh example.

        Raises:
            OptionError: the suffix is unknown, or the file cannot be written.
            EchobufError: matplotlib is not installed.
        """
        target = check_picture_path(path)
        try:
            from echobuf.analysis.report_picture import write_picture
        except ModuleNotFoundError as error:
            raise EchobufError(
                f"the picture needs {error.name}: pip install 'data-echoing[analyze]'."
            ) from None
        write_picture(self, target, measured or {})

    @cached_property
    def _pipeline(self) -> Pipeline:
        measured = self.measurements
        upstream_s = min(measured.upstream_s.mean, _MOST_S)
        startup_s = min(measured.startup_s, _MOST_S)
        return Pipeline(
            upstream_s=upstream_s,
            step_s=min(max(measured.step_s.mean, _LEAST_S), _MOST_S),
            batch_size=measured.batch_size,
            window=measured.window,
            max_factor=measured.max_factor,
            item=max(1, measured.item),
            startup_s=max(0.0, startup_s - measured.item * upstream_s),
        )

    @cached_property
    def _advised(self) -> Advice:
        return advise(
            self.measurements, self.ratio, lambda factor: self.predict(factor).speedup
        )


def check_picture_path(path: str | PathLike[str]) -> Path:
    """Return the path, if its suffix is a kind of picture that can be written.

    Raises:
        OptionError: the suffix is another.
    """
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise OptionError(
            f"`path` is {str(target)!r}; its suffix must be one of "
            f"{', '.join(_SUFFIXES)}."
        )
    return target
