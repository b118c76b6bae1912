"""Ranks that load and train in step, event by event, on a clock of their own.

Storage and the network give a rate that is shared, at each moment, by the ranks that
are fetching from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from echobuf.analysis.cost_model import Costs

SHARED = 2  # stages of which the ranks have a rate together: storage, peers


def load(needs: Sequence[Sequence[float]], together: bool) -> float:
    """Seconds until all ranks have a batch.

    Args:
        needs: of each rank, the seconds of its stages: storage, peers, preparation.
        together: whether ranks go to their peers when all have read from storage.
    """
    left = [list(need) for need in needs]
    at = [0] * len(left)
    now = 0.0
    while any(stage < 3 for stage in at):
        waits = [together and stage == 1 and 0 in at for stage in at]
        here = [i for i, stage in enumerate(at) if stage < 3 and not waits[i]]
        slower = {i: _users(at, waits, i) for i in here}
        took = min(left[i][at[i]] * slower[i] for i in here)
        now += took
        for i in here:
            stage = at[i]
            left[i][stage] -= took / slower[i]
            if left[i][stage] <= 1e-15:
                at[i] += 1
    return now


def _users(at: Sequence[int], waits: Sequence[bool], rank: int) -> int:
    stage = at[rank]
    if stage >= SHARED:
        return 1
    return sum(other == stage and not w for other, w in zip(at, waits, strict=True))


def epoch_of(
    batches: Sequence[Sequence[tuple[int, int]]],
    local_batch: int,
    costs: Costs,
    together: bool,
) -> float:
    """Seconds of an epoch, less those of a batch that nothing overlaps.

    Args:
        batches: of each step, of each rank: examples from storage and from peers.
        local_batch: examples of a rank in a step.
        costs: of each example.
        together: as for `load`.
    """
    step_s = local_batch * costs.step_s
    loads = [
        load(
            [
                (a * costs.storage_s, b * costs.peer_s, local_batch * costs.prepare_s)
                for a, b in batch
            ],
            together,
        )
        for batch in batches
    ]
    loaded = handed = trained = 0.0
    begun = 0.0  # training on the last batch
    for took in loads:
        loaded = handed + took
        handed = max(loaded, begun)  # one batch waits at most
        begun = max(loaded, trained)
        trained = begun + step_s
    return trained - min(loads[0], step_s)
