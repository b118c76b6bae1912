"""Infos of examples that enter as they arrive go on over several resumes."""

from collections import Counter

import echobuf
from arrival_data import Tailed, reload
from worker_data import KWARGS

N = 60


def infos_over_resumes():
    """The index of each example, in an epoch of several numbers of workers."""
    uses, index_of, state = Counter(), {}, None
    for workers in (2, 1, 3):
        loader = echobuf.EchoLoader(
            Tailed(N), num_workers=workers, in_order=False, with_info=True, **KWARGS
        )
        if state is not None:
            loader.load_state_dict(state)
        for step, (batch, info) in enumerate(loader, 1):
            columns = (batch["id"], info.index, info.echo)
            for number, index, echo in zip(*map(list, columns), strict=True):
                # By order of arrival: a resumed epoch keeps what it has numbered.
                assert index_of.setdefault(number, index) == index
                assert echo == uses[number]
                uses[number] += 1
            if step == 7 and workers != 3:
                state = reload(loader.state_dict())
                break
    assert uses == dict.fromkeys(range(N), 2)
    assert sorted(index_of.values()) == list(range(N))
    return index_of


def test_infos_of_arrivals_go_on_over_resumes_with_other_numbers_of_workers():
    # On a busy machine the second worker may start when the first has made all items.
    for _ in range(5):
        if any(number != index for number, index in infos_over_resumes().items()):
            return
    raise AssertionError("examples always came in the sampler's order")
