"""Candidates that need no peers: echobuf, plain copies, NumPy.

The peers in `bench/peers/` are built on `base`, too.
"""
