"""Per-feature statistics of a LeRobot dataset, and normalization of values by them."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.meta import TIME, Feature, Root
from readers.formats.text import parse_object
from readers.sample import SourceError
from readers.storage.unreadable import reason_of
from readers.storage.whole_files import read_whole

STATS = "meta/stats.json"
Mode = Literal["mean_std", "min_max", "quantiles"]
Normalize = Mode | Mapping[str, Mode]
"""One mode for states and actions, or a mode by feature name."""
Stats = Mapping[str, Mapping[str, NDArray[np.float64]]]
"""Statistics such as "mean" by feature name."""

# The two statistics of each mode, and lerobot's term that keeps denominators from 0.
_USED = {"mean_std": ("mean", "std"), "min_max": ("min", "max"), "quantiles": ("q01", "q99")}
_EPSILON = 1e-8


def read_stats(root: Root, features: Mapping[str, Feature]) -> Stats:
    """Return the statistics in meta/stats.json of the features that are read.

    Statistics of pictures have the shape [channels]; those of numbers have the shape of the feature, if they have as many
    numbers.

    Raises:
        SourceError: The file is missing, is no JSON, or a statistic is no array of numbers.
    """
    path = root / STATS
    try:
        stored = parse_object(read_whole(path), STATS)
        return MappingProxyType(
            {
                name: MappingProxyType(
                    {key: _array(one, feature) for key, one in dict(stored[feature.column]).items()}
                )
                for name, feature in features.items()
                if feature.column in stored
            }
        )
    except OSError as error:
        raise SourceError(
            f"{root} has no statistics of its features ({STATS}: {reason_of(error)}): copy it whole, or let lerobot compute them"
        ) from None
    except (ValueError, TypeError) as error:
        raise SourceError(
            f"{STATS} of {root} must have numbers by feature and statistic ({error}): let lerobot compute it again"
        ) from None


def _array(stored: Any, feature: Feature) -> NDArray[np.float64]:
    values = np.asarray(stored, np.float64)
    if feature.is_camera:  # stored as [channels, 1, 1]
        values = values.reshape(-1)
    elif values.size == math.prod(feature.shape):
        values = values.reshape(feature.shape)
    values = values.copy()
    values.setflags(write=False)
    return values


def modes_of(given: Normalize | None, features: Mapping[str, Feature]) -> dict[str, Mode]:
    """Return the mode of each feature that is normalized, by name.

    Args:
        given: None for no normalization. One mode applies to the features of floating-point numbers whose names begin with
            "observation." or "action", which are those that LeRobot's policies normalize.
        features: The features that are read.

    Raises:
        SourceError: A mode is unknown, a feature does not exist or cannot be normalized, or there is none to normalize.
    """
    # The time stamps of frames are compared with those of the videos.
    allowed = [one.name for one in features.values() if "float" in one.dtype and one.name != TIME]
    if given is None:
        return {}
    if isinstance(given, Mapping):
        modes = dict(given)
    else:
        modes = {name: given for name in allowed if name.startswith(("observation.", "action"))}
    if any(mode not in [*_USED] for mode in modes.values() or [given]):
        raise SourceError(
            f'normalize must be "mean_std", "min_max" or "quantiles", or one of these by feature name, got {given!r}'
        )
    if not modes or not modes.keys() <= {*allowed}:
        raise SourceError(
            f"normalize={given!r} must name features of floating-point numbers, which are {', '.join(allowed) or 'missing'}; "
            "pictures are normalized by Normalize in the recipe, with the numbers in `stats`"
        )
    return modes


class Normalizer:
    """Normalizes the values of one feature by the formulas of LeRobot's NormalizerProcessorStep, and inverts that.

    "mean_std" is (x - mean) / (std + 1e-8), and its inverse y * std + mean. "min_max" and "quantiles" map min and max, or
    q01 and q99, to -1 and 1 without clipping; if both are equal, their difference counts as 1e-8.

    Args:
        feature: The feature.
        mode: The formula.
        stats: The statistics of the dataset.

    Raises:
        SourceError: A statistic is missing, has another shape than the feature, or contradicts itself.
    """

    def __init__(self, feature: Feature, mode: Mode, stats: Stats) -> None:
        self.mode, self._shape = mode, feature.shape
        self.first, self.second = (_statistic(feature, key, mode, stats) for key in _USED[mode])
        spread = self.second if mode == "mean_std" else self.second - self.first
        if not (np.isfinite(self.first) & np.isfinite(spread) & (spread >= 0)).all():
            low, high = _USED[mode]
            order = "std of 0 or more" if mode == "mean_std" else f"{low} of at most {high}"
            raise SourceError(
                f"{STATS} must have finite numbers for {low!r} and {high!r} of {feature.name!r}, with a {order}: let "
                "lerobot compute them again"
            )

    def apply(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Return normalized values [..., *shape]; float64 is computed in float64, other types in float32."""
        dtype: Any = np.float64 if values.dtype == np.float64 else np.float32
        first, second = self.first.astype(dtype), self.second.astype(dtype)
        values = values.astype(dtype, copy=False)
        if self.mode == "mean_std":
            result = (values - first) / (second + _EPSILON)
        else:
            result = 2 * (values - first) / _spread(first, second) - 1
        return np.asarray(result, np.float32)

    def invert(self, values: Any) -> Any:
        """Return the values that were normalized.

        Args:
            values: Normalized values [..., *shape], a torch.Tensor on any device, or what NumPy makes an array of.

        Returns:
            float32 [..., *shape], a tensor on the same device or a NumPy array.

        Raises:
            SourceError: The shape does not end in that of the feature.
        """
        is_tensor = hasattr(values, "new_tensor")  # this package does not import torch
        values = values.float() if is_tensor else np.asarray(values, np.float32)
        shape = tuple(values.shape)
        if shape[len(shape) - len(self._shape) :] != self._shape:
            raise SourceError(
                f"values must have a shape that ends in {list(self._shape)}, got {list(shape)}"
            )
        first, second = self.first.astype(np.float32), self.second.astype(np.float32)
        scale = second if self.mode == "mean_std" else _spread(first, second)
        if is_tensor:
            first, scale = (values.new_tensor(one.tolist()) for one in (first, scale))
        return (
            values * scale + first if self.mode == "mean_std" else (values + 1) / 2 * scale + first
        )


def _spread(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    spread = np.asarray(high - low)
    spread[spread == 0] = _EPSILON
    return spread


def _statistic(feature: Feature, key: str, mode: Mode, stats: Stats) -> NDArray[np.float64]:
    found = stats.get(feature.name, {}).get(key)
    if found is None:
        raise SourceError(
            f"{STATS} has no {key!r} of {feature.name!r}, which normalize={mode!r} needs: let lerobot compute it (its script "
            'augment_dataset_quantile_stats adds quantiles), or name the features to normalize, as in {"action": "mean_std"}'
        )
    if found.shape != feature.shape:
        raise SourceError(
            f"{key!r} of {feature.name!r} in {STATS} has the shape {list(found.shape)}, and the feature "
            f"{list(feature.shape)}: let lerobot compute it again"
        )
    return found
