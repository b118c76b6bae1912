"""Operations for numbers of sequences: tokens, signals and spectrograms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from echobuf import _core
from echobuf.transforms import arguments, dtypes
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Alternating, Operation

__all__ = ["GaussianNoise", "RandomGain", "SpecMask", "TokenMask"]


@dataclass(frozen=True, eq=False)
class TokenMask(Operation):
    """Masked tokens, for masked language modelling.

    Of the selected tokens most become `mask_token`, some a random token, the rest
    stays. `labels()` returns the operation that makes the labels, in another leaf.

    Args:
        mask_token: the token that replaces most of the selected ones.
        vocab_size: random tokens are from 0 ... vocab_size - 1.
        p: the probability that a token is selected.
        p_mask: the probability that a selected token becomes `mask_token`.
        p_random: the probability that a selected token becomes a random one.
        special_tokens: never selected; up to 16.

    Source: J. Devlin et al., "BERT" (arXiv:1810.04805), section 3.1.

    Examples:
        >>> tokens = np.arange(100, 112)
        >>> mask = T.TokenMask(mask_token=103, vocab_size=1000, p=0.3)
        >>> transform = {
        ...     "tokens": [mask],
        ...     "labels": [T.Source("tokens"), mask.labels()],
        ... }
        >>> loader = EchoLoader([{"tokens": tokens}], batch_size=1, transform=transform)
        >>> batch = next(iter(loader))
        >>> batch["tokens"][0].tolist()
        [103, 103, 102, 4, 104, 105, 106, 107, 103, 109, 103, 103]
        >>> batch["labels"][0].tolist()
        [100, 101, -100, 103, -100, -100, -100, -100, 108, -100, 110, 111]
    """

    mask_token: int
    vocab_size: int
    p: float = 0.15
    p_mask: float = 0.8
    p_random: float = 0.1
    special_tokens: Any = ()
    keeps_length = True
    _arguments = arguments.checks(
        mask_token=arguments.integers(0),
        vocab_size=arguments.integers(1),
        p=arguments.probability,
        p_mask=arguments.probability,
        p_random=arguments.probability,
    )

    def _check(self) -> None:
        if self.p_mask + self.p_random > 1:
            raise self.refusal("p_random", self.p_random, "at most 1 - p_mask")
        if not arguments.is_sequence(self.special_tokens):
            raise self.refusal("special_tokens", self.special_tokens, "a list of ints")
        if len(self.special_tokens) > _core.MOST_SPECIAL:
            raise self.refusal("special_tokens", self.special_tokens, "up to 16 ints")
        for token in self.special_tokens:
            arguments.integer(self, "special_tokens", token, 0)

    def labels(self, ignore_index: int = -100) -> TokenLabels:
        """Return the operation for the leaf of labels, which has the same tokens.

        Args:
            ignore_index: the label of tokens that were not selected.
        """
        return TokenLabels(self, ignore_index)

    def add_to(self, chain: Chain) -> None:
        self.add_mask(chain, None)

    def add_mask(self, chain: Chain, ignored: int | None) -> None:
        """Add the masking, or the labels; `ignored`: the label of other tokens."""
        if not dtypes.is_integer(chain.dtype) or chain.dtype.name in (
            "bool",
            "uint64",
        ):
            raise chain.refusal("is for tokens, which are integers")
        chain.fitting(self, "mask_token", self.mask_token)
        chain.fitting(self, "vocab_size", self.vocab_size - 1)
        chain.fitting(self, "ignore_index", ignored or 0)
        chain.table()
        special = [int(token) for token in self.special_tokens]
        settings = {
            "p": float(self.p),
            "hidden": float(self.p_mask),
            "replaced": float(self.p_random),
            "mask": int(self.mask_token),
            "vocabulary": int(self.vocab_size),
            "labels": int(ignored is not None),
            "ignored": ignored or 0,
            "specials": len(special),
            "special": special,
        }
        chain.exchange("mask", settings)


@dataclass(frozen=True, eq=False)
class TokenLabels(Operation):
    """The tokens that a `TokenMask` selected, before it masked them."""

    mask: TokenMask
    ignore_index: int = field(default=-100)
    keeps_length = True
    _arguments = arguments.checks(ignore_index=arguments.integers(-(2**31)))

    @property
    def chance(self) -> Operation:
        """The mask, whose random numbers it uses."""
        return self.mask

    def add_to(self, chain: Chain) -> None:
        self.mask.add_mask(chain, int(self.ignore_index))


_decibels = arguments.numbers(-700.0, 700.0)


@dataclass(frozen=True, eq=False, repr=False)
class RandomGain(Alternating):
    """A random gain, uniform in decibels; for floats of any shape.

    Args:
        min_db: the least.
        max_db: the most.
        alternate: draw one gain for two uses of an example in an epoch, mirrored about
            the middle of both, in decibels, at the second. Otherwise uses are
            independent.

    Examples:
        >>> signal = np.ones(3, np.float32)
        >>> chain = [T.RandomGain(min_db=-6.0, max_db=6.0)]
        >>> loader = EchoLoader([signal] * 2, batch_size=2, factor=1, transform=chain)
        >>> next(iter(loader)).round(2)
        array([[1.79, 1.79, 1.79],
               [1.7 , 1.7 , 1.7 ]], dtype=float32)
    """

    min_db: float = -6.0
    max_db: float = 6.0
    keeps_length = True
    _arguments = arguments.checks(min_db=_decibels, max_db=_decibels)

    def _check(self) -> None:
        arguments.number(self, "max_db", self.max_db, float(self.min_db), 700.0)

    def add_to(self, chain: Chain) -> None:
        chain.floats()
        settings = {"low": float(self.min_db), "high": float(self.max_db)}
        chain.change("gain", settings)


@dataclass(frozen=True, eq=False)
class GaussianNoise(Operation):
    """Additive normal noise; for floats of any shape, and images of uint8.

    Args:
        mean: of the noise; of uint8 images as a share of 255.
        sigma: its standard deviation, likewise.
        clip: whether to bring the sum to 0 ... 1 (0 ... 255). None: of images, as
            torchvision does; of other leaves not.

    As `torchvision.transforms.v2.GaussianNoise`.

    Examples:
        >>> signal = np.zeros(4, np.float32)
        >>> chain = [T.GaussianNoise(sigma=0.1)]
        >>> next(iter(EchoLoader([signal], batch_size=1, transform=chain)))[0].round(2)
        array([-0.07, -0.08,  0.14, -0.12], dtype=float32)
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool | None = None
    keeps_length = True
    _arguments = arguments.checks(
        mean=arguments.float32,
        sigma=arguments.float32s(0.0),
        clip=arguments.optional(arguments.flag),
    )

    def add_to(self, chain: Chain) -> None:
        image = chain.is_image()
        if image:
            chain.image()
        if chain.is_mask:
            return
        if image:
            chain.computes()
        else:
            chain.floats()
        integer = dtypes.is_integer(chain.dtype)
        most = dtypes.largest(chain.dtype)
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
    """Masked bands of frequencies and of time of a spectrogram, which is of floats.

    Its shape is [frequency, time], or [channel, frequency, time] with the same bands in
    all channels, as torchaudio has it; with `time_axis=0`, [time, frequency]. A ragged
    leaf [time, frequency] gets bands within the length that each example has.

    Args:
        freq_mask_param: frequencies that a band has at most.
        time_mask_param: steps of time that a band has at most.
        num_freq_masks: bands of frequencies, up to 4.
        num_time_masks: bands of time, up to 4.
        value: the number in masked bands.
        time_axis: the axis of time: -1, the last, or 0, of [time, frequency].

    As torchaudio's `FrequencyMasking` and `TimeMasking`. Source: D. S. Park et al.,
    "SpecAugment" (arXiv:1904.08779).

    Examples:
        >>> spectrogram = np.ones((4, 6), np.float32)  # frequency, time
        >>> chain = [T.SpecMask(freq_mask_param=2, time_mask_param=3)]
        >>> loader = EchoLoader([spectrogram], batch_size=1, transform=chain)
        >>> next(iter(loader))[0].astype(int)
        array([[0, 0, 0, 0, 0, 0],
               [1, 1, 0, 1, 1, 1],
               [1, 1, 0, 1, 1, 1],
               [1, 1, 0, 1, 1, 1]])

        Of examples of any length, [time, frequency]:

        >>> buffer = EchoBuffer(
        ...     Field((None, 2), np.float32, max_length=100),
        ...     batch_size=2,
        ...     window=2,
        ...     factor=1,
        ...     transform=[T.SpecMask(1, 3, time_axis=0)],
        ... )
        >>> for length in (4, 6):
        ...     buffer.put(np.ones((length, 2), np.float32))
        >>> batch = buffer.next_batch()
        >>> [example[:, 0].astype(int).tolist() for example in batch.to_list()]
        [[1, 0, 0, 1, 1, 1], [0, 0, 1, 1]]
    """

    freq_mask_param: int = 0
    time_mask_param: int = 0
    num_freq_masks: int = 1
    num_time_masks: int = 1
    value: float = 0.0
    time_axis: int = -1
    keeps_length = True
    _arguments = arguments.checks(
        time_axis=arguments.integers(-1, 0),
        freq_mask_param=arguments.integers(0),
        time_mask_param=arguments.integers(0),
        num_freq_masks=arguments.integers(0, _core.MOST_BANDS),
        num_time_masks=arguments.integers(0, _core.MOST_BANDS),
        value=arguments.float32,
    )

    def add_to(self, chain: Chain) -> None:
        self._check_axis(chain)
        chain.spectrogram()
        rows = self.num_freq_masks, float(self.freq_mask_param)
        columns = self.num_time_masks, float(self.time_mask_param)
        if self.time_axis == 0:
            rows, columns = columns, rows
        settings = {
            "rows": rows[0],
            "columns": columns[0],
            "tallest": rows[1],
            "widest": columns[1],
            "value": float(self.value),
        }
        chain.change("bands", settings, placed=True)

    def _check_axis(self, chain: Chain) -> None:
        """Raise unless the axis of time is that of a leaf of any length."""
        if self.time_axis == 0 and len(chain.shape) != 2:
            raise chain.refusal(
                "has time_axis=0, which is for spectrograms of shape [time, frequency]"
            )
        if self.time_axis != 0 and None in chain.shown_shape()[:1]:
            raise chain.refusal(
                "takes the last axis for time, and axis 0 of the leaf varies: say "
                "time_axis=0, which is for [time, frequency], or put RandomWindow("
                "length) or CenterWindow(length) first in the chain"
            )
