"""The chain of boxes or points, which follow the pixels of an image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from echobuf import _core
from echobuf.errors import OptionError, SpecError, show
from echobuf.field import Field
from echobuf.transforms import dtypes
from echobuf.transforms.chain import Chain
from echobuf.transforms.leaves import Chains, Leaves, Path
from echobuf.transforms.lowering import Draft, Extent, Image, Step
from echobuf.transforms.operation import Place
from echobuf.transforms.pixels import Layout, Mask
from echobuf.transforms.points import Following, least_of, members_of, numbers_of

_STILL = ("blur", "sharpen")  # make pixels of several, and move nothing


@dataclass(frozen=True)
class FollowedImage:
    """The image that boxes or points follow."""

    field: Field  # of the record
    order: str | None  # of its axes, if its chain says it
    following: Following  # the operation that names it


class PointsChain(Chain):
    """The operations on boxes or points, added one by one as to their image.

    For operations it is a chain on that image: its shape, dtype and axes are those of
    the image so far, so one list of operations fits both. What an operation adds to
    the image becomes its companion on the rows, in `echobuf/transform/points.hpp`, if
    it moves pixels, and nothing otherwise.

    Attributes:
        following: the operation that comes first.
    """

    def __init__(self, name: str, field: Field, image: FollowedImage) -> None:
        super().__init__(name, field, {})
        self.following = following = image.following
        self._rows = field
        self._ended = False
        self._operation, self.index = following, 0
        self._first: Place | None = None  # of `following`
        self._check_rows()
        numbers = numbers_of(following)
        count = math.prod(field.shape) // numbers
        self._as_image: Extent = (1, count, numbers)
        self._draft = Draft(Image(self._as_image, field.dtype, planar=False))
        self.subject = f"the image {show(following.image)}"
        self.shape, self.dtype = image.field.shape, image.field.dtype
        self.image(image.order)

    def _check_rows(self) -> None:
        numbers = numbers_of(self.following)
        if dtypes.code(self.dtype) == dtypes.OTHER or self.dtype == bool:
            raise self.refusal("takes real numbers")
        if self.shape[-1:] != (numbers,):
            rows = "boxes [N, 4]" if numbers == 4 else "points [N, 2]"
            raise self.refusal(f"is for {rows}")
        if 0 in self.shape:
            raise self.refusal("takes one row at least")
        self._check_size()

    def add(self, place: Place, index: int) -> None:
        """Add the operation at a place, in number `index` of the chain or being it."""
        operation: Any = place.operation
        if index == 0:
            self._first = place
            return
        if getattr(operation, "on_batches", False):
            self._end()
        elif isinstance(operation, Mask):
            self._operation, self.index = operation, index
            raise self.refusal("is for masks")
        super().add(place, index)

    # ---- calls of operations

    def move(
        self,
        kind: str,
        settings: dict[str, Any],
        extent: Extent,
        *,
        fills: bool = False,
    ) -> None:
        """Move the rows as the pixels, where an operation moves pixels."""
        if kind == "crop":
            self._check_border(settings)
            self._add_step("crop_points", settings)
        elif kind == "flip":
            self._add_step("flip_points", settings)
        elif kind == "nearest":
            self._add_step("resize_points", settings)
        elif kind == "nearest_window":
            self._add_step("window_points", settings)
        else:
            raise self._unknown()
        self._moved(kind, settings, extent)

    def _check_border(self, settings: dict[str, Any]) -> None:
        height, width, _ = settings["in"]
        border = (
            settings["top"] < 0
            or settings["left"] < 0
            or settings["top"] + settings["tops"] - 1 + settings["height"] > height
            or settings["left"] + settings["lefts"] - 1 + settings["width"] > width
        )
        if border and settings["border"] > 1:
            raise self.refusal(
                "has a border that shows parts of the image twice, which boxes and "
                'points cannot follow: use padding_mode="constant" or "edge"'
            )

    def resample(
        self, kind: str, settings: dict[str, Any], extent: Extent, whole: str
    ) -> None:
        """Move the rows as the pixels, where an operation interpolates."""
        if kind == "resample":
            windowed = settings["windowed"]
            self._add_step("window_points" if windowed else "resize_points", settings)
        elif kind in _STILL:
            return
        elif kind in ("warp", "graded_warp", "perspective"):
            self._add_step(f"{kind}_points", settings)
        else:
            raise self._unknown()
        self._moved(kind, settings, extent)

    def computes(self) -> None:
        """Accept numbers of any dtype: those of the image are not computed with."""

    def floats(self) -> None:
        """Accept numbers of any dtype, likewise."""

    def change(
        self,
        kind: str,
        settings: dict[str, Any],
        *,
        placed: bool = False,
        statistic: bool = False,
        rounds: bool = True,
    ) -> None:
        """Leave the rows as they are, where an operation changes numbers in place."""
        if kind == "custom":
            raise self._unknown()

    def recolour(self, kind: str, settings: dict[str, Any], channels: int) -> None:
        """Leave the rows as they are; the image has other channels then."""
        self._resize((*self.extent[:2], channels))

    def normalize(self, mean: list[float], deviation: list[float]) -> None:
        """Leave the rows as they are."""

    def become(self, dtype: np.dtype[Any], factor: float = 1.0) -> None:
        """Make the image's numbers another type; the rows stay float32."""
        self.dtype = dtype

    def exchange(self, kind: str, settings: dict[str, Any]) -> None:
        """Raise: nothing of an image is exchanged."""
        raise self._unknown()

    def mix(self, settings: dict[str, Any]) -> None:
        """Raise: the rows of two images do not become those of one."""
        raise self.refusal("mixes images, whose boxes and points it cannot mix")

    def classes(self, count: int) -> None:
        """Raise: the rows are no labels."""
        raise self._unknown()

    def _unknown(self) -> SpecError:
        return self.refusal(
            "does not say where boxes and points go: leave it out of their chain if "
            "it moves no pixels"
        )

    # ---- steps on the rows

    def _add_step(self, kind: str, settings: dict[str, Any]) -> None:
        """Add the companion of an operation that has these settings."""
        draft = self._with_room(self._draft)
        whole = {**settings, **members_of(self.following)}
        draft.changes.append(self._step(kind, whole))

    def _step(self, kind: str, settings: dict[str, Any]) -> Step:
        if not kind.endswith("_points"):  # of an image: what it does to rows is unknown
            raise self._unknown()
        return super()._step(kind, settings)

    def _moved(self, kind: str, settings: dict[str, Any], extent: Extent) -> None:
        step = Step(kind, self._number, settings)
        self.moves.append((step, self.gates))
        self._resize(extent)

    def _regroup(self, extent: Extent, *, planar: bool, frames: int) -> None:
        self.extent = extent  # of the image, of which nothing is read

    def _between(self) -> Image:
        return Image(self._as_image, np.dtype(np.float32), planar=False)

    def _lies_as_leaf(self) -> Image:
        return self._between()

    def _end(self) -> None:
        """End the part on the rows, once: mark what is outside of the final image."""
        if self._ended:
            return
        self._ended = True
        self.place = self._first
        settings = {"in": self.extent, "min_size": float(least_of(self.following))}
        self._add_step("sanitize_points", settings)
        self.shape, self.dtype = self._rows.shape, np.dtype(np.float32)
        self.order, self.subject = None, "the leaf"

    def finish(self) -> tuple[_core.ChainPlan | None, Field]:
        """Return the plan, and its result's field."""
        self._end()
        return super().finish()


