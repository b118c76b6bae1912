"""`EchoBuffer`: put fresh examples in, draw shuffled batches out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any, Literal

from echobuf import _core
from echobuf._engine.producing import Producing
from echobuf._engine.resumable import Resumable
from echobuf._engine.waits import show_fresh
from echobuf.arguments import BUFFER, Factor, RaggedForm, Unit, show_factor
from echobuf.errors import SpecError
from echobuf.options import check_options, takes_options
from echobuf.progress import current, watching
from echobuf.resources import Uncopied
from echobuf.spec import describe, make_structure
from echobuf.stats import Stats, make_stats


class EchoBuffer(Producing, Resumable, Uncopied):
    """A window of examples, each stored once and served as often as `factor` says.

    Fresh examples enter in the order of `put`; batches are drawn in shuffled passes
    over the window (data echoing: Choi et al. 2019, arXiv:1907.05550). All calls may
    come from any number of threads.

    Args:
        spec: a pytree whose leaves are `Field`s, or arrays that give shape and dtype,
            of one example (of one whole batch with `unit="batch"`).
        batch_size: examples in a batch; left out with `unit="batch"`.
        window: examples (batches with `unit="batch"`) that one shuffled pass covers; at
            least `batch_size` and `factor`.
        factor: how many times each fresh example is served: a number >= 1, or "auto",
            which echoes only while upstream is behind. With a fraction such as 2.5 it
            is floor(factor) or ceil(factor) times, other examples get the extra use in
            each epoch, and over ten epochs each example's mean is within 0.2 of it.
        max_factor: the most that "auto" serves an example.
        unit: "example", or "batch" to echo whole batches as they are.
        device: where the window is: "cpu", "cuda" (the current device) or "cuda:N".
            Batches are NumPy arrays on the CPU and CuPy arrays on a CUDA device.
        seed: with it, the order of fresh examples, `window` and `factor`, the order of
            draws is fixed (an int from 0 to 2**64 - 1).
        transform: a mapping from leaves to lists of operations of `echobuf.transforms`,
            which run inside the draw: each echo is augmented anew. It says what batches
            are made of: docs/transforms.md.
        prefetch: batches that a native thread assembles ahead; on a CUDA device, where
            examples are uploaded ahead anyhow, it does nothing.
        drop_last: leave out a last batch that is shorter than `batch_size`.
        max_bytes: the most memory that the buffer may take on its device: its ring,
            batches made ahead, and batch memory kept for the next batch. Batches that
            you hold are yours.
        payload_bytes: for a spec with ragged leaves: the most bytes that these take in
            the window, all of them together, without padding. Left out,
            `window * max_length` rows, for each example of a whole batch. An example (a
            whole batch with `unit="batch"`) may have as many bytes as a segment's
            share, `payload_bytes // ceil(factor)`.
        ragged: the form of ragged leaves in batches: "packed" (the default) for
            `echobuf.Ragged`, "padded" for `echobuf.Padded`.
        pad_value: fills up padding: a number that the dtypes hold, or a pytree like an
            example with a number for each ragged leaf.
        pad_to: makes the length of padded arrays, or the rows of packed ones, a
            multiple of it.
        max_rows: in place of `batch_size`: a batch is as many draws as have at most so
            many rows in each ragged leaf, with padding where they are padded; at least
            one draw, at most `window`.
        pack_to: packs whole examples into rows of this length, in the order of the
            draws: each into the first of the 64 rows begun last that has room for it,
            else into a new one. A batch is `batch_size` rows, a leaf an
            `echobuf.Packed`; all leaves are ragged, and of one length in an example.
        overlong: "error" refuses examples longer than `pack_to`, "cut" cuts them.
        with_info: each batch is a tuple `(batch, info)`, where `info`, a `BatchInfo`,
            says which fresh examples it holds, and which use of them this is.
        max_staleness: once an example was put with version v, examples with versions
            below v - `max_staleness` are drawn no more. With this, batches are drawn
            when they are asked for: `prefetch` does nothing.

    Raises:
        SpecError: the spec is empty or has leaves that cannot be stored.
        OptionError: an argument is out of range.
        CapacityError: it would not fit `max_bytes` or the memory there is.
        DeviceError: the device cannot be used.

    Examples:
        >>> spec = {"x": Field(2, np.float32), "y": Field((), np.int64)}
        >>> buffer = EchoBuffer(spec, batch_size=3, window=6, factor=2)
        >>> for i in range(6):
        ...     buffer.put({"x": np.full(2, i, np.float32), "y": i})
        >>> buffer.close()
        >>> [batch["y"].tolist() for batch in buffer]  # each example twice
        [[1, 2, 0], [4, 1, 5], [2, 3, 0], [5, 4, 3]]
        >>> buffer.ready(), buffer.stats().effective_factor
        (True, 2.0)
        >>> buffer.reset()  # the next epoch, in the same memory
    """

    _called = "an EchoBuffer"
    _remedy = "Make another, and load this one's `state_dict()` into it."
    _shared = False  # whether the slots lie where other processes can write them
    _borrowed: _core.BorrowedSlots | None = None  # slots that another process writes

    @takes_options(BUFFER)
    def __init__(  # noqa: PLR0913 - what users may say of a buffer
        self,
        spec: Any,
        *,
        batch_size: int | None = None,
        window: int,
        factor: Factor = 2,
        max_factor: int = 8,
        unit: Unit = "example",
        device: str = "cpu",
        seed: int = 0,
        transform: Any = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
        payload_bytes: int | None = None,
        ragged: RaggedForm = "packed",
        pad_value: Any = 0,
        pad_to: int | None = None,
        max_rows: int | None = None,
        pack_to: int | None = None,
        overlong: Literal["error", "cut"] = "error",
        with_info: bool = False,
        max_staleness: int | None = None,
    ) -> None: ...

    def _set_up(self, spec: Any, **arguments: Any) -> None:
        options = check_options(**arguments)
        self._assemble(spec, options, shared=self._shared, borrowed=self._borrowed)
        treespec = self._output.spec.treespec
        structure = make_structure(treespec, carries=self._carries)
        self._flatten_out, self._unflatten = structure.flatten, structure.unflatten
        self._full_length = (options.lead + self._output.spec.fields[0].shape)[0]
        if options.max_rows is not None:
            self._full_length = -1  # any number of examples

    def __repr__(self) -> str:
        options = self._options
        size = options.show_size(options.batch_size)
        staleness = options.max_staleness
        expiry = "" if staleness is None else f", max_staleness={staleness}"
        return (
            f"EchoBuffer({describe(self._spec)}, {size}window={options.window}, "
            f"factor={show_factor(options.factor)}, unit={options.unit!r}, "
            f"device={options.device!r}{expiry}{self._output.show()})"
        )

    # ---- downstream

    def next_batch(
        self, out: Any = None, timeout: float | None = None, stream: Any = None
    ) -> Any:
        """Return the next batch.

        Args:
            out: a pytree like the spec of writable arrays or tensors on the buffer's
                device, leaves `[batch_size, *shape]` (`unit="batch"`: as the spec), to
                write into. A shorter last batch comes back as views of their first
                rows. A ragged leaf is a `Ragged`, `Padded` or `Packed` of arrays with
                at least the rows of the batch; rows that are left get `pad_value`.
            timeout: seconds to wait for upstream at most.
            stream: on a CUDA device, where the batch is to be valid: a stream of CuPy
                or torch, or its handle. By default the caller's current stream.

        Returns:
            A pytree like the spec with leaves `[batch_size, *shape]`, 64-byte aligned,
            which are the caller's; or `out`. Ragged leaves are `Ragged` or `Padded`. On
            a CUDA device the batch is drawn in the order of the stream; nothing waits
            for it. With `with_info`, a tuple of that and a `BatchInfo`, as `out` is.

        Raises:
            StopIteration: everything has been served.
            TimeoutError: the time ran out; nothing is lost.
            UpstreamError: `fail` was called.
            SpecError: `out` does not fit, or has too few rows for the next batch.
            OptionError: this capture has a draw of this buffer already.
            StateError: upstream ended before what was resident when the loaded state
                was taken had been put again.
            ClosedError: the context was left.

        Examples:
            >>> buffer = EchoBuffer(Field((), np.int64), batch_size=2, window=4)
            >>> buffer.put_batch(np.arange(4))
            >>> batch, out = buffer.next_batch(), np.empty(2, np.int64)
            >>> buffer.next_batch(out=out) is out
            True
        """
        if timeout is None:
            wait = current.slice_s
        else:
            wait = timeout = self._check_timeout(timeout)
        self._drawn_by = get_ident()
        if out is not None:
            return self._next_into(out, timeout, stream)
        if stream is not None:
            leaves = self._draws.next_on(stream, wait)
        else:
            leaves = self._draws.next(wait)
        if not isinstance(leaves, list):
            leaves = self._next_late(leaves, timeout, stream)
        return self._unflatten(leaves)

    def _next_late(self, code: int, timeout: float | None, stream: Any) -> list[Any]:
        """Return the leaves of a batch, after a draw that has ended with `code`."""
        leaves: list[Any] | int = code
        if timeout is None and code == _core.TIMEOUT:
            with self._watching():
                if stream is not None:
                    leaves = self._draws.next_on(stream, None)
                else:
                    leaves = self._draws.next(None)
        if not isinstance(leaves, list):
            self._termination.end_next(leaves)
        return leaves

    def _watching(self) -> AbstractContextManager[None]:
        """Return a context whose block is a wait for the next batch."""
        return watching("batch", self._describe_fresh, current.slice_s or 0.0)

    def _describe_fresh(self) -> str:
        fresh = show_fresh(self._options, self._termination.counts()[0])
        return (
            f"a batch of a buffer: {fresh}; put more, or `close()` the buffer after "
            "the last one"
        )

    def before_replay(self, stream: Any = None, timeout: float | None = None) -> None:
        """Make the next batch the one that a graph draws when it is replayed.

        On a CUDA device a `next_batch(out=...)` on a stream that is being captured
        becomes part of the graph, once in a graph, and uses up nothing. Call this
        before each replay: it waits until the records of the next batch are on their
        way to the device, makes `stream` wait for them, and counts the batch as handed
        out. Replays draw that batch until the next call that draws or resets; what is
        replayed after that without a `before_replay` draws nothing.

        Args:
            stream: where the graph is replayed, which must live until the next call
                that draws, resets or leaves the context; by default the caller's
                current stream.
            timeout: seconds to wait for upstream at most.

        Raises:
            StopIteration: everything has been served, or what comes next is shorter
                than a batch: then `next_batch` serves it. Do not replay.
            TimeoutError: the time ran out; nothing is lost. Do not replay.
            SpecError: the next batch has more rows than `out` had; `next_batch` serves
                it. Do not replay.
            OptionError: the buffer is on the CPU, or `stream` is being captured.
            UpstreamError, StateError, ClosedError: as `next_batch`.

        Examples:
            >>> x = np.zeros(3)
            >>> with echobuf.testing.simulated_cuda():
            ...     buffer = EchoBuffer(x, batch_size=1, window=2, device="cuda")
            ...     buffer.put_batch(np.stack([x, x]))
            ...     buffer.before_replay()  # `graph.replay()` draws this batch
            ...     buffer.stats().served
            1
        """
        if timeout is not None:
            timeout = self._check_timeout(timeout)
        code = self._draws.before_replay(stream, timeout)
        if code:
            self._termination.end_next(code)

    def _next_into(self, out: Any, timeout: float | None, stream: Any) -> Any:
        leaves = self._flatten_out(out)
        if leaves is None:
            try:
                leaves = self._output.spec.flatten(out, "out")
            except SpecError:
                self.ready()  # a buffer whose context was left says that first
                raise
        wait = current.slice_s if timeout is None else timeout
        count = self._draws.next_into(leaves, wait, stream)
        if timeout is None and count == -_core.TIMEOUT:
            with self._watching():
                count = self._draws.next_into(leaves, None, stream)
        if count < 0:
            self._termination.end_next(-count)
        if count == self._full_length:
            return out
        return self._unflatten(self._backend.ragged_out.first(leaves, count))

    def __iter__(self) -> Iterator[Any]:
        self.ready()  # raises if the context was left
        return self

    def __next__(self) -> Any:
        return self.next_batch()

    # ---- life

    def stats(self) -> Stats:
        """Return counts and times of this epoch."""
        return make_stats(self._raw_stats())

    def __enter__(self) -> EchoBuffer:
        self.ready()  # raises if the context was left
        return self

    def __exit__(self, *error: object) -> None:
        self._core.release()
        if self._core.gone():  # else a call of another thread is still in it
            self._device_puts = None
