"""Windows in the memory of a CUDA device; nothing of CUDA is touched without one.

Data flows one way: `opening` finds a `device`, with CuPy or the simulated driver;
`side` keeps a window there; `arrays` and its kin are the memory that batches are drawn
into.
"""
