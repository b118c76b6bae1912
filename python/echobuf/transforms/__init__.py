"""Operations that run inside the draw, so that each echo is augmented anew.

`EchoBuffer(spec, ..., transform={"image": [RandomCrop(224), ...]})` maps leaves to
chains: see docs/transforms.md. Names and parameters are torchvision's where it has the
operation. Random choices are functions of (seed, epoch, draw, operation) alone.
"""

from echobuf.transforms import (
    automatic,
    choices,
    crops,
    custom,
    filters,
    mix,
    operation,
    pixels,
    points,
    resampling,
    sequences,
    tones,
    windows,
)
from echobuf.transforms.automatic import *
from echobuf.transforms.choices import *
from echobuf.transforms.crops import *
from echobuf.transforms.custom import *
from echobuf.transforms.filters import *
from echobuf.transforms.mix import *
from echobuf.transforms.operation import *
from echobuf.transforms.pixels import *
from echobuf.transforms.points import *
from echobuf.transforms.resampling import *
from echobuf.transforms.sequences import *
from echobuf.transforms.tones import *
from echobuf.transforms.windows import *

__all__: list[str] = []
__all__ += automatic.__all__
__all__ += choices.__all__
__all__ += crops.__all__
__all__ += custom.__all__
__all__ += filters.__all__
__all__ += mix.__all__
__all__ += operation.__all__
__all__ += pixels.__all__
__all__ += points.__all__
__all__ += resampling.__all__
__all__ += sequences.__all__
__all__ += tones.__all__
__all__ += windows.__all__
