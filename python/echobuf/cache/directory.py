"""A cache's directory: a marker file in it says which data it holds."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echobuf.cache.items import ItemEncoder
from echobuf.errors import EchobufError, OptionError
from echobuf.resources import explain

_MARKER = "echobuf-cache.json"
_TEMPORARY = ".echobuf-cache-"
_FORMAT = "echobuf-cache"
_VERSION = 2
_STORES = {False: "items.sqlite3", True: "sizes"}  # renewed or not
_OR_DELETE = ", or delete this one if it is not needed"

Marker = dict[str, Any]


@dataclass(frozen=True)
class Directory:
    """A directory that has the marker of this cache."""

    path: Path  # of the directory
    store: Path  # of the store's file
    read_only: bool  # it is not writable

    def explain(self, error: Exception) -> EchobufError:
        """Return the clear error for one of the store's."""
        path = str(self.path)
        clear = explain(error, f"the cache in {path!r}", "keep fewer caches")
        return clear or OptionError(
            f"`directory` is {path!r}, whose store cannot be opened: {error}. Delete "
            "the directory if it is damaged, or give another one."
        )

    def warn_closed(self, reason: str) -> None:
        """Warn that nothing can be stored any more."""
        if not self.store.exists():
            return  # nobody wants its items
        warnings.warn(
            f"the cache in {str(self.path)!r} can take no more items ({reason}); it "
            "serves those that it has, and the rest is read from the source.",
            RuntimeWarning,
            stacklevel=2,
        )


def claim(
    directory: Any, identity: str, length: int, seed: int | None = None
) -> Directory:
    """Check the marker of a directory; write it where the directory is new or empty.

    Args:
        directory: a path.
        identity: of the data and their preparation.
        length: the number of items.
        seed: of items that are renewed; None for items that are kept.
    """
    marker = {
        "format": _FORMAT,
        "version": _VERSION,
        "identity": identity,
        "length": length,
    }
    if seed is not None:
        marker["seed"] = seed
    path = Path(_check_path(directory))
    try:
        return _claim(path, marker)
    except OSError as error:
        clear = explain(error, f"the cache in {str(path)!r}", "keep fewer caches")
        if clear is not None:
            raise clear from error
        raise _refusal(path, f"cannot be used: {error.strerror or error}.") from error


def _check_path(directory: Any) -> str:
    try:
        path = os.fsdecode(directory)
        if not path or "\0" in path:
            raise TypeError
        return os.path.abspath(path)
    except TypeError:
        raise OptionError(
            f"`directory` is {directory!r}; it must be a path, or None to cache in "
            "memory."
        ) from None


def _claim(path: Path, marker: Marker) -> Directory:
    if path.exists() and not path.is_dir():
        raise _refusal(path, "is a file, not a directory.")
    is_new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    found = {name for name in os.listdir(path) if not name.startswith(_TEMPORARY)}
    # A listing may show files that came after the marker, and not the marker.
    if _MARKER not in found and not (path / _MARKER).exists():
        try:
            _check_unused(path, found)
            _write_marker(path, marker)
        except Exception:
            if is_new:
                with contextlib.suppress(OSError):  # another process uses it by now
                    path.rmdir()
            raise
    _check_marker(path, marker)
    return _inspect(path, path / _STORES["seed" in marker])


def _check_unused(path: Path, found: set[str]) -> None:
    if found:
        names = ", ".join(sorted(found)[:3]) + (", ..." if len(found) > 3 else "")
        raise _refusal(path, f"has files that are no cache of echobuf's: {names}.")
    if not os.access(path, os.W_OK):
        raise _refusal(path, "cannot be written to, and holds no cache.")


def _write_marker(path: Path, marker: Marker) -> None:
    """Write the marker in one step, unless another process has written it."""
    temporary = path / f"{_TEMPORARY}{secrets.token_hex(8)}"
    try:
        # Made by name, unlike `mkstemp`: the system then applies the umask.
        with open(temporary, "x") as file:
            json.dump(marker, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path / _MARKER)
    finally:
        temporary.unlink(missing_ok=True)


def _check_marker(path: Path, marker: Marker) -> None:
    try:
        found = json.loads((path / _MARKER).read_bytes())
        known = found["format"] == _FORMAT
    except (ValueError, TypeError, KeyError):
        known = False
    if not known:
        raise _refusal(path, f"has a file {_MARKER} that echobuf did not write.")
    version, identity, length = map(found.get, ("version", "identity", "length"))
    if version != _VERSION:
        raise _refusal(
            path,
            f"is a cache of version {version!r}; this version of echobuf reads "
            f"version {_VERSION}.",
            _OR_DELETE,
        )
    if (identity, length) != (marker["identity"], marker["length"]):
        raise _refusal(
            path,
            f"is a cache of other data: of {length!r} items with `identity` "
            f"{identity!r}; here there are {marker['length']} with "
            f"{marker['identity']!r}.",
            _OR_DELETE,
        )
    if found.get("seed") != marker.get("seed"):
        kinds = f"{_describe_kind(found)}; here they are {_describe_kind(marker)}."
        raise _refusal(path, f"is a cache of items that are {kinds}", _OR_DELETE)


def _describe_kind(marker: Marker) -> str:
    if "seed" not in marker:
        return "kept as they are, without `renew`"
    return f"renewed, with `seed` {marker['seed']!r}"


def _inspect(path: Path, store: Path) -> Directory:
    files = [path, store] if store.exists() else [path]
    read_only = not all(os.access(file, os.W_OK) for file in files)
    if read_only and not store.exists():
        raise _refusal(path, "cannot be written to, and holds nothing.")
    return Directory(path, store, read_only)


def _refusal(path: Path, why: str, more: str = "") -> OptionError:
    return OptionError(
        f"`directory` is {str(path)!r}, which {why} Nothing in it was changed; give a "
        f"new or empty directory{more}."
    )


# ---- the identity of the data


def check_identity(identity: Any) -> str | None:
    """Return the caller's `identity`."""
    if identity is None or (isinstance(identity, str) and identity):
        return identity
    raise OptionError(
        f"`identity` is {identity!r}; it must be a string that says which data these "
        "are, and how they were prepared, such as 'imagenet-2012, 256 px, v3'."
    )


def derive_identity(
    dataset: Any, count: int, read: Callable[[int], Any], *, repeats: int = 1
) -> str:
    """Return an identity where the caller gives none: from three items, as cached.

    Each is read `repeats` times, and must be the same each time.
    """
    kind = type(dataset)
    digest = hashlib.sha256(f"{kind.__module__}.{kind.__qualname__}".encode())
    fingerprint = getattr(dataset, "_fingerprint", None)
    if isinstance(fingerprint, str):
        digest.update(fingerprint.encode())
    for number in sorted({0, count // 2, count - 1}) if count else ():
        first, *others = (
            ItemEncoder(read(number)).encode(number) for _ in range(repeats)
        )
        if any(other != first for other in others):
            raise OptionError(
                f"`identity` is None, and item {number} of `dataset`, made twice with "
                "one seed, was not the same: nothing says which data these are. Take "
                "random numbers from `echobuf.cache.get_renewal().seed`, or give "
                "`identity`."
            )
        digest.update(first)
    return f"items {digest.hexdigest()[:32]}"
