"""Loaders for trainers of others; each imports its framework, and nothing here does."""
