"""Kinds of arguments of commands, for `argparse`."""

from __future__ import annotations

import argparse
import math
import re

from echobuf import describe_error

__all__ = ["in_options", "positive", "rate", "share", "whole_number"]

_ARGUMENT = re.compile(r"`(\w+)=?`")


def in_options(error: Exception, options: dict[str, str]) -> str:
    """Return the message of `error` with options of the command for arguments.

    An error with a cause quotes what the user's own code raised, which names arguments
    of its own: these stay.

    Args:
        error: of a Python call, whose message names arguments in backticks.
        options: what the command calls each argument.
    """
    said = describe_error.message(error)
    if error.__cause__ is not None:
        return said
    return _ARGUMENT.sub(lambda found: options.get(found[1], found[0]), said)


def whole_number(text: str) -> int:
    """A whole number from 1 on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return value


def rate(text: str) -> float:
    """A finite number above 0, of examples a second."""
    value = _number(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(
            f"must be a number > 0, of examples a second, not {text}"
        )
    return value


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = _number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not {text}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None


def positive(text: str) -> float:
    """A finite number above 0, of seconds."""
    value = _number(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a number of seconds > 0, not {text}")
    return value
