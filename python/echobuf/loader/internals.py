"""Parts of a loader that other rooms use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from echobuf.loader.adapter import Adapter
from echobuf.loader.plan import Plan
from echobuf.loader.readers import Reader
from echobuf.loader.starter import EpochStarter


@dataclass(frozen=True)
class LoaderInternals:
    """Parts of a loader that other rooms of echobuf use.

    Attributes:
        plan: the checked arguments.
        starter: begins the epochs.
        reader: reads upstream.
        upstream: the iterable that the reader reads.
        adapter: converts items and batches for the loader's framework.
        stop: stops feeding the current epoch, without waiting for upstream.
        end_epoch: ends the current epoch, and waits for the feeder.
        count_batches: returns the number of batches in an epoch, given by its number,
            on all ranks; raises `TypeError` where it is not known.
    """

    plan: Plan
    starter: EpochStarter
    reader: Reader
    upstream: Iterable[Any]
    adapter: Adapter
    stop: Callable[[], None]
    end_epoch: Callable[[], None]
    count_batches: Callable[[int], int]
