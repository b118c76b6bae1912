"""`.ci/layers.py` finds what points up among the C++ headers."""

import runpy
from pathlib import Path

import pytest

LAYERS = runpy.run_path(str(Path(__file__).parents[2] / ".ci/layers.py"))


@pytest.fixture
def headers(tmp_path):
    """Write headers, given what each includes, and return their faults."""

    def write(**includes: list[str]) -> list[str]:
        root = tmp_path / "echobuf"
        for header, included in includes.items():
            path = root / f"{header.replace('__', '/')}.hpp"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                "#pragma once\n"
                + "".join(f'#include "{name}.hpp"\n' for name in included)
            )
        return LAYERS["faults"](root)

    return write


def test_arrows_that_point_down_are_no_faults(headers):
    assert not headers(
        status=[],
        sync__wait_for=["echobuf/status"],
        store__ring=["echobuf/sync/wait_for"],
        shared__pool=["echobuf/store/ring", "echobuf/shared/seat"],
        shared__seat=[],
        echobuf=["echobuf/shared/pool", "echobuf/status"],
    )


@pytest.mark.parametrize(
    ("header", "included"),
    [
        ("status", "sync/wait_for"),
        ("schedule/sweep", "store/ring"),
        ("store/ring", "draw/gather"),
        ("draw/drawer", "transform/stage"),
        ("cuda/backend", "shared/pool"),
        ("buffer/buffer", "echobuf"),
    ],
)
def test_an_arrow_that_points_up_or_sideways_is_named(headers, header, included):
    includes = {
        header.replace("/", "__"): [f"echobuf/{included}"],
        included.replace("/", "__"): [],
    }
    (fault,) = headers(**includes)
    assert fault.startswith(f"{header}.hpp includes {included}.hpp: ")


def test_a_header_of_the_bindings_is_above_all_rooms(headers):
    (fault,) = headers(shared__pool=["bindings/waiting"])
    assert fault.endswith("`shared` is not above `bindings`")


def test_a_circle_within_a_room_is_named(headers):
    (fault,) = headers(
        store__first=["echobuf/store/ring"],
        store__ring=["echobuf/store/table"],
        store__table=["echobuf/store/ring"],
    )
    assert fault == "a circle: store/ring.hpp -> store/table.hpp -> store/ring.hpp"


def test_a_new_room_must_have_a_layer(headers):
    assert headers(cellar__wine=[]) == [
        "cellar/wine.hpp: `cellar` is a room of no layer"
    ]
