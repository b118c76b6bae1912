"""The order of a pass is as good as a uniform random permutation.

Seeds are fixed, so the outcome is too. Every test turns what it looks at into p-values
and fails if the smallest, times their number (Bonferroni), is below ALPHA. The power
tests show that the same statistics, at the same sample sizes, reject permutations with
too few rounds by a wide margin (POWER).
"""

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the quality tests need scipy (extra `test`)")

import permutation_statistics as st
from echobuf import _core
from permutation_reference import permutation_key, permute, radices

ALPHA = 1e-3
POWER = 1e-9
SEED = 20240607


def sample(n: int, keys: int, count: int | None = None, rounds: int = 0) -> np.ndarray:
    passes = np.arange(keys)
    return _core.permutation(n, SEED, 3, passes, 0, count or n, rounds=rounds)


def rotations(n: int, keys: int) -> np.ndarray:
    """Even in every position, and nothing like random orders."""
    shift = np.random.default_rng(1).integers(n, size=(keys, 1))
    return (np.arange(n) + shift) % n


def assert_uniform(p_values: list[float]) -> None:
    assert min(p_values) * len(p_values) >= ALPHA, p_values


def joint(n: int, rounds: int = 0, keys: int = 250_000) -> float:
    """Neighbours, and for small n the corners of a rectangle of the network too."""
    left = radices(n)[0]
    if n <= 8:
        positions = list(range(n - 1)) or [0]
    elif n <= 16:
        positions = [0, 1, left, left + 1]
    else:
        positions = [0, 1] if n > 64 else [0, 1, left]
    return st.joint_p(sample(n, keys, max(positions) + 1, rounds), positions, n)


SMALL = [2, 3, 4, 5, 6, 7]
MIDDLE = [9, 12, 16, 20, 31, 32, 48, 64, 100, 151, 255, 256, 300, 400]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 31, 32, 100, 255, 256, 1000, 2**31 - 1])
def test_native_equals_the_reference(n: int) -> None:
    count = min(n, 70)
    for key in [(0, 0, 0), (2**64 - 1, 2**64 - 1, 2**56 - 1), (2**40 + 7, 5, 2**33)]:
        native = _core.permutation(n, *key, n - count, count)[0].tolist()
        assert native == permute(n, permutation_key(*key), n - count, count)


def test_all_permutations_of_small_n_are_equally_likely() -> None:
    assert_uniform([joint(n) for n in SMALL])


def test_neighbouring_positions_are_jointly_uniform() -> None:
    assert_uniform([joint(n) for n in MIDDLE])


@pytest.mark.parametrize("n", [4, 5, 6, 7, 9, 12, 16, 20, 31, 64, 100, 151, 255, 256])
def test_joint_statistic_rejects_too_few_rounds(n: int) -> None:
    assert joint(n, rounds=2) < POWER
    assert joint(n, rounds=4) < POWER


def test_every_value_comes_at_every_position_equally_often() -> None:
    keys = {5: 200_000, 30: 50_000, 100: 20_000, 256: 8_000}
    assert_uniform([st.positions_p(sample(n, k)) for n, k in keys.items()])
    assert st.positions_p(sample(5, 200_000, rounds=4)) < POWER
    assert st.positions_p(sample(31, 50_000, rounds=2)) < POWER


MALLOWS_KEYS = {5: 200_000, 100: 20_000, 1000: 1_000}


def test_mallows_discrepancy_from_uniform_is_nil() -> None:
    assert_uniform([st.mallows_p(sample(n, k)) for n, k in MALLOWS_KEYS.items()])


def test_mallows_discrepancy_rejects_weak_orders() -> None:
    for n, keys in MALLOWS_KEYS.items():
        assert st.mallows_p(rotations(n, keys)) < POWER, n
    assert st.mallows_p(sample(5, MALLOWS_KEYS[5], rounds=2)) < POWER


INVERSIONS_KEYS = {6: 100_000, 50: 20_000, 151: 5_000, 1000: 500}


