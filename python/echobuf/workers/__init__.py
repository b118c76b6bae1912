"""Worker processes that make examples and write them straight into the ring."""
