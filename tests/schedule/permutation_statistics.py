"""Statistics of samples of permutations, each as a p-value under uniformity.

A sample is an integer array [keys, n], one permutation a row (or [keys, count], its
first positions). All p-values are two-sided: too even is as suspicious as uneven.
"""

import math

import numpy as np
from scipy import stats


def chi_squared_p(statistic: float, freedom: int) -> float:
    """Two-sided p-value of a chi-squared statistic."""
    tail = min(stats.chi2.sf(statistic, freedom), stats.chi2.cdf(statistic, freedom))
    return float(min(1.0, 2 * tail))


def normal_p(z: float) -> float:
    """Two-sided p-value of a standard normal."""
    return float(2 * stats.norm.sf(abs(z)))


def even_cells_p(codes: np.ndarray, cells: int) -> float:
    """Chi-squared of codes that should be uniform over `cells` values."""
    counts = np.unique(codes, return_counts=True)[1]
    expected = len(codes) / cells
    empty = cells - len(counts)
    statistic = ((counts - expected) ** 2).sum() / expected + empty * expected
    return chi_squared_p(statistic, cells - 1)


def joint_p(orders: np.ndarray, positions: list[int], n: int) -> float:
    """The joint outcome at some positions against n (n-1) ... equal cells.

    With all positions but the last it is the chi-squared over all permutations.
    """
    code = np.zeros(len(orders), np.int64)
    for position in positions:
        code = code * n + orders[:, position]
    return even_cells_p(code, math.perm(n, len(positions)))


def positions_p(orders: np.ndarray) -> float:
    """Position against value, all n*n cells.

    Blind to a network of two rounds without cycle walking: each single position is
    uniform there already, and only the joint outcome of several is not.

    A centred random permutation matrix has covariance 1 / (n - 1) on a space of
    (n - 1)**2 dimensions, which scales the sum of squares.
    """
    keys, n = orders.shape
    codes = (np.arange(n) * n + orders).ravel()
    counts = np.bincount(codes, minlength=n * n)
    statistic = (n - 1) / keys * ((counts - keys / n) ** 2).sum()
    return chi_squared_p(statistic, (n - 1) ** 2)


def inversions(orders: np.ndarray) -> np.ndarray:
    """Kendall's distance of each row from the identity."""
    rows = orders.astype(np.int32, copy=False).T.copy()
    count = np.zeros(rows.shape[1], np.int64)
    for i in range(1, len(rows)):
        count += (rows[:i] > rows[i]).sum(axis=0)
    return count


def inversions_p(orders: np.ndarray) -> tuple[float, float]:
    """Mean and variance of the number of inversions (Kendall 1938)."""
    keys, n = orders.shape
    mean, variance = n * (n - 1) / 4, n * (n - 1) * (2 * n + 5) / 72
    deviation = inversions(orders) - mean
    spread = (deviation**2).mean() / variance - 1
    # The excess kurtosis of the inversions of a random order.
    j = np.arange(1, n + 1, dtype=float)
    kurtosis = -((j**4 - 1) / 120).sum() / variance**2
    return (
        normal_p(deviation.sum() / math.sqrt(keys * variance)),
        normal_p(spread / math.sqrt((2 + kurtosis) / keys)),
    )


def mallows_p(orders: np.ndarray, bandwidth: float = 5.0) -> float:
    """Maximum mean discrepancy from the uniform distribution, Mallows kernel.

    k(s, t) = exp(-bandwidth * inversions(s^-1 t) / (n (n - 1) / 2)); Mitchell et al.,
    "Bandwidth-optimal random shuffling for GPUs", 2021, section 4. For uniform t the
    mean of k is the same for every s and known in closed form (the generating function
    of inversions), so the squared discrepancy is the mean of k over independent pairs
    of the sample, less that constant: a sum of independent terms. Its power against
    networks of two rounds ends between n = 5 and n = 100; joint_p is what sees those.
    """
    n = orders.shape[1]
    scale = bandwidth / math.comb(n, 2)

    def mean_of_power(power: int) -> float:
        q, j = math.exp(-power * scale), np.arange(1, n + 1)
        return float(np.exp(np.log((1 - q**j) / (j * (1 - q))).sum()))

    mean = mean_of_power(1)
    variance = mean_of_power(2) - mean**2
    kernel = np.exp(-scale * inversions(compose(orders[0::2], orders[1::2])))
    return normal_p((kernel - mean).sum() / math.sqrt(len(kernel) * variance))


def compose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How `second` looks from `first`: uniform if one is, given the other."""
    return np.take_along_axis(second, np.argsort(first, axis=1), axis=1)


def fixed_points_p(orders: np.ndarray) -> float:
    """The number of fixed points of a row has mean 1 and variance 1."""
    keys, n = orders.shape
    fixed = int((orders == np.arange(n)).sum())
    return normal_p((fixed - keys) / math.sqrt(keys))


def parity_p(orders: np.ndarray) -> float:
    """As many even as odd permutations."""
    odd = int((inversions(orders) % 2).sum())
    return normal_p((odd - len(orders) / 2) / math.sqrt(len(orders) / 4))


def steps_p(orders: np.ndarray, lag: int, bins: int = 64) -> float:
    """The steps p[t + lag] - p[t] mod n along whole long permutations.

    Steps of one row are not quite independent; for n far above `bins` it does not show.
    """
    n = orders.shape[1]
    step = (orders[:, lag:].astype(np.int64) - orders[:, :-lag]) % n - 1
    counts = np.bincount((step * bins // (n - 1)).ravel(), minlength=bins)
    share = np.bincount(np.arange(n - 1) * bins // (n - 1), minlength=bins) / (n - 1)
    expected = share * step.size
    return chi_squared_p(((counts - expected) ** 2 / expected).sum(), bins - 1)
