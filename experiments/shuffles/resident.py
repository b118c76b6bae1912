"""Memory of tf.data's shuffle buffer of repeated examples: `python resident.py E N`.

Whether repeats of an example share its memory: records of one MiB, made by TensorFlow.
Prints the MiB that the process has grown by, at most, once the buffer was full.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["grown_mib"]

MIB = 1 << 20


def grown_mib(factor: int, entries: int) -> float:
    """Return the growth in MiB, measured in a separate process."""
    command = [sys.executable, __file__, str(factor), str(entries)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / MIB


def _grown(factor: int, entries: int) -> float:
    import tensorflow as tf

    dataset = tf.data.Dataset

    def record(number):
        return tf.fill([MIB], tf.cast(number, tf.uint8))

    def repeat(example):
        return dataset.from_tensors(example).repeat(factor)

    source = dataset.range(4 * entries).map(record).flat_map(repeat)
    before, most = _resident_mib(), 0.0
    for draw, _ in enumerate(source.shuffle(entries, seed=0).take(4 * entries)):
        if draw > 2 * entries:
            most = max(most, _resident_mib())
    return most - before


if __name__ == "__main__":
    print(_grown(int(sys.argv[1]), int(sys.argv[2])))
