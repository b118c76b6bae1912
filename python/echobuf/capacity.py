"""Checks that a buffer fits its memory, before anything is allocated."""

from __future__ import annotations

import math
import os
import sys

from echobuf import _core
from echobuf.errors import CapacityError, OptionError
from echobuf.field import is_ragged, row_bytes
from echobuf.option_table import MAX_WINDOW
from echobuf.options import Options
from echobuf.spec import Spec

Needs = tuple[int, int, int, int, int]
"""Slots, bytes a slot, batches, bytes a batch, and bytes whatever their number."""

_IDLE = 2
_MOST = 2**60  # bytes; more than any machine has, and far from overflow
_MEMINFO = "/proc/meminfo"
_CGROUP = "/sys/fs/cgroup"


def check_size(spec: Spec, options: Options) -> None:
    """Refuse what is too large for the core's own integers.

    Raises:
        CapacityError: the window alone would not fit.
        OptionError: it would, but has more records than can be numbered.
    """
    record = sum(row_bytes(field) for field in spec.fields if not is_ragged(field))
    own = options.window * record + payload_bytes(spec, options)
    if options.max_rows is not None:
        _check_rows(options.max_rows * sum(map(row_bytes, spec.fields)), options)
    if options.window > MAX_WINDOW or own > _MOST:
        _check(own, options)
    if options.window > MAX_WINDOW:
        raise OptionError(
            f"`window` is {options.window}; it must be an int from 1 to {MAX_WINDOW}."
        )


def _check_rows(batch: int, options: Options) -> None:
    if batch > _MOST:
        raise OptionError(
            f"`max_rows` is {options.max_rows}, and so many rows are {batch:,} "
            "bytes, more than any memory; give the rows that a batch is to have."
        )


def check_capacity(needs: Needs, options: Options) -> None:
    """Compare a buffer's memory with `max_bytes` and with the memory there is.

    Counted are the slots and the batches that the buffer holds itself; batches in the
    caller's hands are the caller's.

    Raises:
        CapacityError: says the bytes needed and available, and what to change.
    """
    _check(own_bytes(needs), options, needs[3])


def check_device_capacity(needs: Needs, options: Options, free: int, name: str) -> None:
    """Compare a buffer's memory with a device's, of which `free` bytes are free."""
    own = own_bytes(needs)
    _check_limit(own, options)
    if own > free:
        raise CapacityError(
            _message(own, options, f"{name} has {free:,} free")
            + " Memory that the pools of CuPy and torch keep counts as taken; "
            "`free_all_blocks()` and `torch.cuda.empty_cache()` give it back."
            + jax_preallocation()
        )


def jax_preallocation() -> str:
    """Return the advice for a process that has imported JAX."""
    if "jax" not in sys.modules:
        return ""
    return (
        " JAX takes 75 % of a device when it starts: set "
        "XLA_PYTHON_CLIENT_PREALLOCATE=false, or XLA_PYTHON_CLIENT_MEM_FRACTION."
    )


def check_pinned(staging: int, options: Options) -> None:
    """Compare the staging area, in bytes, with the memory that the host has."""
    available = available_bytes()
    if staging > available:
        raise CapacityError(
            f"the buffer needs {staging:,} bytes of pinned host memory to upload from, "
            f"but this machine has {available:,} available. Free some, or make "
            f"`window`, which is {options.window}, smaller."
        )


def refused_by_device(
    needs: Needs, options: Options, name: str, why: str
) -> CapacityError:
    """Return the error for an allocation that a device's driver refused after all."""
    if "cuMemHost" in why:
        return CapacityError(
            f"pinned host memory to upload from was refused: {why}. Raise the limit on "
            "locked memory (`ulimit -l`), close other buffers, or make `window`, which "
            f"is {options.window}, smaller."
        )
    return CapacityError(
        _message(own_bytes(needs), options, f"{name}: {why}") + jax_preallocation()
    )


