"""The price of echoes: the formula in decimals, its limits, and its inverse."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import echobuf
from echobuf.analysis import Repeats

LIFETIMES = st.floats(1e-3, 1e4)
FACTORS = st.floats(1.0, 64.0)
EPOCHS = st.floats(1.0, 100.0)
RATIOS = st.floats(0.0, 100.0)
PUBLISHED = 15.387756  # Muennighoff et al., appendix A


def in_decimals(uses: float, lifetime: float) -> float:
    """Return the effective data of one unit, as the paper writes it."""
    with localcontext() as context:
        context.prec = 60
        repeats, star = Decimal(uses) - 1, Decimal(lifetime)
        return float(1 + star * (1 - (-repeats / star).exp()))


def per_second(repeats: Repeats, ratio: float, factors: np.ndarray) -> np.ndarray:
    """Return worth per second at each factor, with a step of a second."""
    worths = np.array([repeats.worth(factor) for factor in factors])
    return worths / np.maximum(ratio, factors)


@given(FACTORS, EPOCHS, LIFETIMES)
def test_the_worth_is_the_papers_effective_data(factor, epochs, lifetime):
    found = Repeats(epochs, lifetime).worth(factor)
    expected = in_decimals(epochs * factor, lifetime) / epochs
    assert found == pytest.approx(expected, rel=1e-9)


def test_numbers_from_the_paper():
    assert Repeats().lifetime == PUBLISHED
    # Section 3.1: after R_D* repeats their mean worth is 1 - 1/e of fresh data.
    assert Repeats().worth(1 + PUBLISHED) == pytest.approx(
        1 + PUBLISHED * (1 - 1 / math.e)
    )
    # Appendix A: with R_D* = 3, five epochs of one unit are worth 3.21 of them.
    assert Repeats(lifetime=3).worth(5) == pytest.approx(3.21, abs=5e-3)
    assert Repeats(lifetime=3).worth(101) == pytest.approx(4, abs=1e-9)


@given(LIFETIMES)
def test_one_use_is_worth_one_and_many_the_lifetime_more(lifetime):
    repeats = Repeats(lifetime=lifetime)
    assert repeats.worth(1) == 1
    assert repeats.worth(math.inf) == pytest.approx(1 + lifetime)
    assert repeats.worth(1 + 40 * lifetime) == pytest.approx(1 + lifetime)
    assert repeats.worth(0.25) == 0.25  # a share of the examples, once each
    assert repeats.mean_worth(0) == repeats.mean_worth(1) == 1
    assert repeats.mean_worth(math.inf) == 0


@given(FACTORS, FACTORS, EPOCHS, LIFETIMES)
def test_more_uses_are_worth_more_and_each_of_them_less(a, b, epochs, lifetime):
    low, high = sorted((a, b))
    repeats, near = Repeats(epochs, lifetime), 1 + 1e-12
    assert repeats.worth(low) <= repeats.worth(high) * near
    assert repeats.mean_worth(high) <= repeats.mean_worth(low) * near
    assert 0 < repeats.mean_worth(high) <= near
    assert repeats.worth(high) <= high * near


@given(st.floats(1.01, 32.0), EPOCHS, LIFETIMES)
def test_the_last_echo_is_the_difference_of_two_worths(factor, epochs, lifetime):
    repeats = Repeats(epochs, lifetime)
    before = max(1.0, factor - 1)
    grown = (repeats.worth(factor) - repeats.worth(before)) / (factor - before)
    assert repeats.last_echo(factor) == pytest.approx(grown, rel=1e-6, abs=1e-9)


def test_all_echoes_and_the_first_use_add_up():
    repeats = Repeats()
    echoes = sum(repeats.last_echo(factor) for factor in range(2, 10))
    assert 1 + echoes == pytest.approx(repeats.worth(9))
    assert math.isnan(repeats.last_echo(1))


@pytest.mark.parametrize("lifetime", [0.0, 1e-320, 0.5, PUBLISHED, 1e308, math.inf])
@pytest.mark.parametrize("factor", [1.0, 1.5, 4.0, 1e9, math.inf])
def test_extremes_are_numbers_within_their_bounds(lifetime, factor):
    repeats = Repeats(lifetime=lifetime)
    assert 1 <= repeats.worth(factor) <= factor
    assert 0 <= repeats.mean_worth(factor) <= 1
    if factor > 1:
        assert 0 <= repeats.last_echo(factor) <= 1
    for ratio in (0.0, 0.5, factor):
        enough = repeats.enough_factor(ratio)
        assert 1 <= enough <= repeats.stop_factor(ratio) <= max(1, ratio)


@given(RATIOS, EPOCHS, LIFETIMES)
def test_no_factor_has_more_worth_per_second_than_the_stopping_factor(
    ratio, epochs, lifetime
):
    repeats = Repeats(epochs, lifetime)
    stop = repeats.stop_factor(ratio)
    factors = np.linspace(1, 2 * max(1, ratio), 400)
    rates = per_second(repeats, ratio, factors)
    most = per_second(repeats, ratio, np.array([stop]))[0]
    assert rates.max() <= most * (1 + 1e-12)
    assert (np.diff(rates[factors >= stop]) <= 1e-15).all()


@pytest.mark.parametrize("ratio", [1.5, 4.0, 7.25, 30.0])
@pytest.mark.parametrize("epochs", [1, 3])
def test_the_stopping_factor_is_the_best_of_a_grid(ratio, epochs):
    repeats, factors = Repeats(epochs), np.arange(1, 64, 0.25)
    best = factors[per_second(repeats, ratio, factors).argmax()]
    assert repeats.stop_factor(ratio) == best == ratio


@given(RATIOS, EPOCHS, LIFETIMES)
def test_the_factor_that_is_enough_has_nearly_as_much_and_none_below_it(
    ratio, epochs, lifetime
):
    repeats = Repeats(epochs, lifetime)
    stop, enough = repeats.stop_factor(ratio), repeats.enough_factor(ratio)
    most, found = per_second(repeats, ratio, np.array([stop, enough]))
    assert 1 <= enough <= stop
    assert found >= 0.97 * most * (1 - 1e-9)
    assume(enough > 1)
    assert found == pytest.approx(0.97 * most)


def test_where_upstream_keeps_up_no_echo_pays():
    for ratio in (0, 0.3, 1):
        assert Repeats().stop_factor(ratio) == Repeats().enough_factor(ratio) == 1


def test_repeats_that_are_worth_nothing_never_pay():
    assert Repeats(lifetime=0).stop_factor(50) == 1


@given(st.floats(1.05, 64.0), st.floats(1e-2, 1e3))
def test_a_measured_worth_gives_the_lifetime_back(factor, lifetime):
    worth = Repeats(lifetime=lifetime).worth(factor)
    found = Repeats.fitted(factor, min(worth, factor))
    assert found.worth(factor) == pytest.approx(worth)
    assert found.epochs == 1


def test_a_measured_worth_at_its_bounds():
    assert Repeats.fitted(4, 1).lifetime == 0
    assert Repeats.fitted(4, 4).lifetime == math.inf


@pytest.mark.parametrize("bad", [-0.5, math.nan, "3", None, True, 1 + 2j])
def test_bad_numbers_are_errors_that_name_the_argument(bad):
    calls = {
        "epochs": lambda: Repeats(epochs=bad),
        "lifetime": lambda: Repeats(lifetime=bad),
        "factor": lambda: Repeats().worth(bad),
        "ratio": lambda: Repeats().stop_factor(bad),
        "worth": lambda: Repeats.fitted(2, bad),
    }
    for name, call in calls.items():
        with pytest.raises(echobuf.OptionError, match=rf"^`{name}` is .*>= "):
            call()
    with pytest.raises(echobuf.OptionError, match=r"^`factor`"):
        Repeats.fitted(bad, 1)
    for method in ("last_echo", "mean_worth"):
        with pytest.raises(echobuf.OptionError, match=r"^`factor`"):
            getattr(Repeats(), method)(bad)
    with pytest.raises(echobuf.OptionError, match=r"^`ratio`"):
        Repeats().enough_factor(bad)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Repeats(epochs=0.5), "`epochs` is 0.5; it must be a finite number"),
        (lambda: Repeats(epochs=math.inf), "`epochs` is inf; it must be a finite"),
        (lambda: Repeats.fitted(1, 1), "`factor` is 1, without echoes"),
        (
            lambda: Repeats.fitted(2, 2.5),
            "`worth` is 2.5; it must be at most `factor`, 2",
        ),
        (lambda: Repeats.fitted(math.inf, 2), "`factor` is inf"),
    ],
)
def test_bad_combinations_say_what_is_allowed(call, message):
    with pytest.raises(echobuf.OptionError, match=rf"^{message}"):
        call()


def test_stats_tell_the_mean_worth_of_a_draw():
    loader = echobuf.EchoLoader(range(60), batch_size=10, factor=3)
    assert loader.stats().mean_worth == 1
    for batch in loader:
        assert len(batch) == 10
        assert 0 < loader.stats().mean_worth <= 1
    stats = loader.stats()
    assert stats.effective_factor == 3
    expected = in_decimals(3, PUBLISHED) / 3
    assert stats.mean_worth == pytest.approx(expected)
