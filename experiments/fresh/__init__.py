"""Fresh examples to a target: the parts of `experiments/fresh_examples.py`."""
