"""The clock of an analysis, which tests replace."""

import time

now = time.perf_counter
"""Returns the time in seconds."""
