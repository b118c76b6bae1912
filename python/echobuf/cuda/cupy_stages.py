"""Kernels of chains compiled by CuPy's NVRTC, and kept on disk.

Not by `RawModule`, which always adds `-ftz=true`: denormal numbers would become 0, as
they do not on the host.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from echobuf.cuda.device import Stages
from echobuf.cuda.stages import StageSource

_DIGEST = hashlib.sha256().digest_size


def load(source: StageSource) -> Stages:
    """Loads the kernels into the current device, compiled now or in another process."""
    import cupy

    module = cupy.cuda.function.Module()
    module.load(_compiled(source))
    functions: dict[str, Any] = {}
    for entries in source.entries:
        for name in entries:
            if name is not None and name not in functions:
                functions[name] = module.get_function(name)
    handles = [
        (
            int(functions[make].ptr),
            0 if summing is None else int(functions[summing].ptr),
        )
        for make, summing in source.entries
    ]
    return Stages(handles, (module, functions))


def _compiled(source: StageSource) -> bytes:
    import cupy

    path = _folder() / f"echobuf_{_key(source)}.cubin"
    kept = _read(path)
    if kept is not None:
        return kept
    code, _ = cupy.cuda.compiler.compile_using_nvrtc(source.text, source.options)
    code = code if isinstance(code, bytes) else code.encode()
    _write(path, code)
    return code


def _key(source: StageSource) -> str:
    import cupy

    parts = (
        source.text,  # with a digest of the headers
        *source.options,
        str(cupy.cuda.Device().compute_capability),
        str(cupy.cuda.nvrtc.getVersion()),
        cupy.__version__,  # adds options of its own
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _folder() -> Path:
    """Where CuPy keeps what it has compiled."""
    folder = os.environ.get("CUPY_CACHE_DIR")
    return Path(folder) if folder else Path.home() / ".cupy" / "kernel_cache"


def _read(path: Path) -> bytes | None:
    """What was kept, unless something happened to it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Keeps it where that is possible; other processes never see half of it."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(file.name, path)