def test_inversions_have_the_mean_and_variance_of_random_orders() -> None:
    samples = [sample(n, k) for n, k in INVERSIONS_KEYS.items()]
    assert_uniform([p for orders in samples for p in st.inversions_p(orders)])
    for n, keys in INVERSIONS_KEYS.items():
        assert min(st.inversions_p(sample(n, keys, rounds=2))) < POWER, n


def test_fixed_points_are_as_many_as_in_random_orders() -> None:
    keys = {5: 100_000, 20: 100_000, 300: 20_000, 4096: 2_000}
    assert_uniform([st.fixed_points_p(sample(n, k)) for n, k in keys.items()])
    assert st.fixed_points_p(sample(5, 100_000, rounds=4)) < POWER


def test_half_of_the_orders_are_odd() -> None:
    assert_uniform([st.parity_p(sample(n, 20_000)) for n in range(2, 34)])
    # A cycle of odd length is even: no rotation of an odd n is odd.
    assert st.parity_p(rotations(9, 40_000)) < POWER


def test_steps_along_long_orders_are_uniform() -> None:
    sizes = [1000, 4096, 65536, 1_000_003]
    p_values = []
    for n in sizes:
        orders = sample(n, max(2, 2_000_000 // n))
        p_values += [st.steps_p(orders, lag) for lag in (1, radices(n)[0])]
    assert_uniform(p_values)
    assert st.steps_p(sample(1000, 2000, rounds=2), 1) < POWER
    assert st.steps_p(sample(4096, 488, rounds=2), 1) < POWER


def related_keys(relation: str, keys: int) -> list[tuple[object, object, object]]:
    """Two lists of keys that differ by little."""
    even = 2 * np.arange(keys, dtype=np.uint64)
    bit = np.uint64(2**32)
    return {
        "pass": [(SEED, 1, even), (SEED, 1, even + 1)],
        "seed": [(even, 1, 7), (even + 1, 1, 7)],
        "epoch": [(SEED, even, 7), (SEED, even + 1, 7)],
        "high word of pass": [(SEED, 1, even), (SEED, 1, even + bit)],
        "high word of seed": [(even, 1, 7), (even + bit, 1, 7)],
        "high word of epoch": [(SEED, even, 7), (SEED, even + bit, 7)],
        "epoch for pass": [(SEED, even + 1, even), (SEED, even, even + 1)],
    }[relation]


RELATIONS = ["pass", "seed", "epoch", "epoch for pass"]
RELATIONS += [f"high word of {word}" for word in ("pass", "seed", "epoch")]


def relation_p(relation: str, rounds: int = 0) -> list[float]:
    p_values = []
    for n, keys in {5: 60_000, 30: 20_000, 100: 4_000}.items():
        orders = [
            _core.permutation(n, *key, 0, n, rounds=rounds)
            for key in related_keys(relation, keys)
        ]
        between = st.compose(*orders)
        p_values += [st.positions_p(between), st.fixed_points_p(between)]
        p_values += st.inversions_p(between)
        if n == 5:
            p_values.append(st.joint_p(between, [0, 1, 2, 3], n))
    return p_values


@pytest.mark.parametrize("relation", RELATIONS)
def test_orders_of_related_keys_are_unrelated(relation: str) -> None:
    assert_uniform(relation_p(relation))


def test_relations_are_seen_with_too_few_rounds() -> None:
    assert min(relation_p("pass", rounds=2)) < POWER


def test_rejects_what_is_out_of_range() -> None:
    for arguments in [(0, 0, 0, 0, 0, 0), (2**31, 0, 0, 0, 0, 1), (5, 0, 0, 0, 3, 3)]:
        with pytest.raises(ValueError, match="`"):
            _core.permutation(*arguments)
    with pytest.raises(ValueError, match="`rounds`"):
        _core.permutation(5, 0, 0, 0, 0, 5, rounds=3)
