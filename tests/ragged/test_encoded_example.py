"""The example that decodes after the draw serves what decoding before would."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echobuf
from echobuf import transforms as T

pytest.importorskip("PIL")

ROOT = Path(__file__).parents[2]
OPTIONS = {"batch_size": 4, "window": 12, "factor": 3}
SIZE = 32

pytestmark = [pytest.mark.host, pytest.mark.usefixtures("no_leaked_threads")]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "encoded_images" / "decode.py"))


@pytest.fixture(scope="module")
def files(names: dict[str, Any]) -> list[bytes]:
    return names["make_files"](20)


@pytest.fixture
def decoder(names: dict[str, Any]) -> Any:
    decoder = names["Decoder"](SIZE, 2)
    yield decoder
    decoder.pool.shutdown()


@pytest.mark.parametrize("when", ["load_encoded", "load_decoded"])
def test_each_image_is_that_of_its_file(
    names: dict[str, Any], files: list[bytes], decoder: Any, when: str
) -> None:
    examples = [{"image": file, "label": i} for i, file in enumerate(files)]
    images = decoder.all_of(files)
    assert len({image.tobytes() for image in images}) == len(files)
    assert len({len(file) for file in files}) > 1
    served = []
    with names[when](examples, decoder, **OPTIONS) as loader:
        for batch in loader:
            assert batch["image"].dtype == np.uint8
            np.testing.assert_array_equal(batch["image"], images[batch["label"]])
            served += batch["label"].tolist()
    assert sorted(served) == sorted([*range(len(files))] * OPTIONS["factor"])


def test_it_prints_memory_and_speed_of_both(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--images=16", "--window=16", "--batch-size=8", "--threads=1"]
    names["main"](options)
    text = capsys.readouterr().out
    sizes = [float(size) for size in re.findall(r"([\d.]+) MB of memory", text)]
    assert len(sizes) == len(re.findall(r"[\d,]+ examples a second", text)) == 2
    assert sizes[0] < sizes[1]


def test_a_file_that_is_none_is_named(files: list[bytes], decoder: Any) -> None:
    """The draw says which function raised, and why."""
    image = T.Lambda(decoder, shape=(SIZE, SIZE, 3))
    examples = [{"image": file} for file in [*files, b"no image"]]
    with (
        echobuf.EchoLoader(
            examples, transform={"image": [image]}, payload_bytes=10**6, **OPTIONS
        ) as loader,
        pytest.raises(echobuf.SpecError, match=r"image.*Lambda.*UnidentifiedImage"),
    ):
        list(loader)
