"""Windows in the memory of a CUDA device; without one, nothing of CUDA is imported.

`device` opens a device, with CuPy (`cupy_device`) or the simulated driver
(`simulated`). `backend` keeps a window there. `arrays` and `*_arrays` are the memory
that batches are drawn into; the caller's are checked there, too; `rows_arrays` knows
which of them a batch with rows has. `codegen` writes the kernels that `cupy_device` or
`nvrtc` compiles. `simulation` switches the simulated driver on.
"""
