"""`echobuf.cache.distributed`: a cache that the ranks of a job share."""

from echobuf.cache.distributed.dataset import PartitionedDataset
from echobuf.cache.distributed.sampler import LocalitySampler
from echobuf.cache.distributed.stats import PartitionedStats

__all__ = ["LocalitySampler", "PartitionedDataset", "PartitionedStats"]
