"""Loaders on several ranks that agree on the batches of an epoch."""
