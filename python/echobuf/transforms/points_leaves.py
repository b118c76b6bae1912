"""The images that boxes and points follow, among the leaves of batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from echobuf.errors import OptionError, show
from echobuf.transforms.chain import Chain
from echobuf.transforms.leaves import Chains, Leaves, Path
from echobuf.transforms.pixels import Layout
from echobuf.transforms.points import Following
from echobuf.transforms.points_chain import FollowedImage, PointsChain, moves_alike


def image_of(leaves: Leaves, chains: Chains, path: Path) -> FollowedImage | None:
    """Return the image that a leaf follows; None if it follows none.

    Raises:
        OptionError: the batches have no such leaf, or it is boxes or points itself.
    """
    following = _following(chains, path)
    if following is None:
        return None
    image = _path_of_image(leaves, chains, path, following)
    orders = [op.order for op in chains.get(image, ()) if isinstance(op, Layout)]
    order = orders[0] if orders else None
    return FollowedImage(leaves.field(image), order, following)


def _path_of_image(
    leaves: Leaves, chains: Chains, path: Path, following: Following
) -> Path:
    key = following.image
    image = leaves.path_of(key)
    shown = path[0] if len(path) == 1 else path
    if image not in leaves.paths:
        raise OptionError(
            f"`transform[{shown!r}]` follows the image {show(key)}, which the batches "
            f"have not; leaves are {leaves.show(leaves.paths)}."
        )
    if _following(chains, image) is not None:
        raise OptionError(
            f"`transform[{shown!r}]` follows {show(key)}, which is no image: its chain "
            "says that it is boxes or points."
        )
    return image


def _following(chains: Chains, path: Path) -> Following | None:
    first = next(iter(chains.get(path, ())), None)
    return first if isinstance(first, Following) else None


def astray(
    leaves: Leaves, chains: Chains, built: Mapping[Path, Chain]
) -> Iterator[tuple[Path, Path]]:
    """Yield the leaves that move as no leaf that is made of their image, and it."""
    for path, chain in built.items():
        if not isinstance(chain, PointsChain):
            continue
        image = _path_of_image(leaves, chains, path, chain.following)
        source = leaves.source(image)
        views = (other for at, other in built.items() if leaves.source(at) == source)
        if not any(moves_alike(chain, view) for view in views):
            yield path, image
