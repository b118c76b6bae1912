"""The digits of the demo, and its upstream."""

# ruff: noqa: E402 (the packages that may be missing decide whether the tests can run)

import threading
from itertools import islice

import numpy as np
import pytest

from demo_parts import Time, require_demo

require_demo()

from PIL import Image
from sklearn.datasets import load_digits

import echobuf
from echobuf.cli.demo import data
from echobuf.cli.demo.training import Clock
from echobuf.cli.demo.upstream import DigitStream, Gate

# The data.


def test_png_files_hold_the_digits(folder, digits):
    source = load_digits()
    assert len(digits.train) + len(digits.test) == len(source.target)
    assert not set(digits.train) & set(digits.test)
    for name in (*digits.train[::100], *digits.test[::100]):
        index = int(name.split("-")[0])
        content = (folder / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        pixels = np.asarray(data.decode(content))
        assert np.array_equal(pixels, (source.images[index] * 15).astype(np.uint8))
        assert data.label_of(name) == source.target[index]


class Fixed:
    """A generator whose every distortion is none."""

    def uniform(self, low, high, size):
        return np.zeros(size)


def test_augment_without_distortion_only_enlarges():
    pixels = np.zeros((8, 8), np.uint8)
    pixels[2:6, 3:5] = 240
    result = data.augment(Image.fromarray(pixels), Fixed())
    assert result.shape == (data.SIDE, data.SIDE)
    assert np.array_equal(result, result[:, ::-1])
    assert np.array_equal(result, result[::-1, :])
    assert abs(int(result.mean()) - int(pixels.mean())) <= 3


def test_augment_is_seeded(folder, digits):
    image = data.decode((folder / digits.train[0]).read_bytes())
    one, same, other = (
        data.augment(image, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert one.flags.writeable


def test_test_set_is_always_the_same(folder, digits):
    images, labels = data.test_set(folder, digits.test[:20])
    again, _ = data.test_set(folder, digits.test[:20])
    assert images.shape == (20, data.SIDE, data.SIDE)
    assert images.dtype == np.uint8
    assert np.array_equal(images, again)
    assert labels.tolist() == [data.label_of(name) for name in digits.test[:20]]


# The upstream.


def stream(server, digits, seed=0, gate=None):
    return DigitStream(server.port, digits.train[:50], seed, gate or Gate())


def taken(source, count):
    iterator = iter(source)
    items = list(islice(iterator, count))
    iterator.close()
    return [label for _, label in items], np.stack([image for image, _ in items])


def test_stream_is_endless_shuffled_and_seeded(server, digits):
    labels, images = taken(stream(server, digits), 120)
    again_labels, again_images = taken(stream(server, digits), 120)
    assert labels == again_labels
    assert np.array_equal(images, again_images)
    assert sorted(labels[:50]) == sorted(labels[50:100])
    assert labels[:50] != labels[50:100]
    assert taken(stream(server, digits, seed=1), 120)[0] != labels


def test_stream_says_what_the_server_answered(server):
    source = DigitStream(server.port, ("0-0.png",), 0, Gate())
    with pytest.raises(RuntimeError, match="404"):
        next(iter(source))


def test_gate_stops_the_stream(server, digits):
    gate = Gate()
    source = iter(stream(server, digits, gate=gate))
    next(source)
    came = threading.Event()

    def take():
        next(source)
        came.set()

    thread = threading.Thread(target=take)
    with gate.closed():
        thread.start()
        assert not came.wait(0.2)
    thread.join(30)
    assert came.is_set()


def test_clock_stands_still():
    now = Time()
    clock = Clock(now)
    now.now += 2.0
    with clock.stopped():
        now.now += 50.0
    now.now += 1.0
    assert clock.seconds() == pytest.approx(3.0)


def test_both_places_of_the_distortion_distort_alike():
    """Upstream and in the draw: as far from the image as each other, on average."""
    rng = np.random.default_rng(0)
    digit = Image.fromarray((load_digits().images[3] * 15).astype(np.uint8))
    plain = data.enlarge(digit, rng)
    count = 400
    upstream = np.stack([data.augment(digit, rng) for _ in range(count)])
    field = echobuf.Field(plain.shape, plain.dtype)
    with echobuf.EchoBuffer(
        field, batch_size=count, window=count, factor=1, transform=data.distortion()
    ) as buffer:
        buffer.put_batch(np.repeat(plain[None], count, axis=0))
        buffer.close()
        drawn = buffer.next_batch()
    assert drawn.shape == upstream.shape
    assert drawn.dtype == upstream.dtype
    far = [np.abs(images - plain.astype(float)).mean() for images in (upstream, drawn)]
    assert far[0] == pytest.approx(far[1], rel=0.15)
    means = [images.mean(0) for images in (upstream, drawn)]
    assert np.corrcoef(means[0].ravel(), means[1].ravel())[0, 1] > 0.98
