"""Kernels compiled by CuPy's NVRTC, and kept on disk.

Not by `RawModule`: it always adds `-ftz=true`, so that denormal numbers would become 0,
as they do not on the host; and it wants the headers of CUDA's toolkit (CuPy 14.1).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from echobuf.cuda.device import Stages
from echobuf.cuda.stages import StageSource

_DIGEST = hashlib.sha256().digest_size


def load_functions(
    text: str, options: Sequence[str], names: Iterable[str]
) -> dict[str, Any]:
    """Load kernels into the current device, compiled now or in another process.

    Args:
        text: their source, with a digest of the headers that it includes.
        options: of the compiler.
        names: of the kernels.

    Returns:
        CuPy's function for each name; it keeps the module loaded.
    """
    import cupy

    module = cupy.cuda.function.Module()
    module.load(compiled(text, options))
    return {name: module.get_function(name) for name in dict.fromkeys(names)}


def load_stages(source: StageSource) -> Stages:
    """Load the kernels of chains into the current device."""
    names = [name for entries in source.entries for name in entries if name]
    functions = load_functions(source.text, source.options, names)
    handles = [
        (
            int(functions[make].ptr),
            0 if summing is None else int(functions[summing].ptr),
        )
        for make, summing in source.entries
    ]
    return Stages(handles, functions)


def compiled(text: str, options: Sequence[str]) -> bytes:
    """Compile a source for the current device, or find what was kept of it."""
    import cupy

    path = _folder() / f"echobuf_{_key(text, options)}.cubin"
    kept = _read(path)
    if kept is not None:
        return kept
    code, _ = cupy.cuda.compiler.compile_using_nvrtc(text, tuple(options))
    code = code if isinstance(code, bytes) else code.encode()
    _write(path, code)
    return code


def _key(text: str, options: Sequence[str]) -> str:
    import cupy

    parts = (
        text,
        *options,
        str(cupy.cuda.Device().compute_capability),
        str(cupy.cuda.nvrtc.getVersion()),
        cupy.__version__,  # adds options of its own
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _folder() -> Path:
    """Return the folder in which CuPy keeps compiled kernels."""
    folder = os.environ.get("CUPY_CACHE_DIR")
    return Path(folder) if folder else Path.home() / ".cupy" / "kernel_cache"


def _read(path: Path) -> bytes | None:
    """Return kept code, unless something happened to it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Keep code if the folder can be written; no process sees half of it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(file.name, path)
