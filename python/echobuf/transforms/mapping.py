"""The argument `transform`: a mapping from leaves to chains, and its output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import optree

from echobuf.errors import OptionError, show, warn_caller
from echobuf.field import Field, is_ragged
from echobuf.output_spec import OutputSpec
from echobuf.spec import Spec
from echobuf.transforms import dtypes, points_chain, windows
from echobuf.transforms.chain import Chain
from echobuf.transforms.choices import Container, mixes_in
from echobuf.transforms.leaves import Chains, Leaves, Path, name_of
from echobuf.transforms.lowering import Extent
from echobuf.transforms.mix import Mixing, MixUp
from echobuf.transforms.operation import Operation, every, occurrences, placed
from echobuf.transforms.points_chain import PointsChain
from echobuf.transforms.windows import RaggedPlan


def make(spec: Spec, transform: Any) -> OutputSpec:
    """Read `transform` for examples of `spec`, or for the rows of whole batches.

    Raises:
        OptionError: `transform` is no mapping from leaves to chains.
        SpecError: a chain does not fit its leaf.
    """
    leaves = Leaves(spec)
    chains = leaves.read(transform)
    add_labels(leaves, chains)
    return _Builder(leaves, chains).build()


class _Builder:
    def __init__(self, leaves: Leaves, chains: Chains) -> None:
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
                    f"`transform{name_of(path)}`: {operation!r} interpolates "
                    f"{fields[path].dtype}{list(fields[path].shape)}, which moves with "
                    f"`transform{name_of(images[0])}`. If it is a mask of classes, put "
                    "Mask() first in its chain: then the nearest pixel is taken. If it "
                    "is an image, put ToDtype(np.float32) before this operation, or "
                    "ignore this UserWarning.",
                )

    def _warn_of_points(self, built: dict[Path, Chain]) -> None:
        """Warn of boxes and points that move otherwise than their image."""
        for path, image in points_chain.astray(self._leaves, self._chains, built):
            warn_caller(
                f"`transform{name_of(path)}` does not move its leaf as "
                f"`transform{name_of(image)}` moves the image. Put the same operation "
                "objects into both chains, all of those that move pixels, or ignore "
                "this UserWarning.",
            )

    def _spec(self, fields: Iterable[Field]) -> Spec:
        paths = tuple(
            accessor.codify("")
            for accessor in optree.treespec_accessors(self._treespec)
        )
        axis = self._leaves.spec.batch_axis
        of_record = tuple(Field(axis + f.shape, f.dtype) for f in fields)
        return Spec(self._treespec, of_record, paths, axis)

    def _chain(
        self, path: Path, field: Field, images: dict[int, list[Extent]]
    ) -> Chain:
        operations = self._chains.get(path, [])
        numbers = (self._numbers[key] for key in occurrences(operations))
        if is_ragged(field):
            places = placed(operations, numbers)
            self._ragged[path] = windows.plan(name_of(path), field, places, images)
            return self._ragged[path].chain
        image = points_chain.image_of(self._leaves, self._chains, path)
        chain = (
            Chain(name_of(path), field, images)
            if image is None
            else PointsChain(name_of(path), field, image)
        )
        for index, place in enumerate(placed(operations, numbers)):
            chain.add(place, index)
        return chain

    def _shown(self) -> dict[str, list[str]]:
        return {
            name_of(path) or "[]": [repr(operation) for operation in chain]
            for path, chain in self._chains.items()
        }

    def _drawn(self) -> dict[str, list[int]]:
        return {
            name_of(path) or "[]": [self._numbers[key] for key in occurrences(chain)]
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


# ---- labels of the images that are mixed


def add_labels(leaves: Leaves, chains: Chains) -> None:
    """Put a mix of images into the chain of their labels, too, once."""
    units = {id(op): op for c in chains.values() for op in c if mixes_in(op)}
    if len(units) > 1:
        shown = ", ".join(map(repr, units.values()))
        raise OptionError(
            f"`transform` has {len(units)} mixes: {shown}. One object, in the "
            "chains of images and of their labels, is what fits; of several mixes one "
            "is chosen by RandomChoice."
        )
    for unit in units.values():
        holders = [path for path, chain in chains.items() if unit in chain]
        mixed = [path for path in holders if len(leaves.field(path).shape) >= 2]
        sums = all(isinstance(mix, MixUp) for mix in mixes_in(unit))
        if not mixed and sums and len(holders) == 1:
            mixed = [path for path in holders if len(leaves.field(path).shape) == 1]
        labels = _find_for_all(leaves, holders, mixed, unit) if mixed else None
        if labels is not None and labels not in holders:
            follower = unit.of_labels() if isinstance(unit, Container) else unit
            chains.setdefault(labels, []).append(follower)


def _find_for_all(
    leaves: Leaves, holders: list[Path], mixed: list[Path], unit: Operation
) -> Path | None:
    found = [_find(leaves, holders, mixed, mix) for mix in mixes_in(unit)]
    if any(path != found[0] for path in found):
        raise OptionError(
            f"`labels` of the mixes in {show(unit)} are different leaves; they must be "
            "one leaf, or None for all."
        )
    return found[0]


def _find(
    leaves: Leaves, holders: list[Path], mixed: list[Path], mix: Mixing
) -> Path | None:
    if mix.labels is None:
        return None
    if not isinstance(mix.labels, str) or mix.labels != "default":
        return _named(leaves, mixed, mix)
    if len(holders) > len(mixed):
        return None  # they stand in a chain of the same object
    others = [path for path in leaves.paths if path not in mixed]
    named = [path for path in others if path and "label" in str(path[-1]).lower()]
    if named:
        exact = [path for path in named if str(path[-1]).lower() == "labels"]
        return (exact or named)[0]
    if leaves.stored == 2 and leaves.paths[1] in others:
        return leaves.paths[1]
    possible = [
        path
        for path in others
        if leaves.paths.index(path) < leaves.stored
        and _could_be_labels(leaves.field(path))
    ]
    if mix.num_classes is None and not possible:
        return None
    raise OptionError(
        f"`labels` of {show(mix)} is 'default', and no leaf has 'label' in its key; "
        f"leaves beside the images are {leaves.show(others) or 'none'}. Name the leaf "
        "of labels, put the same object into its chain, or say labels=None if there is "
        "none."
    )


def _named(leaves: Leaves, mixed: list[Path], mix: Mixing) -> Path:
    path = leaves.path_of(mix.labels)
    if path not in leaves.paths:
        raise OptionError(
            f"`labels` of {show(mix)} is {show(mix.labels)}; leaves are "
            f"{leaves.show(leaves.paths)}."
        )
    if path in mixed:
        raise OptionError(
            f"`labels` of {show(mix)} is {show(mix.labels)}, which it mixes as an "
            "image; it must be another leaf, or None if there are no labels."
        )
    return path


def _could_be_labels(field: Field) -> bool:
    """Return whether a leaf may be classes, one of them or a number for each."""
    if field.shape == ():
        return dtypes.is_integer(field.dtype)
    return len(field.shape) == 1 and dtypes.code(field.dtype) != dtypes.OTHER
