"""Find the types of a loader's fields for a mixture of LeRobot datasets, which may differ in features and shapes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dali_pipes.errors import LoaderError
from dali_pipes.samples.fields import Field, read_untyped
from readers import Dataset
from readers.datasets.origin import sources_of
from readers.formats.lerobot.dataset import LeRobotDataset


def with_robot_fields(
    given: Iterable[str] | Mapping[str, Any] | None, dataset: Dataset
) -> Iterable[str] | Mapping[str, Any] | None:
    """Return the loader's argument `fields`, in which ``CAMERA_is_pad`` is true for datasets that lack the camera.

    Args:
        given: The argument; fields that have a Field are not changed.
        dataset: The loader's dataset; nothing is changed or refused unless it joins several LeRobot datasets.

    Raises:
        LoaderError: A field that is given by name only has several types or shapes, or some datasets lack it.
    """
    robots = [one for one in sources_of(dataset) if isinstance(one, LeRobotDataset)]
    if len(robots) < 2 or isinstance(given, str) or not isinstance(given, Iterable):
        return given
    ways = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, read_untyped)
    return {name: _way(name, way, robots) for name, way in ways.items()}


def _way(name: str, way: Any, robots: Sequence[LeRobotDataset]) -> Any:
    """Return how to read a field of some LeRobot datasets; see `with_robot_fields`."""
    types = [(one, one.field_types.get(name)) for one in robots]
    if way is not read_untyped or len({kind for _, kind in types}) == 1:
        return way
    camera = name.removesuffix("_is_pad")
    of_camera = {kind for one, kind in types if camera in one.cameras}
    if len(of_camera) == 1 and (kind := of_camera.pop()) is not None and camera != name:
        return Field(np.ndarray, dtype=torch.bool, shape=kind[1], default=np.ones(kind[1], bool))
    shown = [
        f"{'missing' if kind is None else f'{kind[0]} {list(kind[1])}'} in {one.root}"
        for one, kind in types
    ]
    raise LoaderError(
        f"the field {name!r} is {', '.join(shown)}, which make no tensor together: leave it out of fields=, give "
        f"delta_timestamps of one length if only the first number differs, or declare one shape, as in "
        f'fields={{"{name}": Field(function, dtype=torch.float32, shape=(7,))}} with a function of the .npy bytes that pads, '
        "and default= where it is missing"
    )