def moves_alike(points: PointsChain, image: Chain) -> bool:
    """Return whether the rows move as the pixels of an image."""
    return _movements(points) == _movements(image)


def _movements(chain: Chain) -> list[Any]:
    """Return the moves of a chain with the chances on which they depend."""
    return [
        (_movement(step), [gate for gate in gates if not gate.always_opens])
        for step, gates in chain.moves
        if step.kind not in _STILL and not any(gate.never_opens for gate in gates)
    ]


def _movement(step: Step) -> tuple[Any, ...]:
    """Return what a move is, without its filter and fill; its number if it is random.

    Two moves that are not random are alike if their settings are.
    """
    got = step.settings
    if step.kind == "crop":
        what = tuple(got[name] for name in ("top", "left", "height", "width"))
        places = got["tops"], got["lefts"]
        return "crop", *what, places, None if places == (1, 1) else step.number
    if step.kind == "flip":
        random = 0.0 < got["p"] < 1.0
        return "flip", got["axis"], got["p"], step.number if random else None
    whole = step.kind == "nearest" or (step.kind == "resample" and not got["windowed"])
    if whole:
        return "resize", got["height"], got["width"]
    kind = "window" if step.kind in ("resample", "nearest_window") else step.kind
    return kind, got.get("height"), got.get("width"), step.number


# ---- the images that are followed


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
