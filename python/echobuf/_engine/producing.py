"""The calls of producers: examples that are put, and the end of upstream."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from echobuf import _core
from echobuf._engine import ragged
from echobuf._engine.arrays import put_tree
from echobuf._engine.device_batches import device_put
from echobuf._engine.device_puts import DevicePuts, some_on_device
from echobuf._engine.parts import Parts
from echobuf._engine.ragged_forms import RaggedLeaf, split
from echobuf._engine.versions import Versions, check_versions, other_count
from echobuf._engine.waits import show_full, waits_for_itself
from echobuf.errors import CapacityError, ClosedError, OptionError, SpecError
from echobuf.field import is_ragged
from echobuf.progress import current, watching
from echobuf.spec import Spec, as_array
from echobuf.trees import stand_for


class Producing(Parts):
    """A base of `EchoBuffer`: its calls for producers, on any number of threads."""

    _drawn_by: int | None = None  # the thread of the last draw
    _is_first = True  # what is put next, where the core does not take it
    _device_puts: DevicePuts | None = None  # once leaves have lain on the device

    def put(
        self,
        example: Any,
        timeout: float | None = None,
        version: int | None = None,
        stream: Any = None,
    ) -> None:
        """Add one fresh example, and wait while the ring is full.

        Args:
            example: a pytree like the spec, of arrays, tensors on the CPU, or objects
                with the buffer protocol, all of the spec's dtypes; or of Python
                numbers: an int for a leaf of any integers that hold it, a float or a
                complex for any of its kind, a bool for bools. With `unit="batch"` a
                whole batch, whose axis 0 may be shorter than the spec says. A ragged
                leaf is an array of any length on axis 0, or bytes for uint8; of a whole
                batch it is what `put_batch` takes for examples. On a CUDA device leaves
                may lie there: arrays of CuPy or JAX, tensors, or objects with
                `__dlpack__` or `__cuda_array_interface__`. They are copied in the order
                of the stream, in which they may be changed or freed when this returns.
            timeout: seconds to wait for room at most.
            version: a number >= 0 that comes back in `BatchInfo.version`, such as the
                number of the policy that made a rollout; by default 0.
            stream: on which leaves on the device are valid: a stream of CuPy or torch,
                or its handle. By default the caller's current stream: torch's for
                tensors, else CuPy's.

        Raises:
            SpecError: it does not fit the spec, or is on another device; nothing was
                put.
            OptionError: `version` is no such number, or `stream` is being captured;
                nothing was put.
            CapacityError: its ragged leaves are larger than a segment's share of
                `payload_bytes`; nothing was put.
            TimeoutError: the time ran out; nothing was put.
            ClosedError: the buffer is closed.
        """
        if timeout is None and version is None and stream is None:
            outcome = self._core.put_tree(example, False, current.slice_s)
            if outcome is not None:
                self._put_slowly(example, False, None, outcome)
            return
        if timeout is not None:
            timeout = self._check_timeout(timeout)
        self._put_slowly(example, False, timeout, None, version, stream)

    def put_batch(
        self,
        batch: Any,
        timeout: float | None = None,
        version: Any = None,
        stream: Any = None,
    ) -> None:
        """Add `n` fresh examples, stacked on axis 0, any `n` >= 0.

        Args:
            batch: a pytree like the spec, leaves `[n, *shape]`. A ragged leaf is
                `echobuf.Ragged(values, offsets)` or such a tuple, a list of n arrays, a
                jagged nested tensor, or an Arrow array of lists or binary strings.
                With `unit="batch"` these are n whole batches, and a ragged leaf is a
                list of n such leaves. The values of a `Ragged`, or all arrays of a
                list, may lie on the device; offsets may not.
            timeout: seconds to wait for room at most, in all.
            version: as for `put`, for all of them; or an array `[n]` of integers, one
                for each.
            stream: as for `put`.

        Raises:
            SpecError, CapacityError, OptionError: as `put`; nothing was put.
            TimeoutError: the time ran out; the first `accepted` (an attribute of the
                exception) examples were put.
            ClosedError: the buffer is, or was meanwhile, closed; `accepted` as above.
        """
        if timeout is None and version is None and stream is None:
            outcome = self._core.put_tree(batch, True, current.slice_s)
            if outcome is not None:
                self._put_slowly(batch, True, None, outcome)
            return
        if timeout is not None:
            timeout = self._check_timeout(timeout)
        self._put_slowly(batch, True, timeout, None, version, stream)

    def _put_slowly(
        self,
        tree: Any,
        stacked: bool,
        timeout: float | None,
        outcome: tuple[int, int] | None,
        version: Any = None,
        stream: Any = None,
    ) -> None:
        """Put what the core has not taken, with the outcome that it had there."""
        wait = current.slice_s if timeout is None else timeout
        versions = self._check_version(version, stacked)
        if stream is not None:
            self._backend.stream_of([], stream)
        if outcome is None:
            outcome = self._core.put_tree(tree, stacked, wait, None, versions)
            if outcome is None:
                return
        if self._may_be_on_device(outcome):
            leaves = self._leaves_on_device(tree, stacked)
            if leaves is not None:
                self._put_from_device(leaves, stacked, timeout, versions, stream)
                return
        try:
            self._put_otherwise(outcome, tree, stacked, wait, versions)
        except TimeoutError as error:
            if timeout is not None:
                raise
            self._put_late(tree, stacked, error.accepted, versions)  # type: ignore[attr-defined]

    def _check_version(self, version: Any, stacked: bool) -> Versions | None:
        """Return `version` as the core takes it.

        Raises:
            OptionError: it is none of the examples that are put.
        """
        if version is None:
            return None
        try:
            return check_versions(version, stacked=stacked)
        except OptionError:
            self.ready()  # a buffer whose context was left says that first
            raise

    def _may_be_on_device(self, outcome: tuple[int, int]) -> bool:
        """Return True if the core may not have taken a tree since it is on a device."""
        return outcome[0] == _core.MISMATCH and self._options.device != "cpu"

    def _leaves_on_device(self, tree: Any, stacked: bool) -> list[Any] | None:
        """Return the leaves of a tree of which some lie on a device; else None."""
        leaves = self._flatten(tree)
        if leaves is None:
            try:
                leaves = self._spec.flatten(tree, "batch" if stacked else "example")
            except SpecError:  # who puts it from the host says so
                return None
        ragged = stacked or bool(self._spec.batch_axis)
        return leaves if some_on_device(leaves, self._spec, pairs=ragged) else None

    def _put_from_device(
        self,
        leaves: list[Any],
        stacked: bool,
        timeout: float | None,
        versions: Versions | None,
        stream: Any = None,
    ) -> None:
        """Put leaves of which some lie on the device, as `_put_slowly` does.

        Raises:
            TimeoutError, ClosedError: `accepted` examples were put.
        """
        puts = self._device_puts
        if puts is None:
            backend: Any = self._backend  # a CudaBackend
            puts = self._device_puts = DevicePuts(
                backend.core,
                backend.ordinal,
                backend.stream_of,
                self._spec,
                self._check_sizes,
            )
        try:
            put = device_put(puts, leaves, stacked=stacked, stream=stream)
            outcome = put.run(current.slice_s if timeout is None else timeout, versions)
        except (SpecError, CapacityError, OptionError):
            self.ready()  # a buffer whose context was left says that first
            raise
        if outcome is not None and outcome[0] == _core.TIMEOUT and timeout is None:
            report: AbstractContextManager[None] = nullcontext()
            if waits_for_itself(self._drawn_by):
                report = watching("room", self._describe_full, current.slice_s or 0.0)
            with report:
                outcome = put.run(None, versions)
        if outcome is None:
            return
        if outcome[0] == _core.VERSIONS:
            raise other_count(versions, outcome[1])
        self._termination.refuse_put(*outcome)

    def _put_late(self, tree: Any, stacked: bool, accepted: int, version: Any) -> None:
        """Put what is left of a tree, and report the wait if it is for this thread.

        Args:
            tree: an example, or examples stacked on axis 0.
            stacked: which of the two it is.
            accepted: the examples of it that were put.
            version: as for `put_batch`.
        """
        report: AbstractContextManager[None] = nullcontext()
        if accepted:
            tree = _rest_of(tree, self._spec, accepted)
            version = version[accepted:] if np.ndim(version) else version
        if waits_for_itself(self._drawn_by):
            report = watching("room", self._describe_full, current.slice_s or 0.0)
        try:
            with report:
                self._put_tree(tree, stacked, None, version)
        except ClosedError as error:
            error.accepted += accepted
            raise

    def _put_tree(
        self, tree: Any, stacked: bool, timeout: float | None, version: Any = None
    ) -> None:
        """Put one example, or examples stacked on axis 0; wait while the ring is full.

        Raises:
            SpecError: the tree does not fit the spec; nothing was put.
            OptionError: `version` is none of the examples that are put.
            CapacityError: an example is larger than a segment's share of the payload;
                nothing was put.
            TimeoutError, ClosedError: `accepted` examples were put.
        """
        versions = self._check_version(version, stacked)
        outcome = self._core.put_tree(tree, stacked, timeout, None, versions)
        if outcome is not None:
            if self._may_be_on_device(outcome):
                leaves = self._leaves_on_device(tree, stacked)
                if leaves is not None:
                    self._put_from_device(leaves, stacked, timeout, versions)
                    return
            self._put_otherwise(outcome, tree, stacked, timeout, versions)

    def _put_otherwise(
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
                self._look_at(tree, "batch" if stacked else "example")
            try:
                refused = put_tree(
                    self._core,
                    tree,
                    self._spec,
                    stacked,
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
            self._termination.refuse_put(*refused)

    def _look_at(self, tree: Any, what: str) -> None:
        """Warn of arrays in the first tree whose attributes batches do not have."""
        from echobuf.nodes import warn_of_lost  # imported with the first tree

        self._is_first = False
        warn_of_lost(tree, what)

    def _check_sizes(self, arrays: list[Any], stacked: bool) -> None:
        """Raise for an example larger than a segment's share, or than a row."""
        if self._spec.is_ragged:
            share = self._core.share_bytes
            ragged.check_sizes(
                arrays, self._spec, self._options, stacked=stacked, share=share
            )

    def _describe_full(self) -> str:
        full = show_full(self._options, *self._termination.counts())
        return (
            f"room in a buffer: {full}; call `next_batch`, from another thread than "
            "the one that puts"
        )

    def close(self) -> None:
        """Mark the end of upstream; the resident examples are still served.

        Calling it twice, or after leaving the context, does nothing.
        """
        code = self._core.close()
        if code == _core.FORKED:
            self._termination.check(code)

    def fail(self, exc: BaseException) -> None:
        """Fail the epoch: every `next_batch` raises `UpstreamError` from `exc`.

        Assembled batches and resident examples are given up; `reset` begins anew.
        """
        if not isinstance(exc, BaseException):
            self.ready()  # a buffer whose context was left says that first
            raise OptionError(f"`exc` is {exc!r}; it must be an exception.")
        self._termination.upstream_failed(exc)
        self._termination.check(self._core.fail())


def _rest_of(tree: Any, spec: Spec, accepted: int) -> Any:
    """Return stacked examples, or several whole batches, without the first ones."""
    rest: list[Any] = []
    leaves = spec.flatten(tree, "batch")
    for leaf, field, path in zip(leaves, spec.fields, spec.paths, strict=True):
        name = "batch" + path
        of_examples = is_ragged(field) and not spec.batch_axis
        parts = split(leaf, name) if of_examples else None
        if parts is not None:
            rest.append(RaggedLeaf(parts, name)[accepted:])
        else:
            stacked = leaf if isinstance(leaf, list) else as_array(leaf, name)
            rest.append(stacked[accepted:])
    return stand_for(spec.treespec, rest)
