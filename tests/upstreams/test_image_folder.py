"""A folder of images, read by a class with `__getitem__`."""

import random
from pathlib import Path

import numpy as np
import pytest

import echobuf
from upstream_checks import check_all, run

Image = pytest.importorskip("PIL.Image")

N = 200  # images, each of a class of its own, which its grey says
CLASSES = [f"{number:03}" for number in range(N)]


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
    """Images of several sizes and modes."""
    folder = tmp_path_factory.mktemp("images")
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir()
        mode, grey = ("RGB", (number,) * 3) if number % 2 else ("L", number)
        Image.new(mode, (3 + number % 4, 5), grey).save(folder / name / "one.png")
    return folder


def test_the_page(folder):
    names = {
        "folder": folder,
        "classes": CLASSES,
        "echobuf": echobuf,
        "np": np,
        "random": random,
        "Image": Image,
        "Path": Path,
    }

    def make():
        return run("A folder of images", names)["loader"]

    for image, _ in make():
        assert image.shape[1:] == (64, 64, 3)
    check_all(make, 1, N)


def test_pil_images_are_arrays():
    images = [Image.new("RGB", (4, 3), (number,) * 3) for number in range(20)]
    loader = echobuf.EchoLoader(images, batch_size=4, window=16, factor=2)
    for batch in loader:
        assert batch.dtype == np.uint8
        assert batch.shape == (4, 3, 4, 3)


@pytest.mark.parametrize("other", [("RGB", (5, 3)), ("L", (4, 3)), ("RGBA", (4, 3))])
def test_images_of_several_sizes_say_the_line(other):
    images = [Image.new("RGB", (4, 3)), Image.new(*other)]
    loader = echobuf.EchoLoader(images, batch_size=1, window=2, factor=1)
    line = r"`example` has shape.*np\.asarray\(image\.convert\('RGB'\)\.resize"
    with pytest.raises(echobuf.SpecError, match=line):
        list(loader)
