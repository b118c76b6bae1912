"""JSON values in a store of torch.distributed, and the text of values in messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from echobuf.errors import message

_LONGEST_ERROR = 500


class StoreGoneError(Exception):
    """An error of a store that does not answer."""


class JsonStore:
    """A store of torch.distributed whose values are encoded as JSON.

    Every method raises `StoreGoneError` once the store does not answer.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._is_extended = store.has_extended_api()
        self._failure: str | None = None

    def set(self, values: Mapping[str, Any]) -> None:
        """Store each value under its key."""
        texts = [json.dumps(value) for value in values.values()]
        if len(texts) > 1 and self._is_extended:
            self._call("multi_set", list(values), texts)
            return
        for key, text in zip(values, texts, strict=True):
            self._call("set", key, text)

    def get(self, key: str) -> Any:
        """Return the value of a key; None if it has none."""
        (found,) = self.read_if_set([key]) or [None]
        return found

    def read_if_set(self, keys: Sequence[str]) -> list[Any] | None:
        """Return the values of the keys; None unless each of them has one."""
        return self.read(keys) if self._call("check", list(keys)) else None

    def read(self, keys: Sequence[str]) -> list[Any]:
        """Return the values of keys that are known to have one."""
        if self._is_extended:
            found = self._call("multi_get", list(keys))
        else:
            found = [self._call("get", key) for key in keys]
        return [json.loads(value) for value in found]

    def delete(self, key: str) -> None:
        """Remove a key and its value."""
        self._call("delete_key", key)

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key, initially 0; return the sum."""
        return int(self._call("add", key, amount))

    def _call(self, method: str, *args: Any) -> Any:
        if self._failure is not None:  # torch would print a C++ stack trace each time
            raise StoreGoneError(self._failure)
        try:
            return getattr(self._store, method)(*args)
        except RuntimeError as error:
            self._failure = str(error).partition("\n")[0]
            raise StoreGoneError(self._failure) from error


def format_error(error: BaseException) -> str:
    """Return the text of an error for the other ranks, cut to a bounded length."""
    text = message(error)
    return text if len(text) <= _LONGEST_ERROR else text[:_LONGEST_ERROR] + "..."


def format_per_rank(values: Sequence[tuple[int, Any]]) -> str:
    """Return "rank 0: 1, rank 1: 2" for pairs of a rank and its value."""
    return ", ".join(f"rank {rank}: {value!r}" for rank, value in values)
