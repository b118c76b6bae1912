"""`echobuf.cache`: a cache that never evicts, for data read by index."""

from echobuf.cache.dataset import CachedDataset, CacheStats
from echobuf.cache.renewal import Renewal, get_renewal

__all__ = ["CacheStats", "CachedDataset", "Renewal", "get_renewal"]
