"""Checks of every upstream, through the code that docs/upstreams.md shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import markdown
from leaked_threads import no_feeder

PAGE = Path(__file__).parents[2] / "docs" / "upstreams.md"
OF_SHARDS = ("__url__", "__local_path__")
"""Leaves of webdataset's that say from where an example is."""
N = 300
"""Examples of each upstream."""
SET_VITAL = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
"""Ignores a warning that torchdata 0.11 causes in torch 2.13."""


def run(title: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs the code of a section, with a small window; its names."""
    (code,) = markdown.blocks_below(PAGE, title, "python")
    assert len([line for line in code.splitlines() if line]) <= 10
    names = dict(names)
    exec(re.sub(r'(window"?[=:] ?)4096', r"\g<1>64", code), names)
    return names


def ids_of(batch: Any, key: Any) -> list[int]:
    """The numbers of a batch's examples; the other leaves must be of the same ones."""
    if isinstance(batch, dict):
        leaves = [leaf for name, leaf in batch.items() if name not in OF_SHARDS]
    else:
        leaves = list(batch)
    ids = np.asarray(batch[key])
    for leaf in leaves:
        rows = np.asarray(leaf).reshape(len(ids), -1)
        assert (rows == (ids.astype(rows.dtype))[:, None]).all()
    return ids.tolist()


def check_epochs(make: Callable[[], Any], key: Any, n: int = N) -> None:
    """Each example is served twice in an epoch, and again in the next one."""
    loader = make()
    orders = []
    for _ in range(2):
        batches = [ids_of(batch, key) for batch in loader]
        assert len(batches) == len(loader)
        orders.append([each for batch in batches for each in batch])
        assert Counter(orders[-1]) == Counter(2 * list(range(n)))
    assert orders[0] != orders[1]


def check_resume(
    make: Callable[[], Any], key: Any, begin: Callable[[int], Any] = lambda epoch: None
) -> None:
    """A loader around the same upstream goes on in the middle of the second epoch.

    Args:
        make: a loader around an upstream that has not been iterated.
        key: of the leaf that numbers the examples.
        begin: what the page says to do to the upstream of the last loader made, before
            each epoch and before a state is loaded.
    """
    loader = make()
    begin(0)
    list(loader)
    begin(1)
    epoch = iter(loader)
    for _ in range(4):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [ids_of(batch, key) for batch in epoch]
    assert len(expected) == len(loader) - 4
    again = make()
    begin(state["epoch"])
    again.load_state_dict(state)
    assert [ids_of(batch, key) for batch in again] == expected


def check_break(make: Callable[[], Any], key: Any, n: int = N) -> None:
    """After a loop that is left early the next epoch is whole; no thread is left."""
    loader = make()
    for _ in loader:
        break
    seen = [each for batch in loader for each in ids_of(batch, key)]
    assert Counter(seen) == Counter(2 * list(range(n)))
    del loader
    no_feeder()


def check_unknown_length(upstream: Any, **kwargs: Any) -> None:
    """`len` says what to give."""
    import echobuf

    options = {"batch_size": 4, "window": 16, "factor": 2, **kwargs}
    loader = echobuf.EchoLoader(upstream, **options)
    with pytest.raises(TypeError, match="`length=`"):
        len(loader)


def check_all(make: Callable[[], Any], key: Any, n: int = N) -> None:
    """All of that, for an upstream that is the same in each epoch."""
    check_epochs(make, key, n)
    check_resume(make, key)
    check_break(make, key, n)
