"""Loaders of several ranks that agree on the batches of an epoch."""
