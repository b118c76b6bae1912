"""Draws from a window on the device."""

import sys

from place import Place
from smoke import drawn, main, same


def smoke(place: Place) -> str:
    return same(drawn(place, "cuda"), drawn(place, "cpu"))


if __name__ == "__main__":
    sys.exit(main(__doc__, smoke))
