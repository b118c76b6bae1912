"""`analyze`: timings of upstream and of the training step, and the report on them."""

from echobuf.analysis.cost_model import Cluster
from echobuf.analysis.measure import analyze
from echobuf.analysis.report import Report
from echobuf.repeats import Repeats

__all__ = ["Cluster", "Repeats", "Report", "analyze"]
