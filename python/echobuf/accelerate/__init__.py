"""`echobuf.accelerate.EchoLoader`: tells Hugging Face Accelerate where epochs end."""

from echobuf.accelerate.loader import EchoLoader

__all__ = ["EchoLoader"]
