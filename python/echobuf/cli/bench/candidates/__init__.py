"""What is measured without any peer: echobuf, plain copies, NumPy; and what all share.

`base` and `workload` are what the peers in `bench/peers/` build on, too.
"""
