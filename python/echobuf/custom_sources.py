"""Operations of the caller's in C++, as kernels include them: `transforms.Custom`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CustomSource:
    """An operation that is a struct in a header.

    Attributes:
        header: the file.
        digest: of all headers that it is compiled from.
        literal: returns the struct with settings, which are its bytes, in C++.
    """

    header: Path
    digest: str
    literal: Callable[[bytes], str]


sources: dict[int, CustomSource] = {}
"""The operations that were compiled for the host, by the addresses of their tables."""
