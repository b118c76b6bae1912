"""Sources of CUDA kernels: those of the package, and those generated for chains.

Each stage of a chain becomes a struct. The compiler knows its operations, settings and
shapes, so that loops over operations unroll and numbers become constants.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echobuf import _core
from echobuf.output_spec import CustomSource, sources

DRAW_KERNELS = (
    "echobuf_draw",
    "echobuf_draw_planned",
    "echobuf_draw_partners",
    "echobuf_plan",
    "echobuf_draw_rows",
    "echobuf_place_rows",
    "echobuf_scatter",
)
# No fused multiply-add: the host build, which has none, must agree bit for bit.
DRAW_OPTIONS = ("-std=c++20", "--fmad=false")
_PACKAGE = Path(__file__).parent.parent
INCLUDE = _PACKAGE / "include"


def draw_source() -> str:
    """Return the source of the package's kernels, with a digest of their headers.

    The cache of compiled kernels is keyed by the source and the options, not by the
    headers that the source includes.
    """
    entries = [path.read_text() for path in sorted((_PACKAGE / "kernels").glob("*.cu"))]
    return "\n".join([*entries, f"// headers: {headers_digest()}\n"])


@functools.cache
def headers_digest() -> str:
    """Return a digest of the headers of the package."""
    found = hashlib.sha256()
    for header in sorted((INCLUDE / "echobuf").rglob("*.hpp")):
        found.update(header.read_bytes())
    return found.hexdigest()


def draw_options() -> tuple[str, ...]:
    """Return the compiler's options for the package's kernels."""
    return (*DRAW_OPTIONS, f"-I{INCLUDE}")


# IEEE arithmetic, as the host has it: no contraction of a*b+c, denormals, and division
# and square root as they are rounded.
STAGE_OPTIONS = (
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
        text: the source; empty if no leaf has a stage.
        entries: of each stage of each chain, the names of the kernel that makes it and
            of the one that sums for its mean (None: it needs none).
        options: of the compiler.
        programs: the same kernels as sources that are compiled apart, one for each
            different stage, all under the names STAGE_MAKE and STAGE_SUM: so equal
            stages of several chains have one source.
        places: of each stage of each chain, its program.
    """

    text: str
    entries: tuple[tuple[str, str | None], ...]
    options: tuple[str, ...]
    programs: tuple[str, ...] = ()
    places: tuple[int, ...] = ()


_ALONE = "echobuf_stage"
STAGE_MAKE, STAGE_SUM = f"{_ALONE}_make", f"{_ALONE}_sum"


def stage_source(
    plans: Iterable[_core.ChainPlan | _core.RowsPlan | None], *, listed: bool = False
) -> StageSource:
    """Return the kernels for the plans of all leaves; equal stages share a kernel.

    Args:
        plans: of the leaves; None where there is none.
        listed: a table says where examples are, since they differ in length.
    """
    places: dict[str, int] = {}  # of programs, by the bodies of their structs
    parts: list[str] = []
    programs: list[str] = []
    entries: list[tuple[str, str | None]] = []
    order: list[int] = []
    customs: dict[int, CustomSource] = {}
    for plan in plans:
        for settings, operations, summed, gated in [] if plan is None else plan.stages:
            own: dict[int, CustomSource] = {}
            literals = [_literal(*op, own) for op in operations]
            body = _body(settings, literals, gated=gated, listed=listed)
            place = places.setdefault(body, len(parts))
            name = f"echobuf_stage_{place}"
            if place == len(parts):
                parts.append(_struct(name, body, summed=summed))
                programs.append(_head(own) + _struct(_ALONE, body, summed=summed))
                customs |= own
            entries.append((f"{name}_make", f"{name}_sum" if summed else None))
            order.append(place)
    if not parts:
        return StageSource("", (), ())
    return StageSource(
        _head(customs) + "".join(parts),
        tuple(entries),
        _stage_options(customs),
        tuple(programs),
        tuple(order),
    )


def _literal(
    kind: str | None, number: int, settings: Any, customs: dict[int, CustomSource]
) -> tuple[str, int]:
    """Return an operation as a C++ literal, and its number in random draws."""
    if kind is not None:
        return f"echobuf::transform::{kind}{settings}", number
    table, content = settings
    customs[table] = sources[table]
    return sources[table].literal(content), number


def _head(customs: Mapping[int, CustomSource]) -> str:
    """Return the includes, with digests of the headers as comments."""
    headers = dict.fromkeys(custom.header for custom in customs.values())
    lines = ['#include "echobuf/transform/entry.hpp"']
    lines += [f'#include "{header}"' for header in headers]
    lines += [f"// headers: {headers_digest()}"]
    lines += [f"// {custom.digest}" for custom in customs.values()]
    return "\n".join(lines) + "\n"


def _stage_options(customs: Mapping[int, CustomSource]) -> tuple[str, ...]:
    folders = dict.fromkeys(custom.header.parent for custom in customs.values())
    return (*STAGE_OPTIONS, f"-I{INCLUDE}", *(f"-I{folder}" for folder in folders))


def _struct(name: str, body: str, *, summed: bool) -> str:
    sums = f"ECHOBUF_STAGE_SUM({name}, {name}_S)\n" if summed else ""
    return (
        f"\nnamespace {{\nstruct {name}_S {{\n{body}}};\n}}\n"
        f"ECHOBUF_STAGE_MAKE({name}, {name}_S)\n{sums}"
    )


def _body(
    plan: str, operations: Sequence[tuple[str, int]], *, gated: bool, listed: bool
) -> str:
    lines = [
        *(["static constexpr bool kGated = true;"] if gated else []),
        *(["static constexpr bool kListed = true;"] if listed else []),
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
