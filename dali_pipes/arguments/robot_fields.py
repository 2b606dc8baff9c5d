"""Find the types of a loader's fields for a mixture of LeRobot datasets, which may differ in features and shapes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    texts = [one.numbered_texts.get(name) for one in robots]
    if any(one != texts[0] for one in texts):
        raise LoaderError(
            f"the field {name!r} has numbers that stand for other texts in each dataset: take the field "
            f'{name.removesuffix("_index")!r}, or the labels of mix(..., labels="offset")'
        )
    types = [(one, _type_of(one, name)) for one in robots]
    kinds = {kind for _, kind in types}
    if way is not read_untyped or len(kinds) == 1:
        return way
    camera = name.removesuffix("_is_pad")
    of_camera = {kind for one, kind in types if camera in one.cameras}
    if len(of_camera) == 1 and camera != name and (kind := of_camera.pop()) is not None:
        return Field(np.ndarray, dtype=torch.bool, shape=kind[1], default=np.ones(kind[1], bool))
    shown = [
        f"{f'{kind[0]} {list(kind[1])}' if kind else 'missing'} in {one.root}"
        for one, kind in types
    ]
    raise LoaderError(
        f"the field {name!r} is {', '.join(shown)}, and a batch needs one type: leave it out of fields=, "
        f"{_advice(name, kinds)}"
    )


def _type_of(robot: LeRobotDataset, name: str) -> tuple[str, tuple[int, ...]] | None:
    """Return dtype and shape of a field, ("text", ()) for text; None if the dataset does not have it."""
    feature = robot.info.features.get(name)
    is_text = f"{name}_index" in robot.numbered_texts or (feature and feature.kind == "text")
    return ("text", ()) if is_text else robot.field_types.get(name)


def _advice(name: str, kinds: Collection[tuple[str, tuple[int, ...]] | None]) -> str:
    """Return how to declare a field of several types, as part of a sentence."""
    dtypes, shapes = zip(*filter(None, kinds), strict=True)
    if "text" in dtypes or len(set(map(len, shapes))) > 1:
        return f"or give a function that returns one type: fields={{{name!r}: Field(function)}}"
    shape = tuple(map(max, zip(*shapes, strict=True)))
    dtype = dtypes[0] if len(set(dtypes)) == 1 else "float32"
    options = ", pad=0" * (len(set(shapes)) > 1) + f", default=np.zeros({shape})" * (None in kinds)
    return (
        f"give delta_timestamps of one length, or declare one shape: fields={{{name!r}: Field(np.ndarray, "
        f"dtype=torch.{dtype}, shape={shape}{options})}}"
    )
