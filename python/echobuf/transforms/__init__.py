"""Operations that run inside the draw, so that each echo is augmented anew.

`EchoBuffer(spec, ..., transform={"image": [RandomCrop(224), ...]})` maps leaves to
chains: see docs/transforms.md. Names and parameters are torchvision's where it has the
operation. Random choices are functions of (seed, epoch, draw, operation) alone.
"""

from echobuf.transforms.automatic import AutoAugment, RandAugment, TrivialAugmentWide
from echobuf.transforms.blur import GaussianBlur
from echobuf.transforms.choices import RandomApply, RandomChoice, RandomOrder
from echobuf.transforms.crops import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
)
from echobuf.transforms.custom import Custom
from echobuf.transforms.lambdas import Lambda
from echobuf.transforms.mix import CutMix, MixUp
from echobuf.transforms.operation import Operation, Source
from echobuf.transforms.perspective import RandomPerspective
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
    SpecMask,
    TokenMask,
)
from echobuf.transforms.sharpness import RandomAdjustSharpness, Sharpness
from echobuf.transforms.tones import (
    AutoContrast,
    Equalize,
    Grayscale,
    Invert,
    Posterize,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    Solarize,
)
from echobuf.transforms.windows import CenterWindow, RandomWindow

__all__ = [
    "AutoAugment",
    "AutoContrast",
    "BoundingBoxes",
    "CenterCrop",
    "CenterWindow",
    "ColorJitter",
    "Custom",
    "CutMix",
    "Equalize",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Invert",
    "Keypoints",
    "Lambda",
    "Layout",
    "Mask",
    "MixUp",
    "Normalize",
    "Operation",
    "Pad",
    "Posterize",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChoice",
    "RandomCrop",
    "RandomEqualize",
    "RandomErasing",
    "RandomGain",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomWindow",
    "Resize",
    "Sharpness",
    "Solarize",
    "Source",
    "SpecMask",
    "ToChannelFirst",
    "ToDtype",
    "TokenMask",
    "TrivialAugmentWide",
]
