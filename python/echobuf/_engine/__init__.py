"""Between the facade and the compiled buffers: one engine beneath each buffer."""
