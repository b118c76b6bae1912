"""Operations that run inside the draw, so that each echo is augmented anew.

`EchoBuffer(spec, ..., transform={"image": [RandomCrop(224), ...]})` maps leaves to
chains: see docs/transforms.md. Names and parameters are torchvision's where it has the
operation. Random choices are functions of (seed, epoch, draw, operation) alone.
"""

from echobuf.transforms.crops import (
    CenterCrop,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
)
from echobuf.transforms.custom import Custom
from echobuf.transforms.lambdas import Lambda
from echobuf.transforms.mix import CutMix, MixUp
from echobuf.transforms.operation import Operation, Source
from echobuf.transforms.pixels import (
    ColorJitter,
    Layout,
    Mask,
    Normalize,
    RandomErasing,
    ToChannelFirst,
    ToDtype,
)
from echobuf.transforms.points import BoundingBoxes, Keypoints
from echobuf.transforms.resampling import (
    RandomAffine,
    RandomResizedCrop,
    RandomRotation,
    Resize,
)
from echobuf.transforms.sequences import (
    GaussianNoise,
    RandomGain,
    RandomWindow,
    SpecMask,
    TokenMask,
)

__all__ = [
    "BoundingBoxes",
    "CenterCrop",
    "ColorJitter",
    "Custom",
    "CutMix",
    "GaussianNoise",
    "Keypoints",
    "Lambda",
    "Layout",
    "Mask",
    "MixUp",
    "Normalize",
    "Operation",
    "RandomAffine",
    "RandomCrop",
    "RandomErasing",
    "RandomGain",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "RandomWindow",
    "Resize",
    "Source",
    "SpecMask",
    "ToChannelFirst",
    "ToDtype",
    "TokenMask",
]
