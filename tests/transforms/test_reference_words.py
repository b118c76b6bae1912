"""The words of draws, and what is made of them, in the reference."""

from __future__ import annotations

import itertools
from statistics import NormalDist

import numpy as np
import pytest

from permutation_reference import philox4x32
from transform_reference import Draw
from transform_reference.samplers import beta, johnk, normal_quantile, ulrich
from transform_reference.words import below, epoch_key, philox

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
KNOWN = [
    ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (2**32 - 1,) * 4,
        (2**32 - 1, 2**32 - 1),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        PI,
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_known_answers(counter, key, words) -> None:
    """Random123's kat_vectors, one by one and many at once."""
    assert philox4x32(counter, key) == words
    many = philox(np.array([counter, (1, 2, 3, 4), counter], np.uint64), key)
    assert many[0].tolist() == many[2].tolist() == list(words)
    assert many[1].tolist() == list(philox4x32((1, 2, 3, 4), key))


def test_counter_of_a_draw() -> None:
    """Every number at its place, each larger than a word."""
    draw = Draw(seed=0xA4093822299F31D0, epoch=2**32 + 5, draw=3 * 2**32 + 9, op=0x8002)
    key = philox4x32((5, 1, 0, 0xB0000000), (0x299F31D0, 0xA4093822))[:2]
    assert epoch_key(draw.seed, draw.epoch) == key
    assert draw.words(6) == philox4x32((9, 0x80020003, 0, 6), key)
    element = philox4x32((9, 0x80020003, 0, 0x8000000C), key)
    assert draw.elements(13)[12].tolist() == list(element)


def test_partner_has_words_of_its_own() -> None:
    assert Draw(1, 2, 3, 4).partner.words(0) == Draw(1, 2, 3, 0x8004).words(0)


def test_all_words_differ() -> None:
    """Any one of the numbers changes the block."""
    numbers = itertools.product((0, 1), (0, 1), (0, 1, 2**32), (0, 1, 0x8000), (0, 1))
    words = [Draw(*of).words(block) for of in numbers for block in (0, 1)]
    assert len(set(words)) == len(words) == 144


def test_below_reaches_both_ends() -> None:
    assert below(0, 7) == 0
    assert below(2**32 - 1, 7) == 6
    assert [below(2**32 * k // 5 + 1, 5) for k in range(5)] == [0, 1, 2, 3, 4]


def test_normal_quantile() -> None:
    """Against the standard library's, on the three ranges and to both ends."""
    p = np.concatenate([np.linspace(1e-4, 1 - 1e-4, 999), 2.0 ** -np.arange(3, 34)])
    p = np.concatenate([p, 1 - 2.0 ** -np.arange(3, 34)])
    exact = np.array([NormalDist().inv_cdf(x) for x in p])
    np.testing.assert_allclose(normal_quantile(p), exact, rtol=2e-7, atol=1e-9)


def test_johnk_where_powers_underflow() -> None:
    """The weights of the two are still told apart."""
    assert johnk(0.01, 0.02, 1e-3) == pytest.approx(0.5**1000 / (1 + 0.5**1000))
    assert johnk(0.02, 0.01, 1e-3) == pytest.approx(1)
    assert johnk(0.01, 0.01, 1e-3) == pytest.approx(0.5)
    assert johnk(0.9, 0.9, 0.5) is None


def test_ulrich_accepts_the_half_disc() -> None:
    assert ulrich(0.999, 0.999, 2.0) is None
    assert ulrich(0.5, 0.7, 2.0) == 0.5
    assert ulrich(0.75, 0.5, 1.0) == pytest.approx(0.5 + 0.5 * np.sqrt(0.75))


def test_beta_takes_an_attempt_a_block() -> None:
    """The first block that is accepted, from 1 on; a half where none is."""
    draw = next(
        Draw(1, 0, d, 0)
        for d in range(99)
        if johnk(*[(w + 0.5) * 2**-32 for w in Draw(1, 0, d, 0).words(1)[:2]], 1)
        is None
    )
    assert beta(draw, 1.0, attempts=1) == 0.5
    assert beta(draw, 1.0) == beta(draw, 1.0, first=2)
