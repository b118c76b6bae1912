"""Candidates of the benchmarks that need a package of their own: one file a peer."""
