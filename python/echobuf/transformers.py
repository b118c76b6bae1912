"""`echobuf.transformers`: echoing in Hugging Face's `Trainer`."""

from echobuf.trainers.transformers import EchoTrainer, EchoTrainerMixin

__all__ = ["EchoTrainer", "EchoTrainerMixin"]
