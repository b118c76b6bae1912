"""Candidates of the benchmarks: one file a peer, none imports echobuf."""
