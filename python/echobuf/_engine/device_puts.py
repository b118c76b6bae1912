"""Puts of examples some leaves of which lie on the buffer's device, from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from echobuf import _core
from echobuf._engine.arrays import prepare_put, read_leaf
from echobuf._engine.ragged_forms import RaggedLeaf, check_offsets_place, split
from echobuf._engine.versions import Versions
from echobuf.device_arrays import (
    is_cupys,
    is_exchanged,
    is_on_device,
    is_tensor,
    place,
    read,
)
from echobuf.device_views import join_rows, shape_of
from echobuf.errors import OptionError, SpecError
from echobuf.field import Field, is_ragged
from echobuf.spec import Spec

StreamOf = Callable[[list[Any], Any], int]
"""Returns the handle of a stream; of None, that on which the caller uses leaves."""

CheckSizes = Callable[[list[Any], bool], None]

Outcome = tuple[int, int] | None
"""None, or a code of the core and the number of examples that were put."""

_DEFAULT = (0, 1)  # handles of the legacy default stream


class DevicePuts:
    """The puts into one buffer whose leaves lie on its device.

    Args:
        core: the native buffer.
        ordinal: the number of its device.
        stream_of: of the backend.
        spec: of one example, or of one whole batch.
        check_sizes: checks the prepared leaves of a spec with ragged ones.
    """

    def __init__(
        self,
        core: _core.DeviceBuffer,
        ordinal: int,
        stream_of: StreamOf,
        spec: Spec,
        check_sizes: CheckSizes,
    ) -> None:
        self.core = core
        self.ordinal = ordinal
        self.stream_of = stream_of
        self.spec = spec
        self.check_sizes = check_sizes
        whole = bool(spec.batch_axis)
        # Of each leaf, where examples are stacked and where not: its name, and if it
        # is put with offsets.
        self.names = {
            stacked: [_what(stacked) + path for path in spec.paths]
            for stacked in (False, True)
        }
        self.pairs = {
            stacked: [is_ragged(f) and (stacked or whole) for f in spec.fields]
            for stacked in (False, True)
        }
        # What must live until the copies below a position are done.
        self._kept: deque[tuple[int, list[Any]]] = deque()

    def let_go(self) -> None:
        """Let go of arrays whose copies are done."""
        arrived = self.core.arrived() if self._kept else 0
        while self._kept:
            try:
                kept = self._kept.popleft()
            except IndexError:  # another thread has it
                return
            if kept[0] > arrived:
                self._kept.appendleft(kept)
                return

    def keep(self, end: int, owners: list[Any]) -> None:
        """Keep arrays until the copies of the records below `end` are done."""
        self._kept.append((end, owners))


class DevicePut:
    """One put: its leaves, found where they lie, and the stream that is to copy them.

    Args:
        puts: of the buffer.
        leaves: in the order of the spec.
        stacked: examples, or whole batches, are stacked on axis 0.
        stream: of CuPy or torch, or its handle, on which all leaves are valid; None for
            the caller's current ones.

    Raises:
        SpecError: a leaf is on another device, or cannot be read there.
        OptionError: `stream` is none, or is of another device.
    """

    def __init__(
        self, puts: DevicePuts, leaves: list[Any], *, stacked: bool, stream: Any
    ) -> None:
        self._puts = puts
        self._leaves = leaves
        self._stacked = stacked
        self._hosts: list[Any] = []  # leaves on the host; of others None, or offsets
        self._placed: list[Any] = []  # places, or None; or lists, one an example
        self._owners: list[Any] = []  # which the put keeps
        self._done = 0
        self._given = stream
        self._stream: int | None = None  # of the copy
        self._others: list[int] = []
        self._joined: list[type] = []  # types of arrays whose streams are known
        self._torchs: Any = None  # torch's stream, where tensors need it
        if stream is not None:
            self._stream = puts.stream_of([], stream)
        for leaf, name, pair in zip(
            leaves, puts.names[stacked], puts.pairs[stacked], strict=True
        ):
            array, offsets = _take_apart(leaf, name) if pair else (leaf, None)
            if isinstance(array, _Arrays):
                places = [self._read(each, name) for each in array]
                self._hosts.append(_offsets_of(places))
                self._placed.append(places)
            elif is_on_device(array):
                self._hosts.append(offsets)
                self._placed.append(self._find(array, name))
            else:
                self._hosts.append(leaf)
                self._placed.append(None)

    def _find(self, array: Any, name: str) -> Any:
        """Return where an array lies; or a tensor, which the core reads itself."""
        if not is_exchanged(array):
            return self._read(array, name)
        self._join(array)
        self._hold(array, array, reused=False)
        return array

    def _read(self, array: Any, name: str) -> tuple[Any, ...]:
        address, shape, strides, dtype, ordinal, valid_on, owner, reused = read(
            array, name, self._join(array)
        )
        if ordinal is not None and ordinal != self._puts.ordinal:
            raise SpecError(
                f"`{name}` is on {place(array)}, but the buffer is on "
                f"cuda:{self._puts.ordinal}; copy it there first."
            )
        if valid_on is not None:
            self._add(valid_on)
        self._hold(array, owner, reused=reused)
        return address, shape, strides, dtype, dtype.itemsize

    def _hold(self, array: Any, owner: Any, *, reused: bool) -> None:
        """See to it that memory is nobody else's before the copy is done."""
        if reused or self._given is not None:
            self._owners.append(owner)
        elif hasattr(array, "record_stream"):  # memory of another stream's, perhaps
            if self._torchs is None:
                self._torchs = _torch_stream(self._puts.ordinal)
            array.record_stream(self._torchs)

    def _join(self, array: Any) -> int:
        """Return the stream of the copy, which comes behind that of an array."""
        kind = type(array)
        if self._given is None and kind not in self._joined:
            self._joined.append(kind)
            own = self._puts.stream_of([array], None)
            if self._stream is None or is_tensor(array) or is_cupys(array):
                self._add(own)
        assert self._stream is not None
        return self._stream

    def _add(self, stream: int) -> None:
        """Copy on `stream`, or in the order of it, too."""
        stream = 0 if stream in _DEFAULT else stream
        if self._stream is None:
            self._stream = stream
        elif stream != self._stream and stream not in self._others:
            self._others.append(stream)

    def run(self, timeout: float | None, versions: Versions | None) -> Outcome:
        """Put what has not been put; it may be called again after a timeout.

        Args:
            timeout: seconds to wait for room.
            versions: of all examples, or of each.

        Raises:
            SpecError: a leaf does not fit the spec; nothing was put.
            CapacityError: an example is too large; nothing was put.
            OptionError: a stream is being captured; nothing was put.
        """
        outcome = self._attempt(timeout, versions)
        if outcome is not None and outcome[0] == _core.MISMATCH:
            self._convert()
            outcome = self._attempt(timeout, versions)
            if outcome is not None and outcome[0] == _core.MISMATCH:
                self._refuse()
        if outcome is not None and outcome[0] == _core.CAPTURING:
            raise OptionError(
                "`put` copies on a stream that is being captured, where it could not "
                "wait for room; put outside of the capture."
            )
        return outcome

    def _attempt(self, timeout: float | None, versions: Versions | None) -> Outcome:
        puts = self._puts
        puts.let_go()
        if self._stream is None:  # one of several batches, that lies on the host
            self._stream = puts.stream_of([], None)
        try:
            outcome, end = puts.core.put_on_device(
                self._hosts,
                self._placed,
                self._stacked,
                timeout,
                versions,
                self._stream,
                self._others,
                self._done,
            )
        except _core.CudaError as error:
            from echobuf.cuda.device import device_error

            raise device_error(f"cuda:{puts.ordinal}", error) from None
        except BaseException as error:  # of a signal's handler, in a wait
            puts.keep(getattr(error, "claimed", 0), self._owners)
            raise
        if end and self._owners:
            puts.keep(end, self._owners)
        if outcome is not None and outcome[0] == _core.TIMEOUT:
            self._done = outcome[1]
        return outcome

    # ---- what the core does not take as it is

    def _convert(self) -> None:
        """Make leaves on the host arrays that the core takes, and read tensors.

        Raises:
            SpecError: names a leaf that does not fit.
        """
        spec = self._puts.spec
        whole = bool(spec.batch_axis)
        names = self._puts.names[self._stacked]
        for index, (field, name) in enumerate(zip(spec.fields, names, strict=True)):
            found = self._placed[index]
            if found is not None:
                self._placed[index] = self._described(found, name)
            else:
                self._hosts[index] = read_leaf(
                    self._leaves[index],
                    field,
                    name,
                    stacked=self._stacked,
                    whole=whole,
                )

    def _described(self, found: Any, name: str) -> Any:
        """Return what the core reads without looking at a tensor."""
        if isinstance(found, tuple | list):
            return found
        return self._read(found, name)

    def _refuse(self) -> None:
        """Raise for the leaf that does not fit."""
        self.check()
        raise SpecError(
            f"`{_what(self._stacked)}` has offsets that leave out rows on the device; "
            "they must begin with 0 and end with the number of rows."
        )

    def check(self) -> None:
        """Check shapes, dtypes and sizes, and look at nothing on the device.

        Raises:
            SpecError: a leaf does not fit the spec.
            CapacityError: an example is too large.
        """
        ghosts: list[Any] = []
        for leaf, offsets, placed, name in zip(
            self._leaves,
            self._hosts,
            self._placed,
            self._puts.names[self._stacked],
            strict=True,
        ):
            if placed is None:
                ghosts.append(leaf)
                continue
            found = self._described(placed, name)
            # Untouched: no page of them is taken.
            if isinstance(found, list):
                ghosts.append([np.empty(each[1], each[3]) for each in found])
                continue
            ghost = np.empty(found[1], found[3])
            ghosts.append(ghost if offsets is None else (ghost, offsets))
        spec, stacked = self._puts.spec, self._stacked
        self._puts.check_sizes(prepare_put(ghosts, spec, stacked=stacked), stacked)


