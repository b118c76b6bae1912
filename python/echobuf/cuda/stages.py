"""The source of the kernels that carry out chains, one stage of a chain each.

Each stage becomes a struct whose operations, settings and shapes the compiler knows, so
that loops over operations unroll and numbers become constants of the code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echobuf import _core
from echobuf.cuda import kernels

if TYPE_CHECKING:
    from echobuf.transforms.custom import Custom

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
    names: dict[str, str] = {}  # of structs, by what they say
    parts: list[str] = []
    entries: list[tuple[str, str | None]] = []
    customs: dict[int, Custom] = {}
    for plan in plans:
        for settings, operations, summed in [] if plan is None else plan.stages:
            body = _body(settings, [_told(*op, customs) for op in operations])
            name = names.get(body)
            if name is None:
                name = names[body] = f"echobuf_stage_{len(names)}"
                parts.append(_struct(name, body, summed=summed))
            entries.append((f"{name}_make", f"{name}_sum" if summed else None))
    if not parts:
        return StageSource("", (), ())
    text = _head(customs) + "".join(parts)
    return StageSource(text, tuple(entries), _options(customs))


def _told(
    kind: str | None, number: int, settings: Any, customs: dict[int, Custom]
) -> tuple[str, int]:
    """The value of an operation in C++, and the number that chance knows it by."""
    if kind is not None:
        return f"echobuf::transform::{kind}{settings}", number
    from echobuf.transforms.custom import sources

    table, content = settings
    custom = customs[table] = sources[table]
    return f"::{custom.struct}{{{custom.told(content)}}}", number


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
        f"\nnamespace {{\nstruct {name}_S {{\n{body}}};\n}}\n"
        f"ECHOBUF_STAGE_MAKE({name}, {name}_S)\n{sums}"
    )


def _body(plan: str, operations: Sequence[tuple[str, int]]) -> str:
    lines = [
        f"static constexpr int kCount = {len(operations)};",
        "ECHOBUF_HD static constexpr echobuf::transform::StagePlan plan() {",
        f"  return {plan};",
        "}",
        "ECHOBUF_HD static constexpr echobuf::uint32_t number(int i) {",
        *(f"  if (i == {i}) return {n};" for i, (_, n) in enumerate(operations)),
        "  return 0;",
        "}",
        "template <int i>",
        "ECHOBUF_HD static constexpr auto op() {",
        *(
            f"  if constexpr (i == {i}) return {value};"
            for i, (value, _) in enumerate(operations)
        ),
        "}",
    ]
    return "".join(f"  {line}\n" for line in lines)
