"""Kinds of arguments of commands, for `argparse`."""

from __future__ import annotations

import argparse
import math

__all__ = ["positive", "whole_number"]


def whole_number(text: str) -> int:
    """A whole number from 1 on."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return value


def positive(text: str) -> float:
    """A finite number above 0, of seconds."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"must be a number of seconds > 0, not {text}")
    return value
