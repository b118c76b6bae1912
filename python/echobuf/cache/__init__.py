"""`echobuf.cache`: a cache that never evicts, for data read by index."""

from echobuf.cache.dataset import CachedDataset
from echobuf.cache.stats import CacheStats

__all__ = ["CacheStats", "CachedDataset"]
