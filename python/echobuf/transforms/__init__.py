"""Operations that run inside the draw, so that each echo is augmented anew.

`EchoBuffer(spec, ..., transform={"image": [RandomCrop(224), ...]})` maps leaves to
chains: see docs/transforms.md. Names and parameters are torchvision's where it has the
operation. What chance decides is a function of (seed, epoch, draw, operation) alone.
"""

from echobuf.transforms.affine import RandomAffine, RandomRotation
from echobuf.transforms.color import ColorJitter
from echobuf.transforms.custom import Custom
from echobuf.transforms.lambdas import Lambda
from echobuf.transforms.maps import (
    CenterCrop,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
)
from echobuf.transforms.mix import CutMix, MixUp
from echobuf.transforms.operation import Operation
from echobuf.transforms.pixels import (
    Layout,
    Normalize,
    RandomErasing,
    ToChannelFirst,
    ToDtype,
)
from echobuf.transforms.resize import RandomResizedCrop, Resize
from echobuf.transforms.sequences import RandomWindow, TokenMask
from echobuf.transforms.signals import GaussianNoise, RandomGain, SpecMask
from echobuf.transforms.source import Source

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Custom",
    "CutMix",
    "GaussianNoise",
    "Lambda",
    "Layout",
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
