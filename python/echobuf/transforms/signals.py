"""Operations for signals and spectrograms."""

from __future__ import annotations

from dataclasses import dataclass

from echobuf import _core
from echobuf.transforms import arguments, numbers
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation


@dataclass(frozen=True, eq=False)
class RandomGain(Operation):
    """Multiplies by a gain that is uniform in decibels; for floats of any shape.

    Args:
        min_db: the least.
        max_db: the most.
    """

    min_db: float = -6.0
    max_db: float = 6.0

    def __post_init__(self) -> None:
        low = arguments.number(self, "min_db", self.min_db, -700.0, 700.0)
        arguments.number(self, "max_db", self.max_db, low, 700.0)

    def add_to(self, chain: Chain) -> None:
        chain.floats()
        settings = {"low": float(self.min_db), "high": float(self.max_db)}
        chain.change("gain", settings)


@dataclass(frozen=True, eq=False)
class GaussianNoise(Operation):
    """Adds normal noise; for floats of any shape, and images of uint8.

    Args:
        mean: of the noise; of uint8 images as a share of 255.
        sigma: its standard deviation, likewise.
        clip: whether to bring the sum to 0 ... 1 (0 ... 255). None: of images, as
            torchvision does; of other leaves not.

    As `torchvision.transforms.v2.GaussianNoise`.
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool | None = None

    def __post_init__(self) -> None:
        arguments.float32(self, "mean", self.mean)
        arguments.float32(self, "sigma", self.sigma, 0.0)
        if self.clip is not None:
            arguments.flag(self, "clip", self.clip)

    def add_to(self, chain: Chain) -> None:
        image = chain.is_image()
        if image:
            chain.image()
            chain.computes()
        else:
            chain.floats()
        integer = numbers.is_integer(chain.dtype)
        most = numbers.largest(chain.dtype)
        settings = {
            "mean": self.mean * most,
            "sigma": self.sigma * most,
            "most": most,
            "clip": int(image if self.clip is None else self.clip),
            "integer": int(integer),
        }
        chain.change("noise", settings, placed=True)


@dataclass(frozen=True, eq=False)
class SpecMask(Operation):
    """Masks bands of frequencies and of time of a spectrogram [frequency, time].

    Args:
        freq_mask_param: frequencies that a band has at most.
        time_mask_param: steps of time that a band has at most.
        num_freq_masks: bands of frequencies, up to 4.
        num_time_masks: bands of time, up to 4.
        value: what is put there.

    As torchaudio's `FrequencyMasking` and `TimeMasking`. Source: D. S. Park et al.,
    "SpecAugment" (arXiv:1904.08779).
    """

    freq_mask_param: int = 0
    time_mask_param: int = 0
    num_freq_masks: int = 1
    num_time_masks: int = 1
    value: float = 0.0

    def __post_init__(self) -> None:
        for name in ("freq_mask_param", "time_mask_param"):
            arguments.integer(self, name, getattr(self, name), 0)
        for name in ("num_freq_masks", "num_time_masks"):
            arguments.integer(self, name, getattr(self, name), 0, _core.MOST_BANDS)
        arguments.float32(self, "value", self.value)

    def add_to(self, chain: Chain) -> None:
        if len(chain.shape) != 2:
            raise chain.refusal("is for spectrograms, of shape [frequency, time]")
        chain.floats()
        chain.table()
        settings = {
            "rows": self.num_freq_masks,
            "columns": self.num_time_masks,
            "tallest": float(self.freq_mask_param),
            "widest": float(self.time_mask_param),
            "value": float(self.value),
        }
        chain.change("bands", settings, placed=True)
