"""`echobuf.jax.EchoLoader`: batches as `jax.Array`s."""

from echobuf.jax.loader import EchoLoader

__all__ = ["EchoLoader"]
