"""The polynomial in second-level hits, walks and cycles of walks that fits timed mosaics best, and its error.

Mosmodel takes a polynomial of the third degree, of which Lasso keeps few terms. For few mosaics a smaller degree may
fit better. So the degree is chosen as Lasso's weight is, by mosaics held back among those that are fitted to. The
model's error is what it is off by for a mosaic that was held back from all of this. Each is in turn, but for the first
two, base pages only and 2 MB pages only, which bound the others. A straight line through these two is what linear
models before Mosmodel were made of.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmulab import Failure
from mmulab.extras import remedy

Json = dict[str, Any]
DEGREES = (1, 2, 3)
# Mosaics that bound the others: base pages only, and 2 MB pages only.
ENDS = 2
# Fewer mosaics cannot be held back from each other in a useful way.
FEWEST = 6
# Lasso's weights that are tried, as shares of the spread of the times.
WEIGHTS = (1e-3, 1e-2, 1e-1)
# Parts in which mosaics are held back to choose degree and weight.
FOLDS = 5


@dataclass(frozen=True)
class Fitted:
    """A model, and what is known of its error."""

    model: Any
    # By mosaic: seconds told by a model that was fitted to the others (of the first two: to all), and by the line.
    held_back: list[float]
    line: list[float]
    seconds: list[float]

    def errors(self, told: Sequence[float]) -> list[float]:
        """Of each mosaic's time, how far another time is off, as a share."""
        return [abs(t - s) / s for t, s in zip(told, self.seconds, strict=True)]

    @property
    def worst(self) -> float:
        """The largest error of a mosaic that was held back, as a share of its time."""
        return max(self.errors(self.held_back)[ENDS:])

    @property
    def mean(self) -> float:
        """The mean of them."""
        found = self.errors(self.held_back)[ENDS:]
        return sum(found) / len(found)

    @property
    def worst_line(self) -> float:
        """The largest error of the line through the first two mosaics."""
        return max(self.errors(self.line))

    def predict(self, features: Sequence[float]) -> float:
        """Seconds of a run with these hits, walks and cycles of walks."""
        return float(self.model.predict(np.asarray([features], dtype=float))[0])

    def data(self) -> Json:
        """For a file."""
        return {
            "held_back": self.held_back,
            "line": self.line,
            "worst": self.worst,
            "mean": self.mean,
            "worst_line": self.worst_line,
        }


def fit(features: Sequence[Sequence[float]], seconds: Sequence[float]) -> Fitted:
    """Fits the model to mosaics: hits, walks and cycles of walks of each, and its seconds.

    Raises Failure without scikit-learn, and ValueError of fewer than `FEWEST` mosaics.
    """
    if len(features) < FEWEST:
        raise ValueError(f"{len(features)} mosaics are too few to fit a model: give {FEWEST} or more")
    x, y = np.asarray(features, dtype=float), np.asarray(seconds, dtype=float)
    whole = _model(x, y)
    held_back = [float(whole.predict(x[at : at + 1])[0]) for at in range(ENDS)]
    for at in range(ENDS, len(y)):
        rest = np.arange(len(y)) != at
        held_back.append(float(_model(x[rest], y[rest]).predict(x[at : at + 1])[0]))
    return Fitted(whole, held_back, _line(x[:, 2], y), [float(s) for s in y])


def _line(cycles: np.ndarray, seconds: np.ndarray) -> list[float]:
    """Seconds by cycles of walks, as a line through the first two runs has them."""
    across = cycles[0] - cycles[1]
    slope = (seconds[0] - seconds[1]) / across if across else 0.0
    return [float(seconds[1] + slope * (c - cycles[1])) for c in cycles]


def _model(x: np.ndarray, y: np.ndarray) -> Any:
    try:
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.linear_model import Lasso
        from sklearn.model_selection import GridSearchCV, KFold
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
    except ImportError:
        raise Failure(
            "the model of mosaics needs scikit-learn, which is not installed\n"
            f"hint: {remedy('mosaics')}, or leave the model out with --no-model"
        ) from None
    lasso = Lasso(max_iter=50_000, tol=1e-4)
    terms = make_pipeline(MinMaxScaler(), PolynomialFeatures(include_bias=False), StandardScaler(), lasso)
    scaled = TransformedTargetRegressor(terms, transformer=StandardScaler())
    grid = {
        "regressor__polynomialfeatures__degree": DEGREES,
        "regressor__lasso__alpha": WEIGHTS,
        # Time that only grows with hits, walks and cycles, or any.
        "regressor__lasso__positive": (True, False),
    }
    parts = KFold(min(FOLDS, len(y)), shuffle=True, random_state=0)
    found = GridSearchCV(scaled, grid, cv=parts, scoring="neg_mean_absolute_percentage_error")
    with warnings.catch_warnings():
        # Where it did not converge the error of the mosaics that were held back says so.
        warnings.simplefilter("ignore")
        return found.fit(x, y)