def no_room_for_batch(
    size: int, options: Options, name: str, error: MemoryError
) -> CapacityError:
    """Return the error for the memory of a batch that a device has refused.

    Args:
        size: bytes of a batch.
        options: the buffer's.
        name: of the device.
        error: of its allocator.
    """
    return CapacityError(
        f"a batch of {size:,} bytes does not fit the memory of {name}: {error}. Drop "
        f"batches that you no longer need, make `batch_size`, which is "
        f"{options.batch_size}, smaller, or draw into `out`.{jax_preallocation()}"
    )


def idle_blocks(needs: Needs, options: Options) -> int:
    """Return the number of blocks of batch memory to keep for the next batches."""
    wanted = _IDLE + options.prefetch  # so many come back while none is made ahead
    if options.max_bytes is None:
        return wanted
    return min(wanted, (options.max_bytes - own_bytes(needs)) // max(1, needs[3]))


def out_of_memory(needs: Needs, options: Options) -> CapacityError:
    """Return the error for an allocation that the system refused after all."""
    needed = own_bytes(needs) + needs[3]
    return CapacityError(_message(needed, options, "the system refused them"))


def own_bytes(needs: Needs) -> int:
    """Return the bytes that a buffer holds itself."""
    slots, bytes_per_slot, batches, bytes_per_batch, more = needs
    return slots * bytes_per_slot + batches * bytes_per_batch + more


def _check(own: int, options: Options, in_use: int = 0) -> None:
    _check_limit(own, options)
    available = available_bytes()
    if own + in_use > available:
        limit = f"this machine has {available:,} available"
        raise CapacityError(_message(own + in_use, options, limit))


def _check_limit(own: int, options: Options) -> None:
    if options.max_bytes is not None and own > options.max_bytes:
        raise CapacityError(
            _message(own, options, f"`max_bytes` allows {options.max_bytes:,}")
        )


def _message(needed: int, options: Options, limit: str) -> str:
    change = f"Make `window`, which is {options.window}, smaller"
    for name, value in options.taking_memory():
        change += f", or `{name}`, which is {value:,}"
    if options.prefetch and options.device == "cpu":
        change += f", or `prefetch`, which is {options.prefetch}"
    if "max_bytes" in limit:
        change += ", or raise `max_bytes`"
    return f"the buffer needs {needed:,} bytes, but {limit}. {change}."


def available_bytes() -> int:
    """Return the bytes that this process can still get, as the system says."""
    known = [size for size in (_free_bytes(), _cgroup_bytes()) if size is not None]
    return min(known, default=_MOST)


def _free_bytes() -> int | None:
    try:
        for line in _read(_MEMINFO).splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _cgroup_bytes() -> int | None:
    """Return the bytes that a container's limit leaves (cgroup version 2)."""
    try:
        limit = _read(f"{_CGROUP}/memory.max").strip()
        used = int(_read(f"{_CGROUP}/memory.current"))
        return None if limit == "max" else max(0, int(limit) - used)
    except (OSError, ValueError):
        return None


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


# ---- sizes of ragged leaves


def row_of(spec: Spec) -> int:
    """Return the bytes of one row of all ragged leaves."""
    return sum(row_bytes(field) for field in spec.fields if is_ragged(field))


def segments_of(options: Options) -> int:
    """Return the number of segments that share the payload of the window."""
    if options.factor is not None:
        return math.ceil(options.factor)
    # A batch of packed rows is no number of examples.
    size = 1 if options.packs else options.batch_size
    return _core.AutoSchedule(options.window, size, options.max_factor).segments


def payload_bytes(spec: Spec, options: Options) -> int:
    """Return the most bytes that ragged leaves take in a window; 0 without such."""
    if options.payload_bytes is not None:
        return options.payload_bytes
    most = options.window * spec.most_examples
    return most * sum(
        row_bytes(field) * length
        for field, length in zip(spec.fields, max_lengths(spec, options), strict=True)
    )


def max_lengths(spec: Spec, options: Options) -> list[int]:
    """Return the most rows of each leaf; 0 for any number, and for fixed ones."""
    most = options.pack_to
    if most is None:
        return [field.max_length or 0 for field in spec.fields]
    return [min(most, field.max_length or most) for field in spec.fields]