def some_on_device(leaves: list[Any], spec: Spec, *, pairs: bool) -> bool:
    """Return True if one of the leaves of what is put lies on a device.

    Args:
        leaves: in the order of the spec.
        spec: of one example, or of one whole batch.
        pairs: ragged leaves are values and offsets, or lists.
    """
    for leaf, field in zip(leaves, spec.fields, strict=True):
        if is_on_device(_sample(leaf, field, pairs=pairs)):
            return True
    return False


class _Arrays(list[Any]):
    """Arrays on a device, one an example, that are a ragged leaf."""


def _offsets_of(places: list[tuple[Any, ...]]) -> np.ndarray[Any, Any]:
    """Return the offsets of examples whose rows lie at these places."""
    lengths = [shape[0] if shape else 0 for _, shape, *_ in places]
    return np.cumsum([0, *lengths], dtype=np.int64)


def _what(stacked: bool) -> str:
    return "batch" if stacked else "example"


def _sample(leaf: Any, field: Field, *, pairs: bool) -> Any:
    """Return an array of a leaf."""
    if isinstance(leaf, RaggedLeaf):
        return leaf.sample()
    while pairs and is_ragged(field) and isinstance(leaf, list | tuple):
        leaf = leaf[0] if leaf else None
    return leaf


def _torch_stream(ordinal: int) -> Any:
    """Return torch's current stream."""
    import torch

    return torch.cuda.current_stream(ordinal)


