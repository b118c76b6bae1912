"""`Engine`: what lies beneath one `EchoBuffer`, for the loaders and adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from echobuf import _core, state
from echobuf._engine import ragged
from echobuf._engine.arrays import put_tree
from echobuf._engine.backends import HostBackend, make_backend
from echobuf._engine.output import (
    BatchFunctions,
    add_info,
    check_partners,
    make_output_spec,
)
from echobuf._engine.termination import Termination
from echobuf._engine.versions import Versions, check_versions, other_count
from echobuf.arguments import check_timeout
from echobuf.errors import (
    CapacityError,
    EchobufError,
    OptionError,
    SpecError,
    StateError,
)
from echobuf.metadata import warn_of_lost
from echobuf.options import Options
from echobuf.spec import (
    check_batch_axis,
    check_example_axes,
    describe,
    make_spec,
    make_structure,
)
from echobuf.stats import Raw

if TYPE_CHECKING:
    from echobuf.cuda.backend import CudaBackend

AnyCore = (
    _core.Buffer | _core.DeviceBuffer | _core.RaggedDeviceBuffer
)
"""A native buffer."""


class Engine:
    """A compiled buffer, its backend, and the epoch that it is in.

    Producers call `put`, `put_all`, `close` and `fail`; a loader begins and ends
    epochs; an adapter sets the form of batches through `backend` and `functions`.

    Args:
        spec: pytree of one example (of one whole batch with `unit="batch"`).
        options: the buffer's, checked.
        shared: the slots lie in memory that worker processes can write.
        borrowed: slots that another process writes, in place of slots of its own.

    Attributes:
        core: the compiled buffer.
        spec: of one fresh example.
        output: spec of batches after `transform`.
        options: the buffer's.
        backend: allocates the window and draws batches from it.
        functions: applied to whole batches, if `transform` has such; else None.
        draws: draws batches: `functions` over `backend`, or `backend`.
        arguments: those that the order of batches depends on, as in a state.
        epoch: number of the epoch that is drawn from.
        termination: turns the core's codes into exceptions.
        put_all: the core's, `(stacked, term, items, most)`: puts the items of an
            iterator up to the first that needs conversion. It returns the number of
            items put; True at the iterator's end; the code and the accepted examples
            of a refused put, else None; the item that was not put, if any.

    Raises:
        SpecError: the spec is empty or has leaves that cannot be stored.
        OptionError: `transform` is no mapping from leaves to chains.
        CapacityError: it would not fit `max_bytes` or the memory there is.
        DeviceError: the device cannot be used.
    """

    def __init__(
        self,
        spec: Any,
        options: Options,
        *,
        shared: bool = False,
        borrowed: _core.BorrowedSlots | None = None,
    ) -> None:
        self.options = options
        self.spec = make_spec(spec)
        if options.whole_batches:
            check_batch_axis(self.spec)
        else:
            check_example_axes(self.spec)
        ragged.check(self.spec, options, borrowed=borrowed is not None)
        self.epoch = 0
        self._is_first = True  # what is put next, where the core does not take it
        self.output = make_output_spec(
            self.spec, options.transform, whole=options.whole_batches
        )
        ragged.check_output(self.spec, self.output, options)
        check_partners(self.output, options)
        if options.with_info:
            self.output = add_info(self.output, whole=options.whole_batches)
        self.backend: HostBackend | CudaBackend = make_backend(
            self.spec,
            self.output,
            options,
            # Workers write rows into memory of their own.
            shared=shared and not self.spec.is_ragged,
            borrowed=borrowed,
        )
        self.termination = Termination(self.backend, options)
        self.core: AnyCore = self.backend.core
        self.put_all = self.core.put_all
        self.functions: BatchFunctions | None = None
        self.draws: HostBackend | CudaBackend | BatchFunctions = self.backend
        if any(self.output.functions):
            self.draws = self.functions = BatchFunctions(
                self.backend, self.output.functions
            )
        self.core.use(make_structure(self.spec.treespec))
        self.arguments = state.arguments_of(
            options,
            describe(self.spec),
            self.output.chains,
            self.output.numbers,
        )

    @property
    def whole_batches(self) -> bool:
        """True with `unit="batch"`: items are whole batches, of different lengths."""
        return self.options.whole_batches

    # ---- producers

    def put(self, tree: Any, stacked: bool, timeout: float | None = None) -> None:
        """Put one example, or examples stacked on axis 0; wait while the ring is full.

        Raises:
            SpecError: the tree does not fit the spec; nothing was put.
            CapacityError: an example is larger than a segment's share of the payload;
                nothing was put.
            TimeoutError, ClosedError: `accepted` examples were put.
        """
        outcome = self.core.put_tree(tree, stacked, timeout)
        if outcome is not None:
            self.put_otherwise(outcome, tree, stacked, timeout)

    def put_versioned(
        self, tree: Any, stacked: bool, timeout: float | None, version: Any
    ) -> None:
        """Put one example, or several, as `put` does, with versions.

        Raises:
            OptionError: `version` is none of the examples that are put.
        """
        try:
            versions = check_versions(version, stacked=stacked)
        except OptionError:
            self.ready()  # a buffer whose context was left says that first
            raise
        outcome = self.core.put_tree(tree, stacked, timeout, None, versions)
        if outcome is not None:
            self.put_otherwise(outcome, tree, stacked, timeout, versions)

    def put_otherwise(
        self,
        outcome: tuple[int, int],
        tree: Any,
        stacked: bool,
        timeout: float | None,
        versions: Versions | None = None,
    ) -> None:
        """Convert and put a tree that the core has not taken as it is, or raise."""
        refused: tuple[int, int] | None = outcome
        if outcome[0] == _core.MISMATCH:
            if self._is_first:
                self.look_at(tree, "batch" if stacked else "example")
            try:
                refused = put_tree(
                    self.core,
                    tree,
                    self.spec,
                    stacked,
                    self.whole_batches,
                    timeout,
                    self._check_sizes,
                    versions,
                )
            except (SpecError, CapacityError):
                self.ready()  # a buffer whose context was left says that first
                raise
        if refused is not None and refused[0] == _core.VERSIONS:
            raise other_count(versions, refused[1])
        if refused is not None:
            self.refuse_put(*refused)

    def look_at(self, tree: Any, what: str) -> None:
        """Warn of arrays in the first tree whose attributes batches do not have."""
        self._is_first = False
        warn_of_lost(tree, what)

    def _check_sizes(self, arrays: list[Any], stacked: bool) -> None:
        """Raise for an example larger than a segment's share, or than a row."""
        if self.spec.is_ragged:
            assert not isinstance(self.core, _core.DeviceBuffer)
            share = self.core.share_bytes
            ragged.check_sizes(
                arrays, self.spec, self.options, stacked=stacked, share=share
            )

    def refuse_put(self, code: int, accepted: int) -> NoReturn:
        """Raise for a put that ended with `code` after `accepted` examples."""
        self.termination.refuse_put(code, accepted)

    def close(self) -> None:
        """Mark the end of upstream; the resident examples are still served."""
        code = self.core.close()
        if code == _core.FORKED:
            self.termination.check(code)

    def fail(self, error: BaseException) -> None:
        """Fail the epoch: draws raise `UpstreamError` from `error`."""
        self.termination.upstream_failed(error)
        self.termination.check(self.core.fail())

    def term(self) -> int:
        """Return a number that changes whenever an epoch is opened for `put`."""
        return self.core.term()

    def abandon(self, term: int) -> None:
        """Fail the epoch without an error, as its consumer stopped half-way.

        Args:
            term: as `term()` was when the epoch began. If another epoch has been
                opened since, nothing happens.
        """
        self.core.abandon(term)

    # ---- consumers

    def ready(self) -> bool:
        """Return True if a draw would return, or raise, without waiting."""
        answer = self.core.ready()
        if answer is not True and answer is not False:
            self.termination.check(answer)
        if self.functions is not None and self.functions.waits():
            return True
        return answer is True

    # ---- epochs

    def reset(self, epoch: int, gap: int = 0) -> None:
        """End the epoch as it stands, and open another in the same memory.

        Args:
            epoch: number of the new epoch.
            gap: positions of the ring that are passed over in between.
        """
        self.termination.check(self.core.reset(epoch, gap))
        self.epoch = epoch
        self.termination.epoch_begins()
        self._forget()

    def _forget(self) -> None:
        """Drop what was made ahead in the epoch that is over."""
        if self.functions is not None:
            self.functions.forget()

    def is_draining(self) -> bool:
        """Return True once upstream has ended and all it put is in the window."""
        return self.core.draining() == 1

    def open_ahead(self, epoch: int) -> bool:
        """Open an epoch for `put` while the current one, draining, is served out."""
        return self.core.open_ahead(epoch) == 1

    def go_ahead(self, epoch: int) -> None:
        """Enter the epoch opened ahead; give up the rest of the current one."""
        answer = self.core.go_ahead()
        if answer != 1:
            self.termination.check(answer or _core.REENTRANT)
        self.epoch = epoch
        self._forget()

    def position(self) -> state.State:
        """Return the position of the batches handed out, as `state.seal` takes it.

        Raises:
            StateError: a function of `transform` raised, and its batch waits.
        """
        checkpoint = self.core.checkpoint()
        if isinstance(checkpoint, int):
            self.termination.check(checkpoint)
            raise AssertionError(checkpoint)
        if self.functions is not None and self.functions.waits():
            raise StateError(
                "a batch was drawn and its Lambda raised; a state taken now would "
                "leave it out. Call `next_batch` until it comes, then take the state."
            )
        return state.position_of(checkpoint)

    def restore(self, position: state.State) -> None:
        """Continue at a position that `position()` returned.

        Raises:
            StateError: it is damaged.
        """
        checkpoint = state.as_checkpoint(position)
        if checkpoint is None:
            self.reset(position["epoch"])
            return
        try:
            self.termination.check(self.core.restore(checkpoint))
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            if isinstance(error, EchobufError):
                raise
            raise StateError(f"`state` is damaged: {error}.") from None
        self.epoch = position["epoch"]

    # ---- life

    def raw_stats(self) -> Raw:
        """Return counts and times of this epoch, as the core gives them."""
        raw = self.core.stats()
        if isinstance(raw, int):
            self.termination.check(raw)
            raise AssertionError(raw)
        return raw

    def check_timeout(self, timeout: float) -> float | None:
        """Return a timeout in seconds; a buffer that was left raises that first."""
        try:
            return check_timeout(timeout)
        except EchobufError:
            self.ready()
            raise

    def release(self) -> None:
        """Free the memory; every later call raises `ClosedError`."""
        self.core.release()
