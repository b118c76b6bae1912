"""Windows of sequences, of fixed shapes and of ragged leaves."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from echobuf.transforms import arguments
from echobuf.transforms.chain import Chain
from echobuf.transforms.crops import add_crop
from echobuf.transforms.operation import Alternating, Operation

__all__ = ["CenterWindow", "RandomWindow"]


class Window(Operation):
    """The base of windows.

    Attributes:
        take: the place of the window in a ragged leaf, as the core names it.
    """

    length: int
    axis: int
    take: str
    _arguments = arguments.checks(
        length=arguments.integers(1), axis=arguments.integers(-1, 0)
    )

    def mask(self) -> WindowMask:
        """Return the operation for a further leaf: the rows that are no padding.

        It comes first in the chain, behind `Source` of a ragged leaf, and makes bool
        `[length]`: True for the rows of the example, which come first. Its sum is the
        length of the example in the window.
        """
        return WindowMask(self)

    @abstractmethod
    def _place(self, extent: int) -> tuple[int, int]:
        """Return the first place of the window, and how many places it has."""

    def add_to(self, chain: Chain) -> None:
        rank = len(chain.shape)
        if rank == 0:
            raise chain.refusal("is for sequences, of one axis or more")
        along = self.axis % rank
        if chain.shape[along] < self.length:
            raise chain.refusal(f"is longer than axis {self.axis}")
        first, places = self._place(chain.shape[along])
        rows, columns, _ = chain.window_extent(along)
        if along == 0 and rank > 1:
            add_crop(chain, (self.length, columns), (first, 0), (places, 1))
        else:
            # Choose the same window as in a leaf that has one axis more.
            size = rows, self.length
            add_crop(chain, size, (0, first), (1, places), columns_first=True)
        shape = list(chain.shape)
        shape[along] = self.length
        chain.shape = tuple(shape)


@dataclass(frozen=True, eq=False, repr=False)
class RandomWindow(Alternating, Window):
    """A window of a longer sequence, anywhere in it; of any dtype.

    First in the chain of a ragged leaf it makes the leaf one of fixed shape, `[length,
    ...]`, whatever the length of the example; all operations may follow. An example
    that is shorter is kept whole and filled up with the buffer's `pad_value` at its
    end; `mask()` says in another leaf which rows are no padding. One object in the
    chains of leaves that are equally long chooses the same rows in all of them.

    Args:
        length: of the window.
        axis: along which: 0, or -1, the last. Of spectrograms [frequency, time] and
            [channel, frequency, time] the last is that of time.
        alternate: draw one window for two uses of an example in an epoch, mirrored
            about the middle at the second: as far from the end as the first is from the
            start. Otherwise uses are independent.

    Examples:
        >>> signal = np.arange(100)
        >>> chain = [T.RandomWindow(4)]
        >>> loader = EchoLoader([signal] * 3, batch_size=3, factor=1, transform=chain)
        >>> next(iter(loader))
        array([[89, 90, 91, 92],
               [85, 86, 87, 88],
               [73, 74, 75, 76]])

        Of examples of any length, with the rows that are no padding:

        >>> window = T.RandomWindow(4)
        >>> buffer = EchoBuffer(
        ...     {"ids": Field((None,), np.int64, max_length=100)},
        ...     batch_size=2,
        ...     window=2,
        ...     factor=1,
        ...     transform={"ids": [window], "mask": [T.Source("ids"), window.mask()]},
        ... )
        >>> for length in (2, 100):
        ...     buffer.put({"ids": np.arange(1, length + 1)})
        >>> batch = buffer.next_batch()
        >>> batch["ids"].tolist()
        [[90, 91, 92, 93], [1, 2, 0, 0]]
        >>> batch["mask"].astype(int).tolist()
        [[1, 1, 1, 1], [1, 1, 0, 0]]
    """

    length: int
    axis: int = 0
    take = "random"

    def _place(self, extent: int) -> tuple[int, int]:
        return 0, extent - self.length + 1


@dataclass(frozen=True, eq=False)
class CenterWindow(Window):
    """The window in the middle of a sequence; of any dtype.

    First in the chain of a ragged leaf it makes the leaf one of fixed shape, as
    `RandomWindow` does, but the same at each draw: for evaluation. Of n rows it leaves
    out `(n - length) // 2` at the start.

    Args:
        length: of the window.
        axis: along which: 0, or -1, the last.

    Examples:
        >>> signal = np.arange(10)
        >>> chain = [T.CenterWindow(4)]
        >>> next(iter(EchoLoader([signal], batch_size=1, transform=chain)))
        array([[3, 4, 5, 6]])
    """

    length: int
    axis: int = 0
    take = "center"

    def _place(self, extent: int) -> tuple[int, int]:
        return (extent - self.length) // 2, 1


@dataclass(frozen=True, eq=False)
class WindowMask(Operation):
    """The rows of a window of a ragged leaf that are no padding."""

    window: Window

    @property
    def chance(self) -> Operation:
        """The window, whose random numbers it uses."""
        return self.window

    def add_to(self, chain: Chain) -> None:
        raise chain.refusal(
            "comes first in the chain of a ragged leaf, behind Source, and only there"
        )
