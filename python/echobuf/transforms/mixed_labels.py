"""Labels of the images that `MixUp` and `CutMix` mix: which leaf they are."""

from __future__ import annotations

from echobuf.errors import OptionError, show
from echobuf.field import Field
from echobuf.transforms import dtypes
from echobuf.transforms.choices import Container, mixes_in
from echobuf.transforms.leaves import Chains, Leaves, Path
from echobuf.transforms.mix import Mixing, MixUp
from echobuf.transforms.operation import Operation


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
