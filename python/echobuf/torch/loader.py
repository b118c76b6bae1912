"""`EchoLoader` for torch, on one rank or on several that train together."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from echobuf import state
from echobuf.errors import OptionError
from echobuf.loader.adapter import Adapter
from echobuf.loader.loader import EchoLoader as _EchoLoader
from echobuf.options import check_int
from echobuf.state import State
from echobuf.torch.adapter import TorchAdapter
from echobuf.torch.epoch_setter import EpochSetter

if TYPE_CHECKING:
    from echobuf.loader.epoch import Epoch
    from echobuf.torch.ranks.rank import Rank


class EchoLoader(_EchoLoader):
    """Echoes what an iterable or a DataLoader yields, in batches of tensors.

    Takes the arguments of `echobuf.EchoLoader`. A `torch.utils.data.DataLoader` that
    makes batches is taken as it is: `batched` is True, and `batch_size` that of the
    DataLoader, unless told.

    On the CPU the tensors of a batch share the memory that the batch was drawn into; it
    stays valid as long as one of them lives, and is the caller's to change. On a CUDA
    device they come from torch's caching allocator, and are drawn on torch's current
    stream.

    Under `torch.distributed` each rank has a loader of its own over its shard. Where
    every step needs all ranks (`DistributedDataParallel`), say `uneven`: then they
    agree on how many batches an epoch has, and a rank that fails is named to the rest.

    Args:
        upstream: an iterable, or a DataLoader.
        uneven: "drop": an epoch ends on all ranks with the one that ends first, and
            what the others have left is not served; "pad": with the one that ends last,
            and the others serve copies of their last batch. None: ranks know nothing of
            each other.
        group: the process group of the ranks; all of them unless told.
        ahead: with `uneven`, batches that a rank draws ahead of those handed out.
        arguments: those of `echobuf.EchoLoader`.

    Raises:
        OptionError: an argument is out of range, or there is no process group.
    """

    def __init__(
        self,
        upstream: Iterable[Any],
        *,
        uneven: str | None = None,
        group: Any = None,
        ahead: int = 4,
        **arguments: Any,
    ) -> None:
        if uneven not in (None, "drop", "pad"):
            raise OptionError(
                f"`uneven` is {uneven!r}; it must be 'drop', 'pad' or None."
            )
        if group is not None and uneven is None:
            raise OptionError(
                "`group` is given, but `uneven` is not, without which ranks know "
                "nothing of each other: say uneven='drop' or uneven='pad'."
            )
        check_int("ahead", ahead, 1, 1024)
        super().__init__(upstream, **arguments)
        self._rank: Rank | None = None
        if uneven is not None:
            from echobuf.torch.ranks.rank import Rank

            self._rank = Rank(group, uneven, ahead)
            self._say_length()

    @property
    def batch_sampler(self) -> EpochSetter:
        """Where trainers look for `sampler.set_epoch`: it is that of the loader."""
        return EpochSetter(self.set_epoch)

    def _adapter(self) -> Adapter:
        return TorchAdapter()

    # ---- ranks

    def __iter__(self) -> Iterator[Any]:
        """Begins an epoch.

        With `uneven` the first batch waits for all ranks, and raises what is wrong:
        `OptionError` where they have different arguments or are in different epochs,
        `StateError` where they have loaded states of different batches,
        `UpstreamError` where another one could not begin.

        Raises:
            UpstreamError: upstream gives one epoch only and has been used.
            SpecError: the first item has leaves that cannot be stored.
            CapacityError: the window does not fit the memory.
        """
        if self._rank is None:
            return super().__iter__()
        try:
            epoch = cast("Epoch", super().__iter__())
        except BaseException as error:
            self._rank.cannot_begin(error)
            raise
        return self._rank.together(epoch, self._plan.sealed, weakref.ref(self))

    def _end_current(self) -> None:
        if self._rank is not None:
            self._rank.supersede()
        super()._end_current()

    def _served_out(self) -> None:
        if self._rank is None:  # else the other ranks have a say
            super()._served_out()

    def __len__(self) -> int:
        """The number of batches in an epoch; with `uneven` the same on all ranks.

        Raises:
            TypeError: upstream's length is not known, or `factor` is "auto".
        """
        return super().__len__() if self._rank is None else self._rank.count_batches()

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Where the batches handed out so far have come to, for `json` to keep.

        With `uneven` it says where all ranks were: that of one will do for all, if it
        is taken after a step that they take together.
        """
        return super().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next `iter` goes on where a loader with the same arguments was.

        A state that was taken on as many ranks is continued exactly; each rank loads
        its own, or all load the same one. With another number of ranks all load the
        same one, and begin at the first example that one of them still needed: nothing
        is lost, some are served again, and a warning says how many. That takes shards
        to be every n-th example, as those of torch's DistributedSampler are.

        Raises:
            StateError: the state is damaged, of other arguments, or does not say where
                this rank was.
        """
        super().load_state_dict(state_dict)

    def _position(self) -> State:
        if self._rank is None or self._resume is not None:
            return super()._position()
        if self._begun is not None:  # and no batch was drawn
            return self._begun.resume or state.start_of(self._begun.number)
        at = None if self._between else self._rank.position()
        return state.start_of(self._next_epoch) if at is None else at

    def _seal(self, arguments: State, position: State) -> State:
        more = {"ranks": position["ranks"]} if "ranks" in position else {}
        return state.seal(arguments, position, **more)

    def _unseal(self, sealed: Any) -> State:
        if self._rank is not None:
            return self._rank.unseal(sealed, self._plan.sealed())
        if isinstance(sealed, dict) and "ranks" in sealed:
            from echobuf.torch.ranks.states import unseal_alone

            return unseal_alone(sealed, self._plan.sealed())
        return super()._unseal(sealed)

    def _say_length(self) -> None:
        assert self._rank is not None
        self._rank.say_length(super().__len__)

    def _end_together(self) -> None:
        """The end has been drawn on all ranks."""
        super()._served_out()
