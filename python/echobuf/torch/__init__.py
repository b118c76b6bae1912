"""`echobuf.torch.EchoLoader`: batches as `torch.Tensor`s."""

from echobuf.torch.loader import EchoLoader

__all__ = ["EchoLoader"]
