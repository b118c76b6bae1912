"""Echoes times batch size on logistic regression: the parts of `laggard.py`."""
