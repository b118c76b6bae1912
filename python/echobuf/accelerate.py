"""`echobuf.accelerate.EchoLoader`: tells Hugging Face Accelerate where epochs end."""

from echobuf.trainers.accelerate import EchoLoader

__all__ = ["EchoLoader"]
