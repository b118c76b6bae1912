"""Rollouts that a generator makes in the tests, in a module that its process finds."""

import itertools
import os
import time
from pathlib import Path

STUCK = 40


class Numbered:
    """Rollouts that hold their number, noted as they begin and are committed.

    One of each process takes until the end, or until it is killed.
    """

    def __init__(self, log, ending):
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.ending = ending
        self.counts = itertools.count()
        self.last = None

    def __call__(self, record):
        if self.last is not None:  # it is committed when the next one begins
            os.write(self.log, b"committed %d\n" % self.last)
        if Path(self.ending).exists():
            raise StopIteration
        self.last = os.getpid() * 1_000_000 + next(self.counts)
        os.write(self.log, b"begun %d\n" % self.last)
        for at, part in enumerate(record["payload"].reshape(10, -1)):
            part[:] = self.last
            if at == 5 and self.last % 1_000_000 == STUCK:
                os.write(self.log, b"stuck %d\n" % self.last)
                while not Path(self.ending).exists():
                    time.sleep(0.01)
        record["number"][...] = self.last
        return 3


class Dying:
    """Rollouts that are never made."""

    def __init__(self):
        os._exit(11)
