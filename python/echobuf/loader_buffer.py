"""`LoaderBuffer`: a buffer as loaders, their worker processes and adapters use it."""

from __future__ import annotations

from typing import Any, NoReturn

from echobuf import _core, state
from echobuf.buffer import EchoBuffer
from echobuf.spec import make_structure
from echobuf.stats import Raw


class LoaderBuffer(EchoBuffer):
    """A buffer that a loader feeds, draws from, and leads from epoch to epoch.

    Args:
        spec: as for `EchoBuffer`.
        shared: the slots, and nothing else, lie in memory that worker processes can
            write. Where examples differ in length, workers have memory of their own in
            place of them.
        borrowed: slots that a server writes, in place of slots of its own.
        carries: None in the spec stands for a leaf of items that is carried. Draws are
            then `take` and `join` alone.
        arguments: as for `EchoBuffer`.

    Attributes:
        core: the native buffer.
        spec: of one fresh example.
        output: spec of batches after `transform`.
        options: the arguments, checked.
        backend: allocates the window and draws batches from it; adapters set the form
            of batches through it.
        functions: applied to whole batches, if `transform` has such; else None.
        arguments: those that the order of batches depends on, as in a state.
        termination: turns the core's codes into exceptions.
        put_all: the core's, `(stacked, term, items, most, objects)`: puts the items of
            an iterator up to the first that needs conversion; what they carry is added
            to the objects. It returns the number of items put; True at the iterator's
            end; the code and the accepted examples of a refused put, else None; the
            item that was not put, if any.
    """

    def __init__(
        self,
        spec: Any,
        *,
        shared: bool = False,
        borrowed: _core.BorrowedSlots | None = None,
        carries: bool = False,
        **arguments: Any,
    ) -> None:
        self._shared, self._borrowed = shared, borrowed
        self._carries = carries
        super().__init__(spec, **arguments)
        self.core, self.backend, self.functions = (
            self._core,
            self._backend,
            self._functions,
        )
        self.spec, self.output, self.options = self._spec, self._output, self._options
        self.arguments, self.termination = self._arguments, self._termination
        self.put_all = self._core.put_all
        if carries:
            self._join = make_structure(self.output.spec.treespec, carries=True).join
            self._backend.names_records = True

    @property
    def epoch(self) -> int:
        """The number of the epoch that is drawn from."""
        return self._epoch

    # ---- feeding

    def put_tree(self, tree: Any, stacked: bool) -> None:
        """Put one example, or examples stacked on axis 0; wait while the ring is full.

        Raises:
            SpecError: the tree does not fit the spec; nothing was put.
            CapacityError: an example is larger than a segment's share of the payload;
                nothing was put.
            ClosedError: `accepted` examples were put.
        """
        self._put_tree(tree, stacked, None)

    def refuse_put(self, code: int, accepted: int) -> NoReturn:
        """Raise for a put that ended with `code` after `accepted` examples."""
        self._termination.refuse_put(code, accepted)

    def look_at(self, tree: Any, what: str) -> None:
        """Warn of arrays in the first tree whose attributes batches do not have."""
        self._look_at(tree, what)

    def term(self) -> int:
        """Return a number that changes whenever an epoch is opened for `put`."""
        return self._core.term()

    def abandon(self, term: int) -> None:
        """Fail the epoch without an error, as its consumer stopped half-way.

        Args:
            term: as `term()` was when the epoch began. If another epoch has been
                opened since, nothing happens.
        """
        self._core.abandon(term)

    # ---- drawing

    def next_within(self, seconds: float | None) -> Any:
        """Return the next batch as `next_batch` does; None if none comes in time."""
        leaves = self._draws.next(seconds)
        if isinstance(leaves, list):
            return self._unflatten(leaves)
        if leaves != _core.TIMEOUT:
            self._termination.end_next(leaves)
        return None

    def take(self, seconds: float | None) -> tuple[list[Any], Any] | None:
        """Return the arrays of the next batch, and the numbers of its records.

        None if none comes in time; it raises as `next_batch`. For `join`.
        """
        leaves = self._draws.next(seconds)
        if isinstance(leaves, list):
            return leaves, leaves.pop()
        if leaves != _core.TIMEOUT:
            self._termination.end_next(leaves)
        return None

    def join(self, arrays: list[Any], carried: list[Any]) -> Any:
        """Return a batch of its arrays, and the objects of each carried leaf."""
        return self._join(arrays, carried)

    def oldest_needed(self) -> int:
        """Return the number of the oldest record that batches to come need."""
        return self._core.oldest_needed()

    # ---- epochs

    def pass_over(self, gap: int) -> None:
        """Begin the epoch again, that many positions of the ring further on."""
        self._begin_epoch(self._epoch, gap)

    def is_draining(self) -> bool:
        """Return True once upstream has ended and all it put is in the window."""
        return self._core.draining() == 1

    def open_ahead(self, epoch: int) -> bool:
        """Open an epoch for `put` while the current one, draining, is served out."""
        return self._core.open_ahead(epoch) == 1

    def go_ahead(self, epoch: int) -> None:
        """Enter the epoch opened ahead; give up the rest of the current one."""
        answer = self._core.go_ahead()
        if answer != 1:
            self._termination.check(answer or _core.REENTRANT)
        self._epoch = epoch
        self._forget()

    def position(self) -> state.State:
        """Return the position of the batches handed out, as `state.seal` takes it.

        Raises:
            StateError: a function of `transform` raised, and its batch waits.
        """
        return self._position()

    def restore(self, position: state.State) -> None:
        """Continue at a position that `position()` returned."""
        self._restore(position)

    # ---- life

    def raw_stats(self) -> Raw:
        """Return counts and times of this epoch, as the core gives them."""
        return self._raw_stats()

    def release(self) -> None:
        """Free the memory; every later call raises `ClosedError`."""
        self._core.release()
