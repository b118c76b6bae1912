"""Policies that learn from rollouts in a window: how, from what, and what comes out."""
