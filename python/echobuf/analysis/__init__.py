"""What `analyze` measures, and what follows from it."""