def _take_apart(leaf: Any, name: str) -> tuple[Any, Any]:
    """Return the values and offsets of many arrays; a leaf on the host, and None.

    Raises:
        SpecError: the lengths are not known on the host.
    """
    parts = split(leaf, name)
    if isinstance(parts, list):
        on_device = sum(map(is_on_device, parts))
        if not on_device:
            return leaf, None
        if on_device < len(parts):
            raise SpecError(
                f"`{name}` has {on_device} arrays on a device and "
                f"{len(parts) - on_device} on the host; put them one by one."
            )
        return _Arrays(parts), None
    if parts is None:
        return _of_one_length(leaf, name) if is_on_device(leaf) else (leaf, None)
    values, offsets = parts
    if not is_on_device(values):
        return leaf, None
    check_offsets_place(offsets, name)
    found = np.asarray(offsets)
    is_whole = found.dtype.kind in "iu"  # the checks refuse others
    return values, np.ascontiguousarray(found, np.int64 if is_whole else None)


def _of_one_length(leaf: Any, name: str) -> tuple[Any, Any]:
    """Return the values and offsets of one array `[n, length, ...]`.

    Raises:
        SpecError: it has fewer axes, or cannot be seen as one of rows.
    """
    shape = shape_of(leaf)
    if len(shape) < 2:
        raise SpecError(
            f"`{name}` has shape {list(shape)} on {place(leaf)}; give "
            "`echobuf.Ragged(values, offsets)` with offsets on the host, or a list of "
            "arrays."
        )
    return join_rows(leaf, name), np.arange(shape[0] + 1, dtype=np.int64) * shape[1]
