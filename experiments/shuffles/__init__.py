"""Passes against a shuffle buffer: the parts of `experiments/pass_or_shuffle.py`."""
