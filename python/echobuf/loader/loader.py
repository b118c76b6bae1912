"""`EchoLoader`: echoing around any iterable."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from echobuf.arguments import BUFFER, LOADER, Factor, Unit, check_epoch
from echobuf.errors import EchobufError
from echobuf.loader.attributes import DataLoaderLike
from echobuf.loader.epoch import weakly
from echobuf.loader.epochs import Epochs
from echobuf.loader.items import Adapter
from echobuf.loader.plan import Plan
from echobuf.loader.readers import Reader, choose_reader, is_attached
from echobuf.loader.starter import EpochStarter
from echobuf.loader.upstream import Upstream
from echobuf.options import check_each, takes_options
from echobuf.workers.settings import Context, check_workers

_LEAVE_S = 1.0


@dataclass(frozen=True)
class LoaderInternals:
    """Parts of a loader that other rooms of echobuf use.

    Attributes:
        plan: the checked arguments.
        starter: begins the epochs.
        reader: reads upstream.
        upstream: the iterable that the reader reads.
        adapter: converts items and batches for the loader's framework.
        stop: stops feeding the current epoch, without waiting for upstream.
        end_epoch: ends the current epoch, and waits for the feeder.
        count_batches: returns the number of batches in an epoch, given by its number,
            on all ranks; raises `TypeError` where it is not known.
    """

    plan: Plan
    starter: EpochStarter
    reader: Reader
    upstream: Iterable[Any]
    adapter: Adapter
    stop: Callable[[], None]
    end_epoch: Callable[[], None]
    count_batches: Callable[[int], int]


class EchoLoader(DataLoaderLike):
    """Echoes what an iterable yields, in shuffled NumPy batches.

    Each `iter(loader)` is one epoch: upstream is iterated afresh, on a background
    thread, into the same memory. One epoch runs at a time; beginning another ends it.

    Args:
        upstream: an iterable of examples or of batches, such as a DataLoader; or a
            `ray.data.Dataset`, or one trainer's shard of it, which is read in batches
            of `batch_size`.
        batch_size: examples in a batch; left out with `unit="batch"`. With
            `batched=True` it is by default that of the first batch.
        window: examples (batches with `unit="batch"`) that one shuffled pass covers; at
            least `batch_size` and `factor`. Left out, it is 32 batches, rounded up to a
            multiple of ceil(factor) batches.
        factor: how many times each fresh example is served: a number >= 1, or "auto",
            which echoes only while upstream is behind. A fraction such as 2.5 gives
            other examples the extra use in each epoch, and `len(loader)` is that of the
            epoch that is running, or comes next; `batch_size` is then at most
            floor(factor) * (window // ceil(factor)).
        max_factor: the most that "auto" serves an example.
        unit: "example", or "batch" to echo whole batches as they are.
        batched: whether upstream yields batches (examples stacked on axis 0). By
            default True with `unit="batch"`, for a DataLoader that makes batches, and
            for Ray.
        length: how many examples (batches with `unit="batch"`) upstream yields, where
            it does not say; for `len(loader)`.
        overlap_epochs: begin the next epoch's upstream as soon as all examples of this
            one have entered the window, so that short epochs do not pay for filling and
            draining it. `iter(upstream)` and its first `next` then run inside a `next`
            of this epoch; what is set between epochs (a sampler's epoch) comes too late
            for them; and one epoch more is begun than is used.
        carry: leaves of examples that are no arrays (strings, None, any objects) come
            back in batches as lists of the same objects, one an example. False refuses
            such examples.
        sampler: for a map-style `upstream` (`__getitem__`, `__len__`): the indices of
            an epoch's examples, in order, iterated anew in each epoch.
        num_workers: processes that make examples of a map-style `upstream` and write
            them straight into the ring, in shared memory. The order is the sampler's
            whatever their number. 0: examples are made on a thread of this process.
        in_order: False lets examples of workers enter the window as they arrive, so
            that one that takes long holds up no other. The order of batches then
            depends on timing; a state goes on exactly with what had entered.
        multiprocessing_context: how they are started: "spawn" (the default),
            "forkserver", or such a context.
        worker_init_fn: called in each with its number, before its first example.
        max_restarts: workers that may die in an epoch and be started again, with the
            examples that they had not finished; one more is an `UpstreamError`.
        device: where the window is: "cpu", "cuda" (the current device) or "cuda:N".
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
        payload_bytes: makes leaves ragged whose length on axis 0 varies: the most bytes
            that these take in the window, all of them together, without padding. An
            example (a whole batch with `unit="batch"`) may have as many as a segment's
            share, `payload_bytes // ceil(factor)`.
        ragged: the form of ragged leaves in batches: "packed" (the default) for
            `echobuf.Ragged`, "padded" for `echobuf.Padded`. Which leaves are ragged is
            seen from the first items; or it is said, in a pytree like an example with
            the form at ragged leaves and None at the others.
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

    Raises:
        OptionError: an argument is out of range.
        DeviceError: the device cannot be used.

    Examples:
        >>> upstream = [{"x": np.float32(i), "y": i % 2} for i in range(100)]
        >>> loader = EchoLoader(upstream, batch_size=25, window=50, factor=2)
        >>> len(loader)
        8
        >>> for batch in loader:
        ...     print(batch["x"].shape, batch["y"].dtype)
        ...     break
        (25,) int64
    """

    @takes_options(LOADER)
    def __init__(  # noqa: PLR0913 - what users may say of a loader
        self,
        upstream: Iterable[Any],
        *,
        batch_size: int | None = None,
        window: int | None = None,
        factor: Factor = "auto",
        max_factor: int = 8,
        unit: Unit = "example",
        batched: bool | None = None,
        length: int | None = None,
        overlap_epochs: bool = False,
        carry: bool = True,
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        in_order: bool = True,
        multiprocessing_context: Context = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        max_restarts: int = 3,
        device: str = "cpu",
        seed: int = 0,
        transform: Any = None,
        prefetch: int = 0,
        drop_last: bool = False,
        max_bytes: int | None = None,
        payload_bytes: int | None = None,
        ragged: Any = None,
        pad_value: Any = 0,
        pad_to: int | None = None,
        max_rows: int | None = None,
        pack_to: int | None = None,
        overlong: Literal["error", "cut"] = "error",
        with_info: bool = False,
    ) -> None: ...

    def _set_up(self, upstream: Iterable[Any], **arguments: Any) -> None:
        arguments |= check_each(arguments, LOADER, beside=BUFFER)
        adapter = self._adapter()
        workers = check_workers(**arguments)
        self._choice = choice = choose_reader(
            upstream,
            adapter,
            workers,
            sampler=arguments["sampler"],
            batch_size=arguments["batch_size"],
            batched=arguments["batched"],
            unit=arguments["unit"],
            overlap_epochs=arguments["overlap_epochs"],
        )
        source = choice.upstream
        self._upstream = Upstream(source)
        self._plan = Plan(
            source,
            default=adapter.yields_batches(source),
            arguments=arguments,
            make=choice.make,
        )
        self._plan.see_first = weakly(self._see_first_batch, lambda: None)
        self._starter = EpochStarter(self._upstream, self._plan, adapter, choice.reader)
        self._epochs = Epochs(
            self._starter, self._upstream.epochs, overlap=arguments["overlap_epochs"]
        )
        self._is_attached = is_attached(upstream)
        self._closing = threading.RLock()
        self._is_released = False

    def _adapter(self) -> Adapter:
        """Return the adapter to the framework that the batches are for."""
        return Adapter()

    # ---- epochs

    def __iter__(self) -> Iterator[Any]:
        """Begin an epoch.

        Raises:
            UpstreamError: upstream gives one epoch only and has been used.
            SpecError: the first item has leaves that cannot be stored.
            CapacityError: the window does not fit the memory.
            ClosedError: the loader was closed.
        """
        self._check_open()
        feed = self._epochs.take_over()
        if feed is None:
            self._end_current()
            feed = self._epochs.begin()
        return self._epochs.iterate(feed, weakly(self._served_out, lambda: None))

    def _internals(self) -> LoaderInternals:
        self._check_open()
        return LoaderInternals(
            plan=self._plan,
            starter=self._starter,
            reader=self._starter.reader,
            upstream=self._upstream.iterable,
            adapter=self._adapter(),
            stop=self._starter.stop,
            end_epoch=self._end_current,
            count_batches=self._count_batches,
        )

    def _see_first_batch(self) -> None:
        """Begin the first epoch, which the next `iter` goes on with."""
        with contextlib.suppress(EchobufError):  # which that `iter` raises, too
            EchoLoader.__iter__(self)

    def _served_out(self) -> None:
        """Note that the end of an epoch has been drawn."""
        fresh = self._epochs.count_fresh()
        self._epochs.served_out()
        if fresh is not None and not self._is_attached:  # a server may end early
            self._plan.check_count(fresh)

    def _counted_epoch(self) -> int:
        return self._epochs.count()

    # ---- life

    def close(self) -> None:
        """End the epoch, upstream's thread and worker processes; release the memory.

        It waits until upstream's current call returns; where an exception, such as that
        of Ctrl-C, leaves `with loader:`, for a second at most. A place at a server
        (`echobuf.serve.attach`) is left, and the loader holds its upstream no longer.
        An iterator that is still held raises `ClosedError`, as does any later use of
        the loader. Calling it twice does nothing. `with loader:` calls it at the end.

        Examples:
            >>> loader = EchoLoader(range(100), batch_size=10, factor=2)
            >>> batch = next(iter(loader))
            >>> loader.close()
            >>> iter(loader)
            Traceback (most recent call last):
                ...
            echobuf.errors.ClosedError: this loader was closed; make another one
            around the same data.
        """
        with self._closing:  # and if that is interrupted, the next call goes on
            if not self._is_released:
                self._closed = True
                self._release()

    def _release(self) -> None:
        self._epochs.refuse()
        try:
            self._end_current()
        except Exception:
            self._starter.close()
            raise
        self._starter.close()
        self._is_released = True
        del self._choice, self._upstream, self._plan, self._epochs, self._starter

    def __exit__(self, *error: object) -> None:
        """Close the loader; after an exception wait at most a second for upstream."""
        if any(error) and not self._closed:
            self._starter.leave(_LEAVE_S)
        self.close()

    # ---- epochs to come

    def set_epoch(self, epoch: int) -> None:
        """Fix the number, and so the order, of the epoch that the next `iter` begins.

        It is passed on to what has `set_epoch` upstream: the iterable itself, or the
        samplers and the dataset of a DataLoader. An iterator that has given no batch
        yet becomes that epoch, too: some trainers make it first.

        A loaded state of that epoch stays loaded; one of another epoch is given up.

        Examples:
            >>> loader = EchoLoader(range(4), batch_size=4, factor=1)
            >>> for epoch in (0, 1, 0):
            ...     loader.set_epoch(epoch)
            ...     print(next(iter(loader)))
            [3 2 0 1]
            [3 0 1 2]
            [3 2 0 1]
        """
        self._check_open()
        self._epochs.set_number(check_epoch(epoch))


def internals_of(loader: EchoLoader) -> LoaderInternals:
    """Return the parts beneath a loader.

    Raises:
        ClosedError: the loader was closed.
    """
    return loader._internals()  # noqa: SLF001 - its own module
