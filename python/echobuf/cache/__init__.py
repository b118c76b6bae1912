"""`echobuf.cache`: a cache that never evicts, for data read by index."""

from echobuf.cache.dataset import CachedDataset, CacheStats

__all__ = ["CacheStats", "CachedDataset"]
