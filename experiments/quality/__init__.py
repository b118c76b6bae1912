"""Final quality at a fixed budget: the parts of `experiments/final_quality.py`."""
