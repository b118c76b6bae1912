"""A line says that kernels are compiled, if that takes long."""

import echobuf
from progress_lines import progress_lines


def test_kernels_that_are_compiled(cupy, monkeypatch):
    compile_at_once = cupy.cuda.compiler.compile_using_nvrtc
    with progress_lines() as lines:

        def compile_late(text, options):
            lines.wait()
            return compile_at_once(text, options)

        monkeypatch.setattr(cupy.cuda.compiler, "compile_using_nvrtc", compile_late)
        echobuf.warmup("cuda")
        (line,) = lines.texts
        assert "CUDA kernels to compile, once for " in line
        lines.texts.clear()
        echobuf.warmup("cuda")
        assert not lines.texts
