"""The argument `transform`: a mapping from leaves to chains, and its output."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import optree

from echobuf._engine.output import OutputSpec
from echobuf.errors import OptionError, show, warn_caller
from echobuf.field import Field, is_ragged
from echobuf.spec import Spec
from echobuf.transforms import dtypes, points_leaves, ragged_chains
from echobuf.transforms.chain import Chain
from echobuf.transforms.lowering import Extent
from echobuf.transforms.mixed_labels import add_labels
from echobuf.transforms.operation import Operation, Source
from echobuf.transforms.places import every, occurrences, placed
from echobuf.transforms.points_chain import PointsChain
from echobuf.transforms.ragged_chains import RaggedPlan
from echobuf.trees import NAMESPACE, one_level

Path = tuple[Any, ...]


def make(spec: Spec, transform: Any, *, whole: bool) -> OutputSpec:
    """Read `transform` for examples of `spec`, or for the rows of whole batches.

    Raises:
        OptionError: `transform` is no mapping from leaves to chains.
        SpecError: a chain does not fit its leaf.
    """
    leaves = _Leaves(spec, whole=whole)
    chains = leaves.read(transform)
    add_labels(leaves, chains)
    return _Builder(leaves, chains).build()


class _Leaves:
    """The leaves of batches, by their paths: those of the spec, and further ones."""

    def __init__(self, spec: Spec, *, whole: bool) -> None:
        self.spec = spec
        self.lead = spec.fields[0].shape[:1] if whole else ()
        self.paths: list[Path] = list(optree.treespec_paths(spec.treespec))
        self.stored = len(self.paths)
        self.sources = list(range(self.stored))
        self._tree = _open(spec.treespec)

    def read(self, transform: Any) -> dict[Path, list[Operation]]:
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
        chains: dict[Path, list[Operation]] = {}
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
        chains: dict[Path, list[Operation]],
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
        return Field(field.shape[len(self.lead) :], field.dtype, field.max_length)


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


def _name(path: Path) -> str:
    return "".join(f"[{key!r}]" for key in path)


# ---- chains to plans


class _Builder:
    def __init__(self, leaves: _Leaves, chains: dict[Path, list[Operation]]) -> None:
        self._leaves = leaves
        self._chains = chains
        self._treespec = leaves.treespec()
        self._order: list[Path] = list(optree.treespec_paths(self._treespec))
        self._numbers: dict[tuple[int, int], int] = {}
        self._ragged: dict[Path, RaggedPlan] = {}
        self._number_all()

    def _number_all(self) -> None:
        """Number operations for random draws, in order of their first occurrence.

        A container comes before the operations inside of it, and these in the order of
        its branches.
        """
        for path in self._leaves.paths:
            for key in occurrences(self._chains.get(path, ())):
                self._numbers.setdefault(key, len(self._numbers))

    def build(self) -> OutputSpec:
        built: dict[Path, Chain] = {}
        images: dict[int, list[Extent]] = {}
        fields = {path: self._leaves.field(path) for path in self._order}
        # Images first: labels are mixed by the box that was cut out of them.
        for path in sorted(self._order, key=lambda path: len(fields[path].shape) < 2):
            built[path] = self._chain(path, fields[path], images)
        self._warn_of_masks(built, fields)
        self._warn_of_points(built)
        plans, rows, drawn, final, functions = [], [], [], [], []
        for path in self._order:
            chain = built[path]
            of_rows = self._ragged.get(path)
            plan, field = chain.finish() if of_rows is None else (None, of_rows.field)
            plans.append((self._leaves.source(path), plan))
            rows.append(None if of_rows is None else of_rows.rows)
            drawn.append(field)
            final.append(Field(chain.shape, chain.dtype))
            functions.append(tuple(chain.functions))
        return OutputSpec(
            spec=self._spec(final),
            drawn=self._spec(drawn),
            plans=tuple(plans),
            rows=tuple(rows),
            functions=tuple(functions),
            chains=self._shown(),
            numbers=self._drawn(),
        )

    def _warn_of_masks(
        self, built: dict[Path, Chain], fields: dict[Path, Field]
    ) -> None:
        """Warn of integers that look like a mask of an image and are interpolated."""
        for path, chain in built.items():
            operation = chain.interpolated
            if operation is None or not _is_grey(fields[path]):
                continue
            chances = {id(each.chance) for each in every(self._chains[path])}
            images = [
                other
                for other, operations in self._chains.items()
                if other != path
                and len(fields[other].shape) >= 2
                and not isinstance(built[other], PointsChain)
                and not chances.isdisjoint(
                    id(each.chance) for each in every(operations)
                )
                and (_says_mask(path) or not _is_grey(fields[other]))
            ]
            if images:
                warn_caller(
                    f"`transform{_name(path)}`: {operation!r} interpolates "
                    f"{fields[path].dtype}{list(fields[path].shape)}, which moves with "
                    f"`transform{_name(images[0])}`. If it is a mask of classes, put "
                    "Mask() first in its chain: then the nearest pixel is taken. If it "
                    "is an image, put ToDtype(np.float32) before this operation, or "
                    "ignore this UserWarning.",
                )

    def _warn_of_points(self, built: dict[Path, Chain]) -> None:
        """Warn of boxes and points that move otherwise than their image."""
        for path, image in points_leaves.astray(self._leaves, self._chains, built):
            warn_caller(
                f"`transform{_name(path)}` does not move its leaf as "
                f"`transform{_name(image)}` moves the image. Put the same operation "
                "objects into both chains, all of those that move pixels, or ignore "
                "this UserWarning.",
            )

    def _spec(self, fields: Iterable[Field]) -> Spec:
        paths = tuple(
            accessor.codify("")
            for accessor in optree.treespec_accessors(self._treespec)
        )
        whole = (Field(self._leaves.lead + f.shape, f.dtype) for f in fields)
        return Spec(self._treespec, tuple(whole), paths)

    def _chain(
        self, path: Path, field: Field, images: dict[int, list[Extent]]
    ) -> Chain:
        operations = self._chains.get(path, [])
        numbers = (self._numbers[key] for key in occurrences(operations))
        if is_ragged(field):
            places = placed(operations, numbers)
            self._ragged[path] = ragged_chains.plan(_name(path), field, places, images)
            return self._ragged[path].chain
        image = points_leaves.image_of(self._leaves, self._chains, path)
        chain = (
            Chain(_name(path), field, images)
            if image is None
            else PointsChain(_name(path), field, image)
        )
        for index, place in enumerate(placed(operations, numbers)):
            chain.add(place, index)
        return chain

    def _shown(self) -> dict[str, list[str]]:
        return {
            _name(path) or "[]": [repr(operation) for operation in chain]
            for path, chain in self._chains.items()
        }

    def _drawn(self) -> dict[str, list[int]]:
        return {
            _name(path) or "[]": [self._numbers[key] for key in occurrences(chain)]
            for path, chain in self._chains.items()
        }


def _is_grey(field: Field) -> bool:
    """Return whether a leaf is integers in one channel: an image or a mask."""
    shape = field.shape
    flat = len(shape) == 2 or (len(shape) in (3, 4) and 1 in (shape[-3], shape[-1]))
    return flat and dtypes.is_integer(field.dtype)


def _says_mask(path: Path) -> bool:
    key = str(path[-1]).lower() if path else ""
    return any(word in key for word in ("mask", "label", "seg", "target", "class"))
