"""`Sink`: where metrics go, and what they are called."""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from echobuf.errors import MissingPackageError
from echobuf.stats import Stats


@runtime_checkable
class Sink(Protocol):
    """Anything with this one method."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Takes what is known after `step` steps.

        Args:
            step: how many steps have been done.
            metrics: finite numbers by name, such as `echobuf/t_upstream_s`; what is
                not known yet is left out.
        """


def metrics_of(stats: Stats, prefix: str = "echobuf") -> dict[str, float]:
    """The fields of `stats` that are known, named `prefix/field`."""
    return {
        f"{prefix}/{field.name}": value
        for field in dataclasses.fields(stats)
        if math.isfinite(value := float(getattr(stats, field.name)))
    }


def require(module: str, package: str, what: str) -> Any:
    """A module of a package that echobuf does without.

    Args:
        module: its name.
        package: what pip calls it.
        what: what needs it.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{what} needs the package `{package}`, and {error}: pip install {package} "
            "(or 'data-echoing[metrics]')."
        ) from error
