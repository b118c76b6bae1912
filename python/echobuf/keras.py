"""`echobuf.keras`: loaders for `model.fit` of Keras 3, on torch and JAX."""

from echobuf.trainers.keras import BackupAndRestore, EchoDataset

__all__ = ["BackupAndRestore", "EchoDataset"]
