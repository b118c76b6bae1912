"""The source of the kernels that carry out chains, one stage of a chain each.

Each stage becomes a struct whose operations, settings and shapes the compiler knows, so
that loops over operations unroll and numbers become constants of the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from echobuf import _core
from echobuf.cuda import kernels

if TYPE_CHECKING:
    from echobuf.transforms.custom import Custom

# In the order of OpCode in echobuf/transform/stage.hpp.
_TYPES = (
    "Crop",
    "Flip",
    "Nearest",
    "Resample",
    "Warp",
    "Normalize",
    "Scale",
    "Round",
    "Gain",
    "Noise",
    "Erase",
    "Bands",
    "Jitter",
    "Mix",
    "Mask",
)
_CUSTOM = len(_TYPES)
# IEEE arithmetic, as the host has it: no contraction of a*b+c, denormals, and division
# and square root as they are rounded.
OPTIONS = (
    "-std=c++20",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
)


@dataclass(frozen=True)
class StageSource:
    """The kernels of all stages of some chains.

    Attributes:
        text: what is compiled; empty if there is nothing to do.
        entries: of each stage of each chain, the names of the kernels that make it and
            that sum for its mean (None: it needs none).
        options: what the compiler is told.
    """

    text: str
    entries: tuple[tuple[str, str | None], ...]
    options: tuple[str, ...]


def source_of(plans: Iterable[_core.ChainPlan | None]) -> StageSource:
    """The kernels for the plans of all leaves; stages that are alike share theirs."""
    structs: dict[str, str] = {}  # name by text
    parts: list[str] = []
    entries: list[tuple[str, str | None]] = []
    customs: dict[int, Custom] = {}
    for plan in plans:
        for words, operations, summed in [] if plan is None else plan.stages:
            types = [_type_of(op, customs) for op in operations]
            body = _body(words, operations, types)
            name = structs.get(body)
            if name is None:
                name = structs[body] = f"echobuf_stage_{len(structs)}"
                parts.append(_struct(name, body, summed=summed))
            entries.append((f"{name}_make", f"{name}_sum" if summed else None))
    if not parts:
        return StageSource("", (), ())
    return StageSource(
        _head(customs) + "".join(parts), tuple(entries), _options(customs)
    )


def _type_of(
    operation: tuple[int, int, int, list[int]], customs: dict[int, Custom]
) -> str:
    code, _, table, _ = operation
    if code != _CUSTOM:
        return _TYPES[code]
    from echobuf.transforms.custom import sources

    custom = sources[table]
    customs[table] = custom
    return f"::{custom.struct}"


def _head(customs: Mapping[int, Custom]) -> str:
    """Includes, and what tells one version of them from another."""
    from echobuf.transforms import compiling

    headers = dict.fromkeys(_path(custom) for custom in customs.values())
    lines = ['#include "echobuf/transform/entry.hpp"']
    lines += [f'#include "{header}"' for header in headers]
    lines += [f"// headers: {kernels.digest()}"]
    lines += [f"// {compiling.keys[table]}" for table in customs]
    return "\n".join(lines) + "\n"


def _path(custom: Custom) -> Path:
    return Path(custom.header).resolve()


def _options(customs: Mapping[int, Custom]) -> tuple[str, ...]:
    folders = dict.fromkeys(_path(custom).parent for custom in customs.values())
    return (*OPTIONS, f"-I{kernels.INCLUDE}", *(f"-I{folder}" for folder in folders))


def _struct(name: str, body: str, *, summed: bool) -> str:
    sums = f"ECHOBUF_STAGE_SUM({name}, {name}_S)\n" if summed else ""
    return (
        f"\nnamespace {{\nstruct {name}_S {{\n"
        "  using T = echobuf::transform::StagePlan;\n"
        f"{body}}};\n}}\nECHOBUF_STAGE_MAKE({name}, {name}_S)\n{sums}"
    )


def _body(
    words: Sequence[int],
    operations: Sequence[tuple[int, int, int, list[int]]],
    types: Sequence[str],
) -> str:
    lines = [f"  static constexpr int kCount = {len(operations)};"]
    lines += [
        "  ECHOBUF_HD static constexpr T plan() {",
        *_value("    ", "T", words),
        "  }",
        "  ECHOBUF_HD static constexpr echobuf::uint32_t number(int i) {",
        "    switch (i) {",
    ]
    for i, (_, number, _, _) in enumerate(operations):
        lines.append(f"      case {i}: return {number};")
    lines += ["      default: return 0;", "    }", "  }"]
    lines += ["  template <int i> ECHOBUF_HD static constexpr auto op() {"]
    for i, ((code, _, _, settings), kind) in enumerate(
        zip(operations, types, strict=True)
    ):
        scope = "" if code == _CUSTOM else "echobuf::transform::"
        lines.append(f"    if constexpr (i == {i}) {{")
        lines += _value("      ", scope + kind, settings)
        lines.append("    }")
    lines.append("  }")
    return "\n".join(lines) + "\n"


def _value(indent: str, kind: str, words: Sequence[int]) -> list[str]:
    """Statements that return a value of the type whose bytes are told."""
    numbers = ", ".join(f"{word:#x}" for word in words or [0])
    return [
        f"{indent}constexpr echobuf::uint64_t words[] = {{{numbers}}};",
        f"{indent}return echobuf::transform::settings<{kind}>(words);",
    ]
