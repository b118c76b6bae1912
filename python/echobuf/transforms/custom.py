"""`Custom` and `Lambda`: operations of the caller's, in C++ and in Python."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from echobuf._installed import get_include
from echobuf.errors import OptionError, message, shorten
from echobuf.field import Field
from echobuf.output_spec import BatchFunction, CustomSource, sources
from echobuf.progress import watching
from echobuf.transforms.chain import Chain
from echobuf.transforms.operation import Operation

__all__ = ["Custom", "Lambda"]

_FLAGS = (
    *("-std=c++20", "-O3", "-fPIC", "-shared"),
    *("-ffp-contract=off", "-fno-math-errno"),
)
_VERSION = 1  # of `CustomTable`
_loaded: dict[str, ctypes.CDLL] = {}  # never unloaded: buffers hold their addresses
_loading = threading.Lock()


class _Table(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("settings_bytes", ctypes.c_uint32))


def load(source: str, include: Sequence[Path], what: str) -> tuple[int, int, str]:
    """Return the address of a source's table, its settings' bytes, and a digest of it.

    Args:
        source: C++, with `ECHOBUF_OPERATION` in it.
        include: folders of headers, besides echobuf's.
        what: for messages.
    """
    folders = [*include, Path(get_include())]
    flags = [*_FLAGS, *(f"-I{folder}" for folder in folders)]
    with _loading:
        compiler = _compiler(what)
        library, key = _loaded_for(source, [*compiler, *flags], what)
    operation = library.echobuf_operation
    operation.restype = ctypes.POINTER(_Table)
    table = operation()
    if table.contents.version != _VERSION:
        raise OptionError(f"{what} was compiled for another version of echobuf.")
    address = ctypes.cast(table, ctypes.c_void_p).value
    assert address is not None
    return address, table.contents.settings_bytes, key


def _loaded_for(source: str, command: list[str], what: str) -> tuple[ctypes.CDLL, str]:
    # The preprocessor's output holds the text of all headers.
    whole = _run([*command, "-E", "-P", "-x", "c++", "-"], source, what)
    key = hashlib.sha256("\0".join([*command, whole]).encode()).hexdigest()
    if key not in _loaded:
        path = _cache() / f"{key}.so"
        if not path.exists():
            _compile(source, command, path, what)
        _loaded[key] = ctypes.CDLL(str(path))
    return _loaded[key], key


def _compile(source: str, command: list[str], path: Path, what: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may compile the same: each into a separate file.
        handle, part = tempfile.mkstemp(suffix=".so", dir=path.parent)
    except OSError as error:
        raise OptionError(
            f"{what} is compiled into {path.parent}, which cannot be written to: "
            f"{error}. Set XDG_CACHE_HOME to a folder that can."
        ) from error
    os.close(handle)
    try:
        _run([*command, "-x", "c++", "-", "-o", part], source, what)
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def _run(command: list[str], source: str, what: str) -> str:
    try:
        with watching("compiler", lambda: f"{command[0]} to compile {what}"):
            done = subprocess.run(
                command, input=source, capture_output=True, text=True, check=False
            )
    except OSError as error:
        raise OptionError(
            f"{what} cannot be compiled: {command[0]!r} does not run: {error}."
        ) from error
    if done.returncode:
        raise OptionError(
            f"{what} cannot be compiled: `{shlex.join(command)}` says\n{done.stderr}"
        )
    return done.stdout


def _compiler(what: str) -> list[str]:
    chosen = os.environ.get("CXX")
    if chosen:
        return shlex.split(chosen)
    for name in ("c++", "g++", "clang++"):
        if found := shutil.which(name):
            return [found]
    raise OptionError(
        f"{what} must be compiled, and there is no C++ compiler: install g++ or "
        "clang++, or name one in the environment variable CXX."
    )


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "echobuf"


_NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)*")
_TYPES = {
    "bool": "bool",
    "int32": "std::int32_t",
    "uint32": "std::uint32_t",
    "int64": "std::int64_t",
    "uint64": "std::uint64_t",
    "float32": "float",
    "float64": "double",
}


@dataclass(frozen=True, eq=False)
class Custom(Operation):
    """An operation that is a C++ struct in the caller's header.

    It is compiled for the CPU by the machine's C++ compiler when the buffer is made,
    and kept in `$XDG_CACHE_HOME/echobuf` (`~/.cache/echobuf`); for a GPU by NVRTC, into
    the kernel. docs/transforms.md describes the members of the struct. It takes uint8
    and floats; its results for uint8 are rounded to whole numbers from 0 to 255.

    Args:
        header: the file.
        struct: the name of the struct, with its namespace.
        settings: its members, all and in their order: floats are `float`, ints
            `std::int32_t`, NumPy scalars of their type, lists arrays.

    Raises:
        OptionError: there is no compiler, it refuses the header, or the settings are
            not the members.

    Examples:
        >>> from pathlib import Path
        >>> header = Path("fade.hpp")
        >>> code = '''
        ... #include "echobuf/transform/image.hpp"
        ... #include "echobuf/transform/words.hpp"
        ... namespace et = echobuf::transform;
        ... struct Fade {
        ...   float by;
        ...   struct Draw {};  // no random choices
        ...   ECHOBUF_HD Draw draw(et::Words, const et::Extent&) const { return {}; }
        ...   ECHOBUF_HD float element(
        ...       const Draw&, float v, int, const et::Place&) const {
        ...     return by * v;
        ...   }
        ... };
        ... '''
        >>> header.write_text(code) == len(code)
        True
        >>> fade = T.Custom(header, "Fade", {"by": 0.5})
        >>> loader = EchoLoader(
        ...     [np.ones(3, np.float32)], batch_size=1, transform=[fade]
        ... )
        >>> next(iter(loader))[0]
        array([0.5, 0.5, 0.5], dtype=float32)
    """

    header: str | os.PathLike[str]
    struct: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            is_file = Path(self.header).is_file()
        except (TypeError, ValueError, OSError):
            is_file = False
        if not is_file:
            raise self.refusal("header", self.header, "a file that is there")
        if not isinstance(self.struct, str) or not _NAME.fullmatch(self.struct):
            raise self.refusal("struct", self.struct, "the name of a struct in C++")
        if not isinstance(self.settings, Mapping):
            raise self.refusal("settings", self.settings, "a mapping from its members")
        self._members()

    def __repr__(self) -> str:  # the same wherever the header lies
        name = Path(self.header).name
        return f"Custom({name!r}, {self.struct!r}, {dict(self.settings)!r})"

    def _members(self) -> list[tuple[str, np.ndarray[Any, Any]]]:
        return [(name, self._member(name, x)) for name, x in self.settings.items()]

    def _member(self, name: Any, value: Any) -> np.ndarray[Any, Any]:
        if not isinstance(name, str) or not name.isidentifier():
            raise self.refusal("settings", name, "names of members")
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise self.refusal(
                f"settings[{name!r}]", value, f"numbers: {error}"
            ) from None
        plain = not isinstance(value, np.generic | np.ndarray)
        if plain and array.dtype == np.int64:
            array = array.astype(np.int32) if _fits(array) else array
        if plain and array.dtype == np.float64:
            array = array.astype(np.float32)
        if array.dtype.name not in _TYPES or array.ndim > 1:
            raise self.refusal(
                f"settings[{name!r}]", value, "a number or a list of them"
            )
        return array

    def source(self) -> str:
        """Return the C++ source of its library, which refuses settings of no member."""
        lines = [
            "#include <cstddef>",
            "#include <type_traits>",
            f'#include "{Path(self.header).resolve()}"',
            '#include "echobuf/transform/custom.hpp"',
        ]
        dtype = self._dtype()
        assert dtype.fields is not None or not self.settings
        for name, value in self._members():
            offset = dtype.fields[name][1] if dtype.fields else 0
            kind = _TYPES[value.dtype.name]
            array = f"[{value.size}]" if value.ndim else ""
            lines += [
                f"static_assert(std::is_same_v<decltype({self.struct}::{name}), "
                f'{kind}{array}>, "settings: {name} is {kind}{array}");',
                f"static_assert(offsetof({self.struct}, {name}) == {offset}, "
                f'"settings: {name} comes at byte {offset}");',
            ]
        lines.append(f"ECHOBUF_OPERATION({self.struct})")
        return "\n".join(lines) + "\n"

    def _dtype(self) -> np.dtype[Any]:
        members = [(name, x.dtype, x.shape) for name, x in self._members()]
        return np.dtype(members, align=True)

    def packed(self) -> bytes:
        """Return the settings as the struct has them."""
        record = np.zeros((), self._dtype())
        for name, value in self._members():
            record[name] = value
        return record.tobytes()

    def told(self, packed: bytes) -> str:
        """Return packed settings as the members of a C++ initializer."""
        record = np.frombuffer(packed, self._dtype(), count=1)[0]
        return ", ".join(_literal(record[name]) for name, _ in self._members())

    def _in_cpp(self, packed: bytes) -> str:
        return f"::{self.struct}{{{self.told(packed)}}}"

    def add_to(self, chain: Chain) -> None:
        chain.computes()
        if len(chain.shape) in (3, 4) and chain.is_image():
            chain.image()
        what = f"{self.struct} of {os.fspath(self.header)}"
        header = Path(self.header).resolve()
        table, size, digest = load(self.source(), [header.parent], what)
        sources[table] = CustomSource(header, digest, self._in_cpp)
        packed = self.packed()
        empty = not self.settings and size == 1  # a struct without members has a byte
        if len(packed) != size and not empty:
            raise OptionError(
                f"`settings` of {self!r} are {len(packed)} bytes; the struct has "
                f"{size}: name all of its members."
            )
        settings = {
            "table": table,
            "settings": packed or b"\0",
        }
        chain.change("custom", settings, placed=True)
        chain.limit()


def _fits(array: np.ndarray[Any, Any]) -> bool:
    bounds = np.iinfo(np.int32)
    return bool(np.all((array >= bounds.min) & (array <= bounds.max)))


def _literal(value: Any) -> str:
    """Return a number, or an array of them, in C++; every bit of it."""
    if isinstance(value, np.ndarray):
        return "{" + ", ".join(map(_literal, value)) + "}"
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.integer):
        least = np.iinfo(value.dtype).min
        if value == least and least < 0:
            return f"({least + 1}ll - 1)"
        return f"{value}{'ll' if least else 'ull'}"
    suffix = "f" if value.dtype == np.float32 else ""
    if np.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if np.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_huge_val{suffix}()"
    return f"{float(value).hex()}{suffix}"


# ---- in Python


@dataclass(frozen=True, eq=False)
class Lambda(Operation):
    """A Python function, applied to a leaf of each batch after the rest of the chain.

    It runs on the thread that asks for the batch, in Python: all other operations are
    cheaper. All operations after it must be `Lambda`s, too.

    Args:
        function: takes the leaf of a batch, `[batch_size, *shape]` (fewer rows in the
            last batch), as the caller gets it: an array of NumPy or CuPy, or a tensor
            of torch; returns one of as many rows. For a ragged leaf it takes the
            `Ragged`, `Padded` or `Packed`, and returns such a one of as many examples,
            or an array of fixed shape, as `shape` says. It must draw no random numbers
            of another generator, or a resumed run differs.
        shape: of one example of the result, if the function changes it; None as axis 0
            for a ragged one.
        dtype: of the result, if the function changes it.

    Examples:
        >>> image = np.full((2, 2, 3), 5, np.uint8)
        >>> mean = T.Lambda(
        ...     lambda images: images.mean((1, 2)), shape=3, dtype=np.float64
        ... )
        >>> next(iter(EchoLoader([image], batch_size=1, transform=[mean])))
        array([[5., 5., 5.]])
    """

    function: Callable[[Any], Any]
    shape: Any = None
    dtype: Any = None
    on_batches = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise self.refusal("function", self.function, "a function")
        try:
            shape = () if self.shape is None else self.shape
            Field(shape, np.uint8 if self.dtype is None else self.dtype)
        except Exception as error:  # of any type that is no shape and no dtype
            said = f"those of an array: {shorten(message(error))}"
            raise self.refusal(
                "shape and dtype", (self.shape, self.dtype), said
            ) from None

    def __repr__(self) -> str:
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        return f"Lambda({name})"

    def add_to(self, chain: Chain) -> None:
        shape = chain.shape if self.shape is None else self.shape
        field = Field(shape, chain.dtype if self.dtype is None else self.dtype)
        name = f"transform{chain.name}"
        chain.then(BatchFunction(self.function, repr(self), name, field), field)
