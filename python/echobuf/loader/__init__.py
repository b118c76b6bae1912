"""Loaders: echoing around an input pipeline that exists already."""

from echobuf.loader.loader import EchoLoader

__all__ = ["EchoLoader"]
