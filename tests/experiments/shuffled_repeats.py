"""Repeat each example, then shuffle, in NumPy: as tf.data documents `shuffle`."""

import numpy as np


def shuffled_repeats(count, factor, entries, *, seed=0, held=None):
    """The draws: a full buffer, from which each draw takes an entry for the next.

    With `held`, a list: what the buffer was before each draw that refilled it.
    """
    chance = np.random.default_rng(seed)
    stream = np.repeat(np.arange(count), factor)
    buffer = stream[:entries].copy()
    picks = chance.integers(entries, size=max(0, len(stream) - entries))
    drawn = []
    for pick, entering in zip(picks, stream[entries:], strict=True):
        if held is not None:
            held.append(buffer.copy())
        drawn.append(buffer[pick])
        buffer[pick] = entering
    return np.array([*drawn, *chance.permutation(buffer)])
