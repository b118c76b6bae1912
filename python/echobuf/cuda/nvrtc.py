"""NVIDIA's run-time compiler, without CuPy and without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from echobuf.errors import DeviceError


@functools.cache
def library() -> ctypes.CDLL:
    """Load the library, from the package `nvidia-cuda-nvrtc`.

    Raises:
        DeviceError: it is not installed.
    """
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        for path in sorted(Path(folder).rglob("libnvrtc.so*")):
            if "builtins" not in path.name:
                return ctypes.CDLL(str(path))
    raise DeviceError(
        "there is no libnvrtc.so to compile kernels with; "
        "pip install nvidia-cuda-nvrtc."
    )


@contextlib.contextmanager
def program(text: str, options: Sequence[str]) -> Iterator[Callable[[str], bytes]]:
    """Compile a source text; inside, a function returns the program's outputs.

    Args:
        text: the source.
        options: of the compiler, the architecture among them.

    Yields:
        A function of an output's name: "PTX", "CUBIN" of a real architecture, or
        "ProgramLog".

    Raises:
        DeviceError: the compiler is not installed, or refuses the text.
    """
    calls = library()
    program = ctypes.c_void_p()
    created = calls.nvrtcCreateProgram(
        ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None
    )
    if created:
        raise DeviceError(f"NVRTC cannot begin a program: error {created}.")
    options = (*options, "-default-device")  # as CuPy says, too
    array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))

    def read(name: str) -> bytes:
        size = ctypes.c_size_t()
        getattr(calls, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(calls, f"nvrtcGet{name}")(program, content)
        return content.raw

    try:
        if calls.nvrtcCompileProgram(program, len(options), array):
            raise DeviceError(f"NVRTC refuses a kernel: {text_of(read('ProgramLog'))}")
        yield read
    finally:
        calls.nvrtcDestroyProgram(ctypes.byref(program))


def text_of(content: bytes) -> str:
    """Return an output that is a text."""
    return content.partition(b"\0")[0].decode()


@functools.cache
def ptx_of(text: str, architecture: str, options: tuple[str, ...]) -> str:
    """Return the PTX of a source for an architecture such as "sm_90"."""
    virtual = architecture.replace("sm_", "compute_")
    with program(text, (*options, f"-arch={virtual}")) as read:
        return text_of(read("PTX"))
