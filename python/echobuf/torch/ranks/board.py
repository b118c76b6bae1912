"""What ranks keep for each other: values that JSON can hold, in a store of torch's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


class StoreGoneError(Exception):
    """The store does not answer."""


class Board:
    """Values under keys, for all ranks to read.

    Args:
        store: of torch.distributed.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._takes_many = store.has_extended_api()
        self._gone: str | None = None

    def set(self, values: Mapping[str, Any]) -> None:
        """Keeps values, each under its key."""
        texts = [json.dumps(value) for value in values.values()]
        if len(texts) > 1 and self._takes_many:
            self._ask("multi_set", list(values), texts)
            return
        for key, text in zip(values, texts, strict=True):
            self._ask("set", key, text)

    def get(self, key: str) -> Any:
        """What was set; None if nothing was."""
        (found,) = self.get_all([key]) or [None]
        return found

    def get_all(self, keys: Sequence[str]) -> list[Any] | None:
        """What was set under each; None unless something was under all."""
        return self.read(keys) if self._ask("check", list(keys)) else None

    def read(self, keys: Sequence[str]) -> list[Any]:
        """What was set under each, where something was."""
        if self._takes_many:
            found = self._ask("multi_get", list(keys))
        else:
            found = [self._ask("get", key) for key in keys]
        return [json.loads(value) for value in found]

    def delete(self, key: str) -> None:
        """Forgets what is no longer needed."""
        self._ask("delete_key", key)

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, zero before; what it is then."""
        return int(self._ask("add", key, amount))

    def _ask(self, what: str, *args: Any) -> Any:
        if self._gone is not None:  # torch would print where in its code that happens
            raise StoreGoneError(self._gone)
        try:
            return getattr(self._store, what)(*args)
        except RuntimeError as error:
            self._gone = str(error).partition("\n")[0]
            raise StoreGoneError(self._gone) from error
