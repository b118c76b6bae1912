"""Output of a buffer: leaves of batches after transforms, functions on batches."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from echobuf import _core
from echobuf.errors import OptionError
from echobuf.field import Field
from echobuf.output_spec import BatchFunction, OutputSpec
from echobuf.ragged import BatchInfo
from echobuf.spec import Spec, make_spec
from echobuf.trees import NAMESPACE

if TYPE_CHECKING:
    from echobuf._engine.backend import Backend
    from echobuf.options import Options


Draw = Callable[[], "list[Any] | int"]


def add_info(output: OutputSpec) -> OutputSpec:
    """Return the same with a `BatchInfo` behind each batch."""
    import optree

    shape = output.spec.batch_axis
    info = BatchInfo(
        index=Field(shape, np.int64),
        echo=Field(shape, np.int32),
        version=Field(shape, np.int64),
    )
    more = make_spec(info)

    def extended(spec: Spec) -> Spec:
        pair = [spec.treespec, more.treespec]
        paths = [f"[0]{path}" for path in spec.paths]
        return dataclasses.replace(
            spec,
            treespec=optree.treespec_tuple(pair, namespace=NAMESPACE),
            fields=spec.fields + more.fields,
            paths=(*paths, *(f"[1]{path}" for path in more.paths)),
        )

    return _with_infos(output, len(info), extended)


def add_records(output: OutputSpec) -> OutputSpec:
    """Return the same with a leaf of the records' numbers, in no place of the tree."""
    field = Field(output.spec.batch_axis, np.int64)

    def extended(spec: Spec) -> Spec:
        return dataclasses.replace(
            spec, fields=(*spec.fields, field), paths=(*spec.paths, " (records)")
        )

    return _with_infos(output, 1, extended)


def _with_infos(
    output: OutputSpec, count: int, extended: Callable[[Spec], Spec]
) -> OutputSpec:
    """Return the same with so many leaves that tell of draws."""
    return dataclasses.replace(
        output,
        spec=extended(output.spec),
        drawn=extended(output.drawn),
        plans=(*output.plans, *[(_core.NO_FIELD, None)] * count),
        rows=(*output.rows, *[None] * count),
        functions=(*output.functions, *[()] * count),
    )


def make_output_spec(spec: Spec, transform: Any) -> OutputSpec:
    """Return the leaves of batches: those of `spec`, or those that `transform` names.

    Args:
        spec: of one example, or of one whole batch.
        transform: the caller's; None for none.

    Raises:
        OptionError: `transform` is no mapping from leaves to chains.
        SpecError: a chain does not fit its leaf.
    """
    if transform is None:
        plans = tuple((field, None) for field in range(len(spec.fields)))
        rows, functions = (None,) * len(plans), ((),) * len(plans)
        return OutputSpec(spec, spec, plans, rows, functions, {}, {})
    from echobuf.transforms.mapping import make

    return make(spec, transform)


def check_partners(output: OutputSpec, options: Options) -> None:
    """Raise `OptionError` for mixes where passes may leave their partners out."""
    if options.max_staleness is None or output.drawn.batch_axis:
        return  # the partners in a whole batch leave with it
    if any(plan is not None and plan.mixes for _, plan in output.plans):
        raise OptionError(
            "`transform` mixes examples with a partner, which a pass may leave out, "
            f"since `max_staleness` is {options.max_staleness}; leave `max_staleness` "
            "out, or mix in your step."
        )


class _Batch:
    """A batch on which some of the functions have been called."""

    def __init__(self, leaves: list[Any]) -> None:
        self._at: tuple[int, list[Any]] = 0, leaves

    def finish(self, work: list[tuple[int, BatchFunction]]) -> list[Any]:
        """Call the functions that are left, each once, and return the leaves."""
        for number, function in work[self._at[0] :]:
            done, leaves = self._at
            leaves = [*leaves]
            leaves[number] = function.apply(leaves[number])
            self._at = done + 1, leaves  # in one store: Ctrl-C never comes between
        return self._at[1]


class BatchFunctions:
    """Draws of a backend, finished by functions; keeps batches whose functions raised.

    Args:
        backend: draws the batches.
        functions: of each leaf, the functions in order.
    """

    def __init__(
        self,
        backend: Backend,
        functions: tuple[tuple[BatchFunction, ...], ...],
    ) -> None:
        self._backend = backend
        self._work = [
            (i, one) for i, of_leaf in enumerate(functions) for one in of_leaf
        ]
        self._refused: deque[_Batch] = deque()

    def use_dtypes(self, convert: Callable[[np.dtype[Any]], np.dtype[Any]]) -> None:
        """Expect other dtypes of the functions from now on.

        Args:
            convert: returns the dtype that stands for one of the spec's.
        """
        self._work = [(i, one.with_dtype(convert)) for i, one in self._work]

    def next(self, timeout: float | None) -> list[Any] | int:
        """Return the leaves of the next batch, or a code."""
        return self._finish(None, lambda: self._backend.next(timeout))

    def next_on(self, stream: Any, timeout: float | None) -> list[Any] | int:
        """Return the leaves of the next batch, valid on `stream`; or a code."""
        return self._finish(stream, lambda: self._backend.next_on(stream, timeout))

    def next_into(self, leaves: list[Any], timeout: float | None, stream: Any) -> int:
        """Copy the next batch to the caller's arrays.

        Returns:
            The length of the batch, or minus a code.

        Raises:
            SpecError: names the leaf that does not fit.
        """
        copy = self._backend.copier(leaves, stream)
        if stream is None:
            finished = self.next(timeout)
        else:
            finished = self.next_on(stream, timeout)
        return copy(finished) if isinstance(finished, list) else -finished

    def before_replay(self, stream: Any, timeout: float | None) -> NoReturn:
        """Raise `OptionError`: functions are no part of a graph."""
        raise _no_graph("`before_replay` is for draws in a graph")

    def _finish(self, stream: Any, draw: Draw) -> list[Any] | int:
        """Return the next batch after the functions, or the code that `draw` returned.

        Raises:
            SpecError: a function raised, or returned another shape or dtype than
                declared.
            OptionError: the stream is being captured.
        """
        if self._backend.is_capturing(stream):
            raise _no_graph("the stream is being captured")
        try:
            batch = self._refused.popleft()
        except IndexError:
            drawn = draw()
            if not isinstance(drawn, list):
                return drawn
            batch = _Batch(drawn)
        try:
            return batch.finish(self._work)
        except BaseException:
            self._refused.appendleft(batch)
            raise

    def waits(self) -> bool:
        """Return whether a batch that was drawn has not been handed out."""
        return bool(self._refused)

    def forget(self) -> None:
        """Drop the batches that are kept: an epoch begins."""
        self._refused.clear()


def _no_graph(why: str) -> OptionError:
    return OptionError(
        f"{why}, and a Lambda runs in Python, not in a graph: leave it out of "
        "`transform`, and call its function on the batch."
    )
