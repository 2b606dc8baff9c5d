"""Find the types of a loader's fields for a mixture of LeRobot datasets, which may differ in features and shapes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dali_pipes.errors import LoaderError
from dali_pipes.samples.fields import Field, read_untyped, ways_of
from dali_pipes.video.source import robots_of
from readers import Dataset
from readers.formats.lerobot.dataset import LeRobotDataset


def with_robot_fields(
    given: Iterable[str] | Mapping[str, Any] | None, dataset: Dataset
) -> Iterable[str] | Mapping[str, Any] | None:
    """Return the loader's argument `fields`, in which ``CAMERA_is_pad`` is true for datasets that lack the camera.

    Args:
        given: The argument; fields that have a Field are not changed.
        dataset: The loader's dataset; nothing is changed unless it joins several LeRobot datasets.

    Raises:
        LoaderError: A field is a camera, or the padding of a feature without delta_timestamps; or a field that is given
            by name only has several types, shapes or formulas of normalization, or is missing in some datasets.
    """
    robots = robots_of(dataset)
    if not robots or isinstance(given, str) or not isinstance(given, Iterable):
        return given
    ways = ways_of(given)
    for name in ways:
        _require_field(name, robots)
    return {name: _way(name, way, robots) for name, way in ways.items()}


def _require_field(name: Any, robots: Sequence[LeRobotDataset]) -> None:
    """Raise a LoaderError if a field is a camera, or the padding of a feature without delta_timestamps."""
    if any(name in one.cameras for one in robots):
        raise LoaderError(
            f"fields= names {name!r}, which is a camera: leave it out, every batch has pictures in batch.cameras[{name!r}] "
            f"and distances in batch[{name!r}]"
        )
    feature = name.removesuffix("_is_pad") if isinstance(name, str) else name
    if feature != name and not any(_type_of(one, name) for one in robots):
        raise LoaderError(
            f"the field {name!r} is missing, because {feature!r} has no offsets: give "
            f"delta_timestamps={{{feature!r}: [...]}}, or leave it out"
        )


def _way(name: str, way: Any, robots: Sequence[LeRobotDataset]) -> Any:
    """Return how to read a field of some LeRobot datasets; see `with_robot_fields`."""
    if way is not read_untyped:
        return way
    texts = [one.numbered_texts.get(name) for one in robots]
    if any(one != texts[0] for one in texts):
        raise LoaderError(
            f"the numbers in the field {name!r} mean different texts in different datasets: take the texts, "
            f"{name.removesuffix('_index')!r}, or declare the field, as in fields={{{name!r}: Field(np.ndarray, "
            "dtype=torch.int64, shape=())}, and tell the datasets apart with batch.dataset_index"
        )
    types = [(one, _type_of(one, name)) for one in robots]
    kinds = {kind for _, kind in types}
    if len(kinds) == 1:
        _require_one_formula(name, robots)
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
        f"the field {name!r} is {', '.join(shown)}, and a batch needs one type: leave it out of fields=, give "
        f"delta_timestamps of one length, or declare it: fields={{{name!r}: Field({_arguments(kinds)})}}"
    )


def _require_one_formula(name: str, robots: Sequence[LeRobotDataset]) -> None:
    """Raise a LoaderError if datasets normalize a field by different formulas, or some do not: its values have no one unit."""
    formulas = [one.normalize.get(name, "none") for one in robots]
    if len({*formulas}) > 1:
        shown = ", ".join(f"{how} in {one.root}" for how, one in zip(formulas, robots, strict=True))
        dtype, shape = robots[0].field_types[name]
        raise LoaderError(
            f"the field {name!r} is normalized differently, {shown}: open all datasets with the same normalize=, or "
            f"declare it: fields={{{name!r}: Field(np.ndarray, dtype=torch.{dtype}, shape={shape})}}"
        )


def _type_of(robot: LeRobotDataset, name: str) -> tuple[str, tuple[int, ...]] | None:
    """Return dtype and shape of a field, ("text", ()) for text; None if the dataset does not have it."""
    feature = robot.info.features.get(name)
    is_text = f"{name}_index" in robot.numbered_texts or (feature and feature.kind == "text")
    return ("text", ()) if is_text else robot.field_types.get(name)


def _arguments(kinds: Collection[tuple[str, tuple[int, ...]] | None]) -> str:
    """Return the arguments of a Field that makes one type of several, as a text."""
    dtypes, shapes = zip(*filter(None, kinds), strict=True)
    if set(dtypes) == {"text"}:
        return 'str, default=""'
    if "text" in dtypes or len(set(map(len, shapes))) > 1:
        return "function"
    shape = tuple(map(max, zip(*shapes, strict=True)))
    dtype = dtypes[0] if len(set(dtypes)) == 1 else "float32"
    options = ", pad=0" * (len(set(shapes)) > 1) + f", default=np.zeros({shape})" * (None in kinds)
    return f"np.ndarray, dtype=torch.{dtype}, shape={shape}{options}"
