"""`factor="auto"` on trial: see ../auto_on_trial.py."""
