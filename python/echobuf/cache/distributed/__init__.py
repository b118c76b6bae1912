"""`echobuf.cache.distributed`: a cache that the ranks of a job share."""

from echobuf.cache.distributed.dataset import PartitionedDataset, PartitionedStats
from echobuf.cache.distributed.sampler import LocalitySampler

__all__ = ["LocalitySampler", "PartitionedDataset", "PartitionedStats"]
