"""`Parts`: what a buffer is made of, for all of its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from echobuf import state
from echobuf._core import BorrowedSlots
from echobuf._engine import ragged
from echobuf._engine.backend import AnyCore, Backend
from echobuf._engine.backends import HostBackend, make_backend
from echobuf._engine.output import (
    BatchFunctions,
    add_info,
    add_records,
    check_partners,
    make_output_spec,
)
from echobuf._engine.termination import Termination
from echobuf.arguments import check_timeout
from echobuf.errors import EchobufError
from echobuf.options import Options
from echobuf.output_spec import OutputSpec
from echobuf.spec import (
    Spec,
    describe,
    make_record_spec,
    make_structure,
)
from echobuf.stats import Raw

if TYPE_CHECKING:
    from echobuf.cuda.backend import CudaBackend


class Parts:
    """A base of `EchoBuffer`: the native buffer, its backend, and what these are of.

    `_spec` is of one fresh example, `_output` of batches after `transform`.
    `_functions` are applied to whole batches, if `transform` has such; `_draws` draws
    batches: these over the backend, or the backend. `_arguments` are those that the
    order of batches depends on, as in a state; `_epoch` is the number of the epoch that
    is drawn from. `_termination` turns the core's codes into exceptions.
    """

    _options: Options
    _spec: Spec
    _output: OutputSpec
    _backend: HostBackend | CudaBackend
    _core: AnyCore
    _flatten: Callable[[Any], list[Any] | None]
    _functions: BatchFunctions | None = None
    _carries = False  # None in the spec stands for what is no array
    _draws: Backend | BatchFunctions
    _termination: Termination
    _arguments: state.State
    _epoch = 0

    def _assemble(
        self,
        spec: Any,
        options: Options,
        *,
        shared: bool,
        borrowed: BorrowedSlots | None,
    ) -> None:
        """Make the parts.

        Args:
            spec: pytree of one example (of one whole batch with `unit="batch"`).
            options: checked.
            shared: the slots lie in memory that worker processes can write.
            borrowed: slots that another process writes, in place of slots of its own.

        Raises:
            SpecError: the spec is empty or has leaves that cannot be stored.
            OptionError: `transform` is no mapping from leaves to chains.
            CapacityError: it would not fit `max_bytes` or the memory there is.
            DeviceError: the device cannot be used.
        """
        self._options = options
        self._spec = make_record_spec(spec, unit=options.unit)
        ragged.check(self._spec, options, borrowed=borrowed is not None)
        output = make_output_spec(self._spec, options.transform)
        ragged.check_output(self._spec, output, options)
        check_partners(output, options)
        self._output = add_info(output) if options.with_info else output
        names_records = self._carries and options.device == "cpu"
        self._draws = self._backend = make_backend(
            self._spec,
            add_records(self._output) if names_records else self._output,
            options,
            # Workers write rows into memory of their own.
            shared=shared and not self._spec.is_ragged,
            borrowed=borrowed,
        )
        self._termination = Termination(self._backend, options)
        self._core = self._backend.core
        if any(self._output.functions):
            self._draws = self._functions = BatchFunctions(
                self._backend, self._output.functions
            )
        structure = make_structure(self._spec.treespec, carries=self._carries)
        self._core.use(structure)
        self._flatten = structure.flatten
        self._arguments = state.arguments_of(
            options, describe(self._spec), output.chains, output.numbers
        )

    def ready(self) -> bool:
        """Return True if `next_batch()` would return, or raise, without waiting.

        While another thread draws, it would wait for that thread.
        """
        answer = self._core.ready()
        if answer is not True and answer is not False:
            self._termination.check(answer)
        if self._functions is not None and self._functions.waits():
            return True
        return answer is True

    def _check_timeout(self, timeout: float) -> float | None:
        """Return a timeout in seconds; a buffer that was left raises that first."""
        try:
            return check_timeout(timeout)
        except EchobufError:
            self.ready()
            raise

    def _raw_stats(self) -> Raw:
        """Return counts and times of this epoch, as the core gives them."""
        raw = self._core.stats()
        if isinstance(raw, int):
            self._termination.check(raw)
            raise AssertionError(raw)
        return raw

    def _forget(self) -> None:
        """Drop what was made ahead in the epoch that is over."""
        if self._functions is not None:
            self._functions.forget()
