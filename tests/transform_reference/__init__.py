"""The transforms in plain NumPy: slow, and nothing shared with the engine.

Images are [height, width, channels]. `parameters` makes of the words of a draw what an
operation needs, `apply` is a pure function of the example and of that. An operation has
the name and the options that it has in `echobuf.transforms`:

    draw = Draw(seed=7, epoch=0, draw=41, op=0)
    what = parameters("RandomCrop", {"size": 24, "padding": 4}, draw, image.shape)
    cropped = apply("RandomCrop", image, what)

Arithmetic is float64, but where a result is truncated or exactly defined by few
operations (colours, dtypes, mixing): there it is float32, in torchvision's order.
"""

from transform_reference.operations import apply, parameters, transform
from transform_reference.words import Draw

__all__ = ["Draw", "apply", "parameters", "transform"]
