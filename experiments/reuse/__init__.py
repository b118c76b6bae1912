"""Reuse by losses: the parts of `experiments/loss_reuse.py`."""
