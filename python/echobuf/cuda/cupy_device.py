"""Devices opened with CuPy, and kernels that its NVRTC compiles and a cache keeps.

Kernels are not compiled by `RawModule`: it always adds `-ftz=true`, so that denormal
numbers would become 0, as they do not on the host; and it wants the headers of CUDA's
toolkit (CuPy 14.1).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echobuf import _core
from echobuf.cuda import codegen
from echobuf.cuda.codegen import StageSource
from echobuf.cuda.device import LIBRARY, LoadedStages, device_error, relaxed
from echobuf.cuda.forks import spare_in_children
from echobuf.cuda.side_by_side import side_by_side
from echobuf.errors import DeviceError
from echobuf.progress import watching

if TYPE_CHECKING:
    from echobuf.cuda.cupy_arrays import CupyArrays
    from echobuf.cuda.torch_arrays import TorchArrays
    from echobuf.spec import Spec


_INSTALL = (
    "pip install cupy-cuda13x (for drivers of CUDA 13), or cupy-cuda12x (CUDA 12); see "
    "the version that `nvidia-smi` shows."
)


def current_ordinal() -> int:
    """Return the number of the caller's current device."""
    return int(_checked_cupy("cuda").cuda.runtime.getDevice())


class CupyDevice:
    """A `Device` of the CUDA driver.

    Raises:
        DeviceError: there is no driver, no CuPy, or no such device; or they do not fit
            each other.
    """

    gone: str | None = None

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.name = f"cuda:{ordinal}"
        self.pid = os.getpid()
        self._cupy = _checked_cupy(self.name)
        count = self._cupy.cuda.runtime.getDeviceCount()
        if ordinal >= count:
            names = ", ".join(f"'cuda:{number}'" for number in range(count))
            raise DeviceError(
                f"`device` is {self.name!r}; this process sees {names}. See "
                "`nvidia-smi -L` and CUDA_VISIBLE_DEVICES."
            )
        self.core = _open(self.name, ordinal)
        self._kernels: dict[str, int] = {}
        self._compiling = threading.Lock()

    def kernels(self) -> dict[str, int]:
        """Return the handles of the kernels; the first call compiles or finds them.

        Raises:
            DeviceError: they cannot be compiled.
        """
        with self._compiling:
            if not self._kernels:
                with self._current():
                    self._kernels = self._compile()
        return self._kernels

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Make it the device of this thread, which may load modules in a capture."""
        with self._cupy.cuda.Device(self.ordinal), relaxed(self.core):
            yield

    def _compile(self) -> dict[str, int]:
        text, options = codegen.draw_source(), codegen.draw_options()
        try:
            functions = load_functions(text, options, codegen.DRAW_KERNELS)
        except self._compile_errors() as error:
            raise self._cannot_compile(error) from error
        self._functions = functions  # they keep the module loaded
        return {name: int(function.ptr) for name, function in functions.items()}

    def _compile_errors(self) -> tuple[type[Exception], ...]:
        return (
            self._cupy.cuda.compiler.CompileException,
            self._cupy.cuda.driver.CUDADriverError,
            RuntimeError,  # what CuPy raises where NVRTC is not to be found
            OSError,
        )

    def _cannot_compile(self, error: Exception) -> DeviceError:
        return DeviceError(
            f"`device` is {self.name!r}, but CuPy {self._cupy.__version__} cannot "
            f"compile the kernels for it: {error}. If NVRTC is what is missing: "
            "pip install nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for CUDA 12)."
        )

    def stages(self, source: StageSource) -> LoadedStages:
        """Return the kernels of chains; compiled, or found in a cache.

        Raises:
            DeviceError: they cannot be compiled.
        """
        if not source.entries:
            return LoadedStages([])
        with self._compiling, self._current():
            try:
                return load_stages(source, self._current)
            except self._compile_errors() as error:
                raise self._cannot_compile(error) from error

    def add(self, buffer: _core.DeviceBuffer) -> None:
        """Do nothing: the native buffer itself keeps the device alive."""

    def arrays(self, spec: Spec, lead: tuple[int, ...]) -> CupyArrays:
        """Return CuPy arrays, from the caller's memory pool."""
        from echobuf.cuda.cupy_arrays import CupyArrays

        return CupyArrays(self.core, self.ordinal, spec, lead)

    def tensors(
        self, spec: Spec, lead: tuple[int, ...], dtypes: list[Any]
    ) -> TorchArrays:
        """Return tensors, from torch's caching allocator."""
        from echobuf.cuda.torch_arrays import TorchArrays

        return TorchArrays(self.core, self.ordinal, spec, lead, dtypes)


