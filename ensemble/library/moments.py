"""Statistics of fields that are updated in place: nothing of a sample is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
QUANTILES = (0.05, 0.5, 0.95)
_GAMMA = 0.75  # of Robbins and Monro: how fast later samples weigh less, between 0.5 and 1


class Moments:
    """Mean, variance, extremes and quantiles, at each point of a field.

    The variance is Welford's. A quantile is a Robbins-Monro estimate whose steps are as wide as
    the samples have spread so far; it is near the true one after some hundred samples.

    Args:
        quantiles: which ones, between 0 and 1.

    Attributes:
        count: of samples.
        mean, least, most: shape of the field, float64; empty before the first sample.
    """

    def __init__(self, quantiles: Sequence[float] = QUANTILES) -> None:
        self.quantiles = tuple(quantiles)
        self.count = 0
        self.mean: Array = np.empty(0)
        self.least: Array = np.empty(0)
        self.most: Array = np.empty(0)
        self._squares: Array = np.empty(0)
        self._estimates: Array = np.empty(0)

    def add(self, sample: ArrayLike) -> None:
        """Take a sample.

        Raises:
            ValueError: it has another shape than the first one.
        """
        values = np.asarray(sample, dtype=np.float64)
        if not self.count:
            self.mean, self.least, self.most = values.copy(), values.copy(), values.copy()
            self._squares = np.zeros_like(values)
            self._estimates = np.repeat(values[np.newaxis], len(self.quantiles), axis=0)
            self.count = 1
            return
        if values.shape != self.mean.shape:
            raise ValueError(f"a field of shape {values.shape}; it was {self.mean.shape}")
        self.count += 1
        np.minimum(self.least, values, out=self.least)
        np.maximum(self.most, values, out=self.most)
        difference = values - self.mean
        self.mean += difference / self.count
        self._squares += difference * (values - self.mean)
        step = (self.most - self.least) / (self.count - 1) ** _GAMMA
        for number, alpha in enumerate(self.quantiles):
            self._estimates[number] += step * (alpha - (values < self._estimates[number]))

    @property
    def variance(self) -> Array:
        """Of the samples, with n - 1; 0 for a single one."""
        return self._squares / max(1, self.count - 1)

    def quantile(self, alpha: float) -> Array:
        """One of :attr:`quantiles`, as it is estimated so far."""
        estimate: Array = self._estimates[self.quantiles.index(alpha)]
        return estimate

    def state(self) -> dict[str, Any]:
        """All of it as arrays, for a checkpoint."""
        return {
            "quantiles": np.array(self.quantiles),
            "count": np.array(self.count),
            "mean": self.mean,
            "least": self.least,
            "most": self.most,
            "squares": self._squares,
            "estimates": self._estimates,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Moments:
        """The same again."""
        found = cls([float(alpha) for alpha in state["quantiles"]])
        found.count = int(state["count"])
        found.mean, found.least, found.most = state["mean"], state["least"], state["most"]
        found._squares, found._estimates = state["squares"], state["estimates"]
        return found
