"""Candidates that need no peers; the peers in `bench/peers/` are built on them."""
