"""Boxes and points that follow an image, forward through each operation.

Rows are float32: [N, 4] of x1, y1, x2, y2, or [N, 2] of x, y. `follow` takes what
`parameters` makes for the image. Sums and products are float32, in torchvision's order;
affine maps are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from transform_reference import crops, warp
from transform_reference import perspective as corner_maps
from transform_reference.resize import resized_shape

f32 = np.float32
Shape = tuple[int, ...]
Result = tuple[np.ndarray, Shape]


def marked(rows: np.ndarray, outside: float) -> np.ndarray:
    """Which rows are all `outside`."""
    same = np.isnan(rows) if np.isnan(outside) else rows == f32(outside)
    return same.all(axis=1)


def clip(
    rows: np.ndarray, shape: Shape, outside: float, least: float = 0.0
) -> np.ndarray:
    """Boxes within an image, of `least` in width and height; points within it."""
    height, width = shape[:2]
    out = rows.copy()
    with np.errstate(invalid="ignore"):
        if rows.shape[1] == 4:
            out = np.clip(out, 0, np.array([width, height] * 2, f32))
            sides = out[:, 2:] - out[:, :2]
            stays = ((sides > 0) & (sides >= f32(least))).all(axis=1)
        else:
            stays = ((out >= 0) & (out < np.array([width, height], f32))).all(axis=1)
    out[~stays] = outside
    return out


def each(rows: np.ndarray, x: float, y: float) -> np.ndarray:
    """x and y for every column of the rows."""
    return np.array([x, y] * (rows.shape[1] // 2), f32)


def crop(
    rows: np.ndarray,
    shape: Shape,
    outside: float,
    *,
    top: int,
    left: int,
    height: int,
    width: int,
    padding: Any = None,
    **_: Any,
) -> Result:
    before, above, _, _ = crops.sides(padding)
    rows = (rows + each(rows, before, above)) - each(rows, left, top)
    return clip(rows, (height, width), outside), (height, width)


def center_crop(rows: np.ndarray, shape: Shape, outside: float, *, size: Any) -> Result:
    height, width = crops.both(size)
    top, left = round((shape[0] - height) / 2), round((shape[1] - width) / 2)
    box = {"top": top, "left": left, "height": height, "width": width}
    return crop(rows, shape, outside, **box)


def flip(axis: int) -> Callable[..., Result]:
    def flipped(
        rows: np.ndarray, shape: Shape, outside: float, *, flip: bool
    ) -> Result:
        out = rows.copy()
        size = shape[1 - axis]
        if flip and rows.shape[1] == 4:
            out[:, axis], out[:, axis + 2] = (
                f32(size) - rows[:, axis + 2],
                f32(size) - rows[:, axis],
            )
        elif flip:
            out[:, axis] = f32(size - 1) - rows[:, axis]
        return out, shape

    return flipped


def resize(
    rows: np.ndarray,
    shape: Shape,
    outside: float,
    *,
    size: Any,
    max_size: int | None = None,
    **_: Any,
) -> Result:
    new = resized_shape(shape, size, max_size)
    return rows * each(rows, new[1] / shape[1], new[0] / shape[0]), new


def resized_crop(
    rows: np.ndarray, shape: Shape, outside: float, *, size: Any, **box: Any
) -> Result:
    cut, window = crop(rows, shape, outside, **box)
    new, shape = resize(cut, window, outside, size=crops.both(size))
    gone = marked(cut, outside)
    new[gone] = outside
    return new, shape


def through(
    rows: np.ndarray, shape: Shape, outside: float, matrix: warp.Matrix
) -> Result:
    """`matrix`: the way back, about the middle of the image."""
    middle = np.array([shape[1], shape[0]]) / 2
    back = np.array(matrix).reshape(2, 3)
    ahead = np.linalg.inv(back[:, :2])

    def there(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        place = np.stack([x, y], 1).astype(float) - middle
        return ((place - back[:, 2]) @ ahead.T + middle).astype(f32)

    return mapped(rows, shape, outside, there)


def mapped(
    rows: np.ndarray,
    shape: Shape,
    outside: float,
    there: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Result:
    """Points where a map takes them, [N, 2]; boxes around where it takes corners."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if rows.shape[1] == 2:
            return clip(there(*rows.T), shape, outside), shape
        corners = np.stack(
            [there(rows[:, x], rows[:, y]) for x in (0, 2) for y in (1, 3)]
        )
        around = np.concatenate([corners.min(0), corners.max(0)], 1)
    return clip(around, shape, outside), shape


def rotation(
    rows: np.ndarray,
    shape: Shape,
    outside: float,
    *,
    angle: float,
    center: Any = None,
    **_: Any,
) -> Result:
    matrix = warp.rotation_matrix(shape, angle=angle, center=center)
    return through(rows, shape, outside, matrix)


def affine(
    rows: np.ndarray,
    shape: Shape,
    outside: float,
    *,
    interpolation: str = "nearest",
    fill: Any = 0,
    **what: Any,
) -> Result:
    return through(rows, shape, outside, warp.affine_matrix(shape, **what))


def graded_warp(
    rows: np.ndarray, shape: Shape, outside: float, *, matrix: warp.Matrix, **_: Any
) -> Result:
    return through(rows, shape, outside, matrix)


def perspective(
    rows: np.ndarray,
    shape: Shape,
    outside: float,
    *,
    corners: corner_maps.Points | None,
    **_: Any,
) -> Result:
    """Forward from the corners of the image; there must be a way back, too."""
    ends = corner_maps.corners_of(shape)
    m = None if corners is None else corner_maps.coefficients(ends, corners)
    if m is None or corners is None or corner_maps.coefficients(corners, ends) is None:
        return rows.copy(), shape

    def there(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = x.astype(float), y.astype(float)
        over = m[6] * x + m[7] * y + 1
        at = [m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]]
        return (np.stack(at, 1) / over[:, None]).astype(f32)

    return mapped(rows, shape, outside, there)


FOLLOW: dict[str, Callable[..., Result]] = {
    "RandomCrop": crop,
    "CenterCrop": center_crop,
    "RandomHorizontalFlip": flip(0),
    "RandomVerticalFlip": flip(1),
    "Resize": resize,
    "RandomResizedCrop": resized_crop,
    "RandomRotation": rotation,
    "RandomAffine": affine,
    "GradedWarp": graded_warp,
    "RandomPerspective": perspective,
}


def follow(
    name: str,
    rows: np.ndarray,
    what: dict[str, Any],
    shape: Shape,
    *,
    outside: float = -1.0,
) -> Result:
    """Return the rows after an operation on an image, and the image's shape then."""
    if name not in FOLLOW:
        return rows, shape
    out, new = FOLLOW[name](rows, shape[:2], outside, **what)
    out[marked(rows, outside)] = outside
    return out, (*new[:2], *shape[2:])


def sanitize(
    rows: np.ndarray, shape: Shape, *, outside: float = -1.0, min_size: float = 1.0
) -> np.ndarray:
    """The rows at the end of a chain, whose image has this shape."""
    out = clip(rows, shape, outside, min_size)
    out[marked(rows, outside)] = outside
    return out
