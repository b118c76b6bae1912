"""`Server`: runs upstream once, for all the jobs that attach."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from echobuf import _core
from echobuf.arguments import BUFFER, LOADER, check_factor, check_int
from echobuf.errors import (
    CapacityError,
    EchobufError,
    OptionError,
    SpecError,
    UpstreamError,
    describe,
    message,
    titled,
)
from echobuf.loader.upstream import UpstreamStart
from echobuf.option_table import MAX_WINDOW
from echobuf.options import check_each, check_options, defaults_of
from echobuf.resources import Closing, DaemonThread, Signal, enough
from echobuf.serve import address
from echobuf.serve.protocol import ExampleSpec, Message, ServerInfo, pack
from echobuf.serve.ragged import LARGEST, check_serving
from echobuf.serve.server_loop import Adoption, ServerLoop
from echobuf.serve.shared_ring import (
    ServerUpstream,
    SharedRing,
    allocate,
    ring_arguments,
)
from echobuf.workers.object_log import ObjectLog
from echobuf.workers.settings import check_workers

_SLICE_S = 0.25
_RESUME_S = 1.0  # beyond the lease, for jobs to reconnect


class Server(Closing):
    """A server that runs upstream once for several jobs on this machine.

    Each job that attaches (`echobuf.serve.attach(name)` as the upstream of a loader)
    gets every fresh example of an epoch, in upstream's order, without a copy: its
    window lies in the server's memory. An epoch begins once the last one has been read,
    for all jobs attached by then; it does not wait until they have echoed it.

    Threads of this process do the work, from construction until `close`.

    Args:
        upstream: iterable of examples or batches, or a dataset, as for `EchoLoader`.
            Its `set_epoch`, if any, is called with the number of each epoch.
        name: of the server: 1 to 64 letters, digits, '_', '-' or '.'.
        window: the largest window that a job may have, in examples.
        lag: fresh examples that the fastest job may be ahead of the slowest, beyond
            the slowest's window; then it waits. `window` by default.
        spill: a folder on a disk. The ring is then a file without a name there, not
            memory, so that `lag` may be large. Jobs with `device="cuda"` cannot use it.
        jobs: number of jobs to wait for before the first epoch.
        epochs: number of epochs to run; no limit by default.
        lease: seconds without a heartbeat after which a job is dropped.
        batched: True if upstream yields batches; by default True for a DataLoader that
            makes batches.
        length: fresh examples an epoch, if upstream does not know; gives jobs `len()`.
        sampler: iterable of indices, for a dataset; all in order by default.
        num_workers: worker processes that make examples, for a dataset.
        multiprocessing_context: "spawn" or "forkserver" for the workers.
        worker_init_fn: called in each worker with its number first.
        max_restarts: dead workers that are replaced in an epoch.
        seed: of the workers' random numbers.
        payload_bytes: the largest that a job may have, for examples with ragged leaves
            (`docs/ragged.md`): the bytes of these in a job's window. An example may
            take a quarter of it.
        ragged: a pytree like an example, or like a batch, with "packed" at each ragged
            leaf and None at the others; by default leaves that vary are found, as in
            `EchoLoader`. Jobs choose their own form.

    Raises:
        OptionError: an argument is out of range, or the name is taken.
        UpstreamError: upstream yields nothing, or raises at once.
        SpecError: the first item cannot be stored, or jobs of the last server of this
            name had other examples.
        CapacityError: the ring does not fit the memory, or the disk.

    Examples:
        >>> server = echobuf.serve.Server(range(6), "numbers", window=6, epochs=1)
        >>> upstream = echobuf.serve.attach("numbers")  # in each training job
        >>> loader = EchoLoader(upstream, batch_size=6, window=6, factor=2)
        >>> [sorted(batch.tolist()) for batch in loader]
        [[0, 1, 1, 2, 4, 5], [0, 2, 3, 3, 4, 5]]
        >>> server.wait()
        True
        >>> loader.close()
        >>> server.close()
    """

    def __init__(  # noqa: PLR0913 - the options of a server
        self,
        upstream: Iterable[Any],
        name: str,
        *,
        window: int,
        lag: int | None = None,
        spill: Any = None,
        jobs: int = 1,
        epochs: int | None = None,
        lease: float = 10.0,
        batched: bool | None = None,
        length: int | None = None,
        sampler: Iterable[int] | None = None,
        num_workers: int = 0,
        multiprocessing_context: Any = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        max_restarts: int = 3,
        seed: int = 0,
        payload_bytes: int | None = None,
        ragged: Any = None,
    ) -> None:
        self.name = address.check_name(name)
        window = check_int("window", window, 1, MAX_WINDOW)
        lag = window if lag is None else check_int("lag", lag, 0, None)
        self._first_jobs = check_int("jobs", jobs, 1, _MAX_JOBS)
        self._epochs = None if epochs is None else check_int("epochs", epochs, 1, None)
        self._lease_s = _check_lease(lease)
        of_loaders = {
            **defaults_of(LOADER),
            "batched": batched,
            "length": length,
            "num_workers": num_workers,
            "multiprocessing_context": multiprocessing_context,
            "worker_init_fn": worker_init_fn,
            "max_restarts": max_restarts,
            "seed": seed,
        }
        check_each(of_loaders, LOADER, beside=BUFFER)
        workers = check_workers(**of_loaders)
        self._slots = 2 * window + lag
        serving = check_serving(payload_bytes, ragged, self._slots)
        options = check_options(
            batch_size=1,
            window=window,
            factor=1,
            max_factor=1,
            device="cpu",
            seed=seed,
            payload_bytes=None if serving is None else serving.payload_bytes,
        )
        if serving is not None:  # an example has room as in so many segments
            options = options.replaced(factor=check_factor(LARGEST))
        self._options = options
        self._spill = spill
        self._upstream = ServerUpstream(
            upstream,
            batched=batched,
            length=length,
            sampler=sampler,
            workers=workers,
            ragged=serving,
            window=window,
        )
        self._stopped = Signal()
        self._closing = threading.RLock()
        self._finished = False
        self._closed = False
        self._restarting = False
        self._error: BaseException | None = None
        self._base = address.base_path(name)
        with enough("a server", "end other servers"):
            self._lock = address.Lock(self._base)
            try:
                self._begin()
            except BaseException:
                self._lock.release()
                raise

    def _begin(self) -> None:
        marker = address.JobMarker(self._base)
        last_session = marker.read()
        adoption = Adoption(last_session)
        self._loop = ServerLoop(self._base, adoption.offer)
        try:
            start, spec = self._upstream.first()
            # Jobs of the last server have a lease to reconnect.
            patience = 0.0 if last_session is None else self._lease_s + _RESUME_S
            adoption.wait(patience)
            adoption.stop()
            if adoption.adopted is None:
                marker.clear()
            self._ring = self._make_ring(spec, adoption)
            self._loop.open(self._ring.core, self._info(spec), self._ring.log)
        except BaseException:
            self._loop.close()
            raise
        finally:
            adoption.close()
        self._thread = DaemonThread(self._run, (start,), name="echobuf-serve")
        try:
            self._thread.start()
        except BaseException:
            self._restarting = True  # jobs that have attached wait for another server
            self._stopped.set()  # first: where it was interrupted, the thread may run
            self._close()
            raise

    def _info(self, spec: ExampleSpec) -> ServerInfo:
        return ServerInfo(
            example=pack(spec),
            spec=spec.describe(),
            length=self._upstream.count(),
            window=self._options.window,
            lease_s=self._lease_s,
            spilled=self._ring.is_spilled(),
            payload_bytes=self._options.payload_bytes,
        )

    def _make_ring(self, spec: ExampleSpec, adoption: Adoption) -> SharedRing:
        if adoption.adopted is None:
            core = allocate(
                spec.spec, self._slots, self._options, self._spill, self._lease_s
            )
            log = ObjectLog.create() if spec.carries else None
            return SharedRing(spec, core, self._options, log)
        return self._adopt_ring(spec, *adoption.adopted)

    def _adopt_ring(
        self, spec: ExampleSpec, message: Message, files: list[int]
    ) -> SharedRing:
        if message["spec"] != spec.describe():
            raise SpecError(
                f"jobs are attached to {self.name!r}, which served "
                f"{message['spec']}; examples are now {spec.describe()}. End those "
                "jobs first, or choose another name."
            )
        leaves, (window, payload) = ring_arguments(spec.spec, self._options)
        header, memory, *more = files
        try:
            core = _core.SharedRing.adopt(
                leaves, header, memory, self._lease_s, window, payload
            )
        except (ValueError, RuntimeError, MemoryError) as error:
            raise CapacityError(
                f"the memory that jobs of {self.name!r} share cannot be opened: "
                f"{describe(error)}. End those jobs first, or choose another name."
            ) from error
        log = ObjectLog.adopt(os.dup(more[0])) if spec.carries else None
        return SharedRing(spec, core, self._options, log)

    # ---- epochs, on a thread

    def _run(self, start: UpstreamStart) -> None:
        if self._stopped.is_set():  # and the name may be another server's by now
            return
        _core.this_thread_runs_upstream()
        try:
            if self._serve(start):
                self._finish("", False)
        except BaseException as error:
            self._error = error
            self._finish(_one_line(error), True)
        finally:
            self._loop.close()

    def _finish(self, reason: str, failed: bool) -> None:
        """Tell jobs that there is no further epoch, and no other server."""
        self._ring.core.finish(reason, failed)
        self._loop.discard_jobs()
        self._finished = True

    def _serve(self, first: UpstreamStart | None) -> bool:
        """Serve epochs; return True once all are served, False if cut short."""
        core = self._ring.core
        least = self._first_jobs
        while self._epochs is None or core.epochs()[1] < self._epochs:
            there = core.resume_offset()
            if there is None:
                there = 0
                while not core.begin_epoch(least, _SLICE_S):
                    if self._stopped.is_set():
                        return False
            least = 1
            number = core.epochs()[1]
            start = first
            if start is None or number != 0:
                start = self._upstream.begin(number)
            first = None
            self._upstream.feed(self._ring, start, there, self._stopped)
            cut_off = self._stopped.is_set()
            if cut_off and self._restarting:
                return False  # the next server goes on in this epoch
            # Jobs must not take a failure for the epoch's end.
            if self._ring.error is not None:
                raise self._ring.error
            # At interpreter exit feeders are stopped without this server.
            if cut_off or not self._ring.is_whole():
                return False
            if not core.end_epoch() or self._stopped.is_set():
                return False
        return True

    # ---- life

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all epochs are served; return False if the time has run out.

        Args:
            timeout: in seconds; no limit by default.

        Raises:
            UpstreamError: upstream failed.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while self._thread.is_alive():
            left = 0.1 if end is None else min(0.1, end - time.monotonic())
            if left <= 0:
                return False
            self._thread.join(left)
        if self._error is not None:
            raise self._as_upstream_error() from self._error
        return True

    def _as_upstream_error(self) -> EchobufError:
        if isinstance(self._error, EchobufError):
            return type(self._error)(*self._error.args)
        assert self._error is not None
        return UpstreamError(f"upstream failed: {describe(self._error)}")

    def close(self, *, restarting: bool = False) -> None:
        """End the server; wait until upstream's current call returns.

        The first call decides on `restarting`; later ones wait until the server ends.

        Args:
            restarting: if True, jobs wait for another server of this name, which goes
                on from the same example. Otherwise their next draw beyond the examples
                already published raises `UpstreamError`.
        """
        with self._closing:  # if interrupted, the next call goes on
            if not self._stopped.is_set():
                self._restarting = restarting
                self._stopped.set()
            if not self._closed:
                self._close()
                self._closed = True
            self._lock.release()  # last: the name may be another server's from now on

    def _close(self) -> None:
        """End all but the lock; every step may be repeated."""
        if not self._restarting and not self._finished:
            self._finish("the server was closed", True)
        has_jobs = self._loop.close()
        if self._restarting and not has_jobs:
            self._loop.discard_jobs()
        self._ring.core.close()
        while self._thread.is_alive():
            self._thread.join(0.1)
        self._upstream.close()
        self._ring.release()

    def __repr__(self) -> str:
        return f"Server({self.name!r}, window={self._options.window})"


_MAX_JOBS = 64


def _check_lease(lease: Any) -> float:
    try:
        seconds = float(lease)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0.1 <= seconds <= 86_400:
        raise OptionError(
            f"`lease` is {lease!r}; it must be a number of seconds from 0.1 to 86400."
        )
    return seconds


def _one_line(error: BaseException) -> str:
    is_ours = isinstance(error, EchobufError)  # needs no title
    said = message(error) if is_ours else titled(error)
    return " ".join(said.split())