def _open(name: str, ordinal: int) -> _core.Device:
    try:
        return _core.Device(LIBRARY, ordinal)
    except _core.CudaError as error:
        raise device_error(name, error) from None


def _checked_cupy(name: str) -> Any:
    """Return the module `cupy`.

    Raises:
        DeviceError: CuPy or the driver is missing, or they do not fit each other.
    """
    try:
        _core.load_driver(LIBRARY)
    except _core.CudaError as error:
        raise device_error(name, error) from None
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"`device` is {name!r}, which needs CuPy, but it cannot be imported: "
            f"{error}. {_INSTALL}"
        ) from error
    if not hasattr(cupy.cuda.Stream, "from_external"):
        raise DeviceError(
            f"`device` is {name!r}, which needs CuPy 14 or newer; CuPy "
            f"{cupy.__version__} is installed. {_INSTALL}"
        )
    runtime = cupy.cuda.runtime
    if runtime.is_hip:
        raise DeviceError(
            f"`device` is {name!r}, but the installed CuPy is for AMD devices. pip "
            f"uninstall it, and {_INSTALL}"
        )
    has, wants = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if has // 1000 < wants // 1000:
        raise DeviceError(
            f"`device` is {name!r}, but the installed CuPy is for CUDA "
            f"{_show(wants)}, and the driver supports CUDA {_show(has)}. Update the "
            f"driver, or pip uninstall this CuPy and {_INSTALL}"
        )
    try:
        runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"`device` is {name!r}, but CuPy cannot use the driver: {error}. Update "
            f"the driver, or pip uninstall this CuPy and {_INSTALL}"
        ) from error
    return cupy


def _show(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


_DIGEST = hashlib.sha256().digest_size


class Functions(dict[str, Any]):
    """CuPy's functions by name; a dict that can be referred to weakly."""


def load_functions(
    text: str, options: Sequence[str], names: Iterable[str]
) -> Functions:
    """Load kernels into the current device, compiled now or in another process.

    Args:
        text: their source, with a digest of the headers that it includes.
        options: of the compiler.
        names: of the kernels.

    Returns:
        CuPy's function for each name; it keeps the module loaded.
    """
    (code,) = compiled([text], options)
    module = _module(code)
    return spare_in_children(
        Functions((name, module.get_function(name)) for name in dict.fromkeys(names))
    )


def load_stages(
    source: StageSource, current: Callable[[], AbstractContextManager[None]]
) -> LoadedStages:
    """Load the kernels of chains into the current device.

    Args:
        source: of them.
        current: makes the device that of another thread, for a block.
    """
    codes = compiled(source.programs, source.options, current)
    modules = [_module(code) for code in codes]
    functions = spare_in_children(Functions())
    handles = []
    for place, (make, summing) in zip(source.places, source.entries, strict=True):
        for name, alone in ((make, codegen.STAGE_MAKE), (summing, codegen.STAGE_SUM)):
            if name is not None and name not in functions:
                functions[name] = modules[place].get_function(alone)
        handles.append(
            (
                int(functions[make].ptr),
                0 if summing is None else int(functions[summing].ptr),
            )
        )
    return LoadedStages(handles, functions)


def _module(code: bytes) -> Any:
    import cupy

    module = cupy.cuda.function.Module()
    module.load(code)
    return module


def compiled(
    texts: Sequence[str],
    options: Sequence[str],
    current: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> list[bytes]:
    """Compile sources for the current device, or find what was kept of them.

    Args:
        texts: all different; they are compiled side by side.
        options: of the compiler.
        current: makes the device that of another thread, for a block.
    """
    import cupy

    folder = _folder()
    paths = {text: folder / f"echobuf_{_key(text, options)}.cubin" for text in texts}
    codes = {text: _read(path) for text, path in paths.items()}
    missing = [text for text, code in codes.items() if code is None]

    def compile_one(text: str) -> bytes:
        with current():  # CuPy asks the device of this thread for its architecture
            code, _ = cupy.cuda.compiler.compile_using_nvrtc(text, tuple(options))
        code = code if isinstance(code, bytes) else code.encode()
        _write(paths[text], code)
        return bytes(code)

    if missing:
        with watching("kernels", lambda: f"CUDA kernels to compile, once for {folder}"):
            codes.update(zip(missing, side_by_side(compile_one, missing), strict=True))
    return [code for code in codes.values() if code is not None]


def _key(text: str, options: Sequence[str]) -> str:
    import cupy

    parts = (
        text,
        *options,
        str(cupy.cuda.Device().compute_capability),
        str(cupy.cuda.nvrtc.getVersion()),
        cupy.__version__,  # adds options to these
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
