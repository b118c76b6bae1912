"""`MixUp` and `CutMix`: an example mixed with another one of its pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from echobuf.transforms import arguments, dtypes
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

__all__ = ["CutMix", "MixUp"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Mixing(Operation):
    """The base of `MixUp` and `CutMix`."""

    alpha: float = 1.0
    num_classes: int | None = None
    labels: Any = "default"
    _cut: ClassVar[int]
    _arguments = arguments.checks(
        alpha=arguments.numbers(1e-6, 1e6),
        num_classes=arguments.optional(arguments.integers(1)),
        labels=arguments.key,
    )

    def add_to(self, chain: Chain) -> None:
        if len(chain.shape) >= 2:
            self._add_to_image(chain)
        else:
            self._add_to_labels(chain)

    def _add_to_image(self, chain: Chain) -> None:
        if self._cut or chain.is_image():
            chain.image()
        if self._cut:
            chain.computes()
        else:
            chain.floats()
        chain.mix(self._settings(chain.extent, flat=False))

    def _add_to_labels(self, chain: Chain) -> None:
        if dtypes.is_integer(chain.dtype) and chain.shape == ():
            if self.num_classes is None:
                raise chain.refusal("needs `num_classes`, the number of labels")
            chain.classes(self.num_classes)
        elif len(chain.shape) != 1 or chain.dtype != np.float32:
            raise chain.refusal(
                "mixes images, labels that are one integer, and labels that are "
                "float32[num_classes]"
            )
        elif self.num_classes not in (None, chain.shape[0]):
            raise chain.refusal(f"is for {self.num_classes} classes")
        whole = chain.mixed_image(self) if self._cut else chain.extent
        chain.mix(self._settings(whole, flat=True))

    def _settings(self, whole: Any, *, flat: bool) -> dict[str, Any]:
        return {
            "whole": whole,
            "alpha": float(self.alpha),
            "cut": self._cut,
            "flat": int(flat),
        }


def classes_of_labels(chain: Chain, mixes: Sequence[Mixing]) -> None:
    """Make a leaf that is one integer one-hot: for mixes, one of which may follow.

    Raises:
        SpecError: the mixes have no number of classes, or different ones.
    """
    if chain.shape != () or not dtypes.is_integer(chain.dtype):
        return
    counts = {mix.num_classes for mix in mixes}
    [count, *others] = counts
    if count is None or others:
        raise chain.refusal(
            "needs mixes that have the same `num_classes`, the number of labels"
        )
    chain.classes(count)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixUp(Mixing):
    """The weighted sum with another example of the same pass, labels too.

    The weight is drawn from Beta(alpha, alpha) for each example, not for each batch:
    it does not depend on the batch size. The partner's use is not counted.

    Args:
        alpha: small: nearly all of one example; 1: any weight.
        num_classes: of labels that are integers, which become float32[num_classes].
        labels: the key of the leaf of labels; "default": a leaf whose name has "label"
            in it, or the second of two; None: there is none. Not needed where this
            object stands in the chain of that leaf, too. In the chains of several
            images it mixes their labels once.

    As `torchvision.transforms.v2.MixUp`. Source: H. Zhang et al. (arXiv:1710.09412).

    Examples:
        >>> examples = [(np.full((1, 2, 2), i, np.float32), i) for i in range(2)]
        >>> transform = {0: [T.MixUp(num_classes=2)]}
        >>> loader = EchoLoader(examples, batch_size=2, factor=1, transform=transform)
        >>> images, labels = next(iter(loader))
        >>> images[:, 0, 0, 0].round(2)
        array([0.51, 0.63], dtype=float32)
        >>> labels.round(2)
        array([[0.49, 0.51],
               [0.37, 0.63]], dtype=float32)
    """

    _cut = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class CutMix(Mixing):
    """A box of another example of the same pass, labels mixed by its area.

    Args:
        alpha: the box's area is drawn by Beta(alpha, alpha).
        num_classes: of labels that are integers, which become float32[num_classes].
        labels: the key of the leaf of labels, as in `MixUp`.

    As `torchvision.transforms.v2.CutMix`, but for each example by itself. Source: S.
    Yun et al. (arXiv:1905.04899).

    Examples:
        >>> examples = [(np.full((1, 4, 4), i, np.float32), i) for i in range(2)]
        >>> transform = {0: [T.CutMix(num_classes=2)]}
        >>> loader = EchoLoader(examples, batch_size=2, factor=1, transform=transform)
        >>> images, labels = next(iter(loader))
        >>> images[0, 0].astype(int)
        array([[0, 0, 1, 1],
               [1, 1, 1, 1],
               [1, 1, 1, 1],
               [1, 1, 1, 1]])
        >>> labels[0].tolist()  # the share of each
        [0.125, 0.875]
    """

    _cut = 1
