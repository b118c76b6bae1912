"""Global arrays: each process brings its share of a batch."""

from __future__ import annotations

from typing import Any

import jax

from echobuf.errors import OptionError
from echobuf.jax.arrays import Convert
from echobuf.tree import Spec

_DOES_NOT_FIT = (ValueError, IndexError, AssertionError)  # what JAX raises


def over(sharding: Any, spec: Spec, lead: tuple[int, ...]) -> Convert:
    """Makes global arrays of the leaves of batches, which are NumPy's.

    On the CPU JAX shares their memory.

    Args:
        sharding: of all leaves, or a pytree of shardings that is a prefix of a batch.
        spec: of one example as batches have it, or of one whole batch.
        lead: extents before the shape that the spec says, in this process.

    Raises:
        OptionError: the sharding is not like a batch, or does not divide it.
    """
    shardings = _per_leaf(sharding, spec)
    if jax.process_count() == 1:
        for one, field, path in zip(shardings, spec.fields, spec.paths, strict=True):
            _check_divides(one, lead + field.shape, path)

    def convert(leaves: list[Any]) -> list[Any]:
        return [
            _make(one, leaf, path)
            for one, leaf, path in zip(shardings, leaves, spec.paths, strict=True)
        ]

    return convert


def _make(sharding: Any, leaf: Any, path: str) -> jax.Array:
    try:
        made: jax.Array = jax.make_array_from_process_local_data(  # type: ignore[no-untyped-call]
            sharding, leaf
        )
        return made
    except _DOES_NOT_FIT as error:
        raise _refusal(leaf.shape, path, error) from error


def _check_divides(sharding: Any, shape: tuple[int, ...], path: str) -> None:
    try:
        sharding.shard_shape(shape)
    except _DOES_NOT_FIT as error:
        raise _refusal(shape, path, error) from error


def _refusal(shape: tuple[int, ...], path: str, error: Exception) -> OptionError:
    return OptionError(
        f"`sharding` does not divide `batch{path}`, {list(shape)} in this process: "
        f"{str(error).rstrip('.')}. Make `batch_size` a multiple of what it divides "
        "axis 0 into, and leave a shorter last batch out with drop_last=True."
    )


def _per_leaf(sharding: Any, spec: Spec) -> list[Any]:
    found: dict[int, Any] = {}

    def note(one: Any, below: Any) -> None:
        for number in jax.tree_util.tree_leaves(below):
            found[number] = one

    numbers = spec.treespec.unflatten(range(len(spec.fields)))
    try:
        jax.tree_util.tree_map(
            note,
            sharding,
            numbers,
            is_leaf=lambda node: isinstance(node, jax.sharding.Sharding),
        )
    except ValueError as error:
        raise OptionError(
            f"`sharding` is no prefix of a batch: {str(error).rstrip('.')}."
        ) from error
    return [found[number] for number in range(len(spec.fields))]
