"""Candidates for the tests of the benchmark harness; standard library alone."""

import os
import time


class Adds:
    packages = ("pip", "pytest", "_pytest", "no-such-package")
    guarantees = (("exact use", "yes"),)

    def __init__(self, settings):
        self.numbers = range(settings["count"])
        self.begun = 0

    def warm_up(self):
        print("noise on standard output")

    def begin(self):
        self.begun += 1

    def run(self):
        assert self.begun > 0
        return sum(1 for _ in self.numbers)


class NotInstalled:
    def __init__(self, settings):
        import no_such_peer  # noqa: F401


class Refuses(Adds):
    def warm_up(self):
        raise ValueError("only 3 of 4 uses")


class Crashes(Adds):
    def run(self):
        os.abort()


class Hangs(Adds):
    def run(self):
        time.sleep(600)
