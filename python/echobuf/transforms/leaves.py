"""The leaves of batches, and the chains that `transform` has for them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import optree

from echobuf.errors import OptionError, show
from echobuf.field import Field
from echobuf.spec import Spec
from echobuf.transforms.operation import Operation, Source
from echobuf.trees import NAMESPACE, one_level

Path = tuple[Any, ...]
Chains = dict[Path, list[Operation]]


class Leaves:
    """The leaves of batches, by their paths: those of the spec, and further ones."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.paths: list[Path] = list(optree.treespec_paths(spec.treespec))
        self.stored = len(self.paths)
        self.sources = list(range(self.stored))
        self._tree = _open(spec.treespec)

    def read(self, transform: Any) -> Chains:
        if isinstance(transform, Operation) or _is_chain(transform):
            if self.paths != [()]:
                raise OptionError(
                    "`transform` is a chain, but the spec has several leaves; give a "
                    f"mapping from leaves to chains: {self._known()}."
                )
            transform = {(): transform}
        if not isinstance(transform, Mapping):
            raise OptionError(
                f"`transform` is {show(transform)}; it must be a mapping from leaves "
                f"to lists of operations: {self._known()}."
            )
        chains: Chains = {}
        self._read(transform, (), chains)
        return chains

    def _known(self) -> str:
        return f"leaves are {self.show(self.paths)}"

    def show(self, paths: Iterable[Path]) -> str:
        """Return keys of leaves, for messages."""
        return ", ".join(repr(_short(path)) for path in paths)

    def path_of(self, key: Any, prefix: Path = ()) -> Path:
        """Return the path that a key below `prefix` stands for.

        A tuple is a path, unless a leaf has just this tuple for a key.
        """
        whole = (*prefix, key)
        is_key = any(path[: len(whole)] == whole for path in self.paths)
        return whole if is_key or not isinstance(key, tuple) else prefix + key

    def _read(
        self,
        mapping: Mapping[Any, Any],
        prefix: Path,
        chains: Chains,
    ) -> None:
        for key, value in mapping.items():
            path = self.path_of(key, prefix)
            if isinstance(value, Mapping):
                self._read(value, path, chains)
                continue
            if path in chains:
                raise OptionError(f"`transform` has two chains for {_short(path)!r}.")
            chain = [value] if isinstance(value, Operation) else value
            if not _is_chain(chain):
                raise OptionError(
                    f"`transform[{_short(path)!r}]` is {show(value)}; it must be a "
                    "list of operations of `echobuf.transforms`."
                )
            operations = list(chain)
            if path not in self.paths:
                operations = self._add(path, operations)
            chains[path] = operations

    def _add(self, path: Path, operations: list[Operation]) -> list[Operation]:
        if not operations or not isinstance(operations[0], Source):
            raise OptionError(
                f"`transform` has a chain for {show(_short(path))}, which the spec has "
                f"not; {self._known()}. A chain for a further leaf begins with "
                "Source(...)."
            )
        wanted = operations[0].leaf
        source = self.path_of(wanted)
        if source not in self.paths[: self.stored]:
            raise OptionError(
                f"`transform[{_short(path)!r}]` is made from {show(wanted)}, which the "
                f"spec has not; {self._known()}."
            )
        parent: Any = self._tree
        for key in path[:-1]:
            parent = parent[key] if isinstance(parent, dict) and key in parent else None
        if not isinstance(parent, dict) or isinstance(parent.get(path[-1]), dict):
            raise OptionError(
                f"`transform` has a chain for {show(_short(path))}; a further leaf can "
                "only be put into a dict of the spec."
            )
        parent[path[-1]] = optree.treespec_leaf(namespace=NAMESPACE)
        self.paths.append(path)
        self.sources.append(self.paths.index(source))
        return operations[1:]

    def treespec(self) -> optree.PyTreeSpec:
        """Return the structure of batches."""
        return _close(self._tree)

    def source(self, path: Path) -> int:
        """Return which field of the record a leaf is made from."""
        return self.sources[self.paths.index(path)]

    def field(self, path: Path) -> Field:
        """Return the field of the record that a leaf is made from, of one example."""
        field = self.spec.fields[self.source(path)]
        return Field(
            field.shape[len(self.spec.batch_axis) :], field.dtype, field.max_length
        )


def _open(treespec: optree.PyTreeSpec) -> Any:
    """Return the dicts at the top of a structure; what they hold stays structures."""
    if treespec.type not in (dict, OrderedDict, defaultdict):
        return treespec
    return one_level(treespec).unflatten(map(_open, treespec.children()))


def _close(tree: Any) -> optree.PyTreeSpec:
    """Return the reverse of `_open`."""
    if not isinstance(tree, dict):
        treespec: optree.PyTreeSpec = tree
        return treespec
    closed = tree.copy()
    closed.update((key, _close(below)) for key, below in tree.items())
    return optree.treespec_from_collection(closed, namespace=NAMESPACE)


def _is_chain(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str | bytes)
        and all(isinstance(item, Operation) for item in value)
    )


def _short(path: Path) -> Any:
    return path[0] if len(path) == 1 else path


def name_of(path: Path) -> str:
    """Return a leaf for messages and states, as an index of the tree."""
    return "".join(f"[{key!r}]" for key in path)
