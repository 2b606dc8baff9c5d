"""Export of recipes as Albumentations pipelines.

A transform is a candidate if it has the name of the operation, or one of its ALIASES, and takes the operation's fields. It is
exported only if importing it gives the operation back, so that import and export are inverse.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from inspect import signature
from typing import Any

from gpu_aug.convert.registry import ALBUMENTATIONS
from gpu_aug.errors import RecipeError
from gpu_aug.ops.combine import OneOf, RandomApply, RandomOrder, SomeOf, SomeOfRepeated
from gpu_aug.ops.foreign.albumentations_steps import call
from gpu_aug.ops.foreign.transforms import AlbumentationsTransform
from gpu_aug.ops.geometric.flips import Identity
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe
from gpu_aug.targets.targets import BOX_ALIASES, BoxParams, KeypointParams

ALIASES: dict[str, tuple[str, ...]] = {
    "Affine": ("ShiftScaleRotate",),
    "ElasticDistortion": ("ElasticTransform",),
    "EqualizeLuma": ("Equalize",),
    "FixedCrop": ("Crop",),
    "Gamma": ("RandomGamma",),
    "Grayscale": ("ToGray",),
    "HistogramStretch": ("AutoContrast",),
    "Invert": ("InvertImg",),
    "JPEG": ("ImageCompression",),
    "NormalizePerImage": ("Normalize",),
    "RandomErasing": ("Erasing",),
    "ToDtype": ("FromFloat",),
    "WebP": ("ImageCompression",),
}
"""Operation -> names of Albumentations' classes, where they differ."""

RENAMED: dict[str, tuple[str, ...]] = {
    "angle": ("rotate_limit", "angle_range"),
    "independent": ("sample_independently",),
    "kernel_size": ("blur_limit",),
    "num_channels": ("channel_drop_range",),
}
"""Field -> names of arguments, where they differ."""

CHOSEN: dict[str, list[dict[str, Any]]] = {
    "EqualizeLuma": [{"mode": mode, "by_channels": False} for mode in ("cv", "pil")],
    "Equalize": [{"mode": mode} for mode in ("cv", "pil")],
    "HistogramStretch": [{"method": method} for method in ("cdf", "pil")],
    "JPEG": [{"compression_type": "jpeg"}],
    "NormalizePerImage": [
        {"normalization": name}
        for name in ("image", "image_per_channel", "min_max", "min_max_per_channel")
    ],
    "WebP": [{"compression_type": "webp"}],
}
"""Operation -> arguments to try where fields and arguments do not correspond one to one."""

# cv2's numbers.
_INTERPOLATIONS = {"nearest_floor": 0, "bilinear": 1, "bicubic": 2, "area": 3, "nearest": 6}
_BORDERS = {"constant": 0, "edge": 1, "symmetric": 2, "reflect": 4}  # cv2.BORDER_*
# Shape and normalisation of boxes -> Albumentations' name.
_FORMATS = {meant: name for name, meant in BOX_ALIASES.items()}


def to_albumentations(recipe: Recipe) -> Any:
    """Return an ``A.Compose`` with the distributions of a recipe and, on float32 images, its pixels.

    Raises:
        RecipeError: Operations have no equivalent in Albumentations; the error has one sentence for each.
    """
    import albumentations as A

    exporter = _Exporter(A)
    steps = [exporter.step(operation, "Recipe") for operation in recipe.operations]
    targets: dict[str, Any] = {}
    try:
        if recipe.boxes is not None:
            targets["bbox_params"] = _boxes(recipe.boxes, A)
        if recipe.keypoints is not None:
            targets["keypoint_params"] = _keypoints(recipe.keypoints, A)
    except RecipeError as error:
        exporter.refused.append(f"Recipe: {error}")
    if any(params.flip_pairs for params in recipe.target_params.values()):
        exporter.refused.append(
            "Recipe: Albumentations exchanges no labels; nearest: flip_pairs=()"
        )
    if exporter.refused:
        listed = "".join(f"\n  {line}" for line in exporter.refused)
        raise RecipeError(f"the recipe has no equal in Albumentations:{listed}")
    return A.Compose(steps, **targets)


class _Exporter:
    """Makes transforms of ``library``, the module ``albumentations``."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.refused: list[str] = []
        self.containers: dict[type, Callable[[Any, str], Any]] = {
            RandomApply: self._random_apply,
            OneOf: self._one_of,
            SomeOf: self._some_of,
            SomeOfRepeated: self._some_of,
            RandomOrder: self._random_order,
        }

    def step(self, operation: Operation, path: str) -> Any:
        """Return the equivalent transform; if there is none, record the refusal and return NoOp."""
        name = type(operation).__name__
        path = f"{path} > {name}"
        try:
            if type(operation) in self.containers:
                return self.containers[type(operation)](operation, path)
            if isinstance(operation, AlbumentationsTransform):
                return operation.transform
            if isinstance(operation, Identity):
                return self._library.NoOp(p=1.0)
            return export_leaf(operation, self._library)
        except RecipeError as error:
            self.refused.append(f"{path}: {error}")
            return self._library.NoOp(p=1.0)

    def _children(self, operation: Any, path: str) -> list[Any]:
        return [self.step(child, path) for child in operation.operations]

    def _random_apply(self, operation: RandomApply, path: str) -> Any:
        return self._library.Sequential(self._children(operation, path), p=operation.p)

    def _one_of(self, operation: OneOf, path: str) -> Any:
        """Return the ``A.OneOf`` of a choice.

        Albumentations always applies the chosen child and uses its p as weight, so a child with a p below 1 is wrapped
        in a container.
        """
        weights = list(operation.weights or [1.0] * len(operation.operations))
        most = max(*weights, 1.0)
        children = []
        for child, weight in zip(self._children(operation, path), weights, strict=True):
            if hasattr(child, "transforms") or child.p != 1:
                child = self._library.Sequential([child], p=weight / most)
            else:
                child.p = weight / most
            children.append(child)
        return self._library.OneOf(children, p=operation.p)

    def _some_of(self, operation: SomeOf | SomeOfRepeated, path: str) -> Any:
        return self._library.SomeOf(
            self._children(operation, path),
            n=_exactly(operation.n),
            replace=isinstance(operation, SomeOfRepeated),
            p=operation.p,
        )

    def _random_order(self, operation: RandomOrder, path: str) -> Any:
        n = len(operation.operations) if operation.n is None else _exactly(operation.n)
        return self._library.RandomOrder(self._children(operation, path), n=n, p=operation.p)


def _exactly(n: int | tuple[int, int]) -> int:
    if isinstance(n, int):
        return n
    raise RecipeError(f"Albumentations does a fixed number of them, got n={n}; nearest: n={n[1]}")


def export_leaf(operation: Operation, library: Any) -> Any:
    """Return the transform of ``library``, the module ``albumentations``, that is imported as ``operation``.

    Raises:
        RecipeError: No transform is equivalent; the error names the nearest one and the fields that differ.
    """
    name, nearest = type(operation).__name__, ""
    for candidate in dict.fromkeys((name, name.removeprefix("Random"), *ALIASES.get(name, ()))):
        cls = getattr(library, candidate, None)
        converter = ALBUMENTATIONS.get(candidate)
        if cls is None or converter is None:
            continue
        for values in _arguments(operation, cls):
            try:
                transform = call(cls, candidate, values)
                described = transform.to_dict_private()
                described.pop("__class_fullname__")
                found = converter(described)
            except (RecipeError, TypeError, NotImplementedError):
                continue
            if found == operation:
                return transform
            if isinstance(found, Operation) and not nearest:
                nearest = _difference(operation, found, candidate)
    raise RecipeError(
        f"Albumentations has no transform with this law{'; nearest: ' if nearest else ''}{nearest}"
    )


def _arguments(operation: Operation, cls: Any) -> Iterator[dict[str, Any]]:
    """Yield possible arguments of a class for the fields of an operation, as dictionaries to try in turn."""
    known = set(signature(cls.__init__).parameters) - {"self"}
    given = {field.name: getattr(operation, field.name) for field in fields(operation)}
    values: dict[str, Any] = {"p": 1.0}
    for name, value in given.items():
        values |= {key: item for key, item in _written(name, value, given) if key in known}
    yield values
    for chosen in CHOSEN.get(type(operation).__name__, ()):
        yield values | chosen
    yield values | {  # where a range is asked for
        key: (item, item)
        for key, item in values.items()
        if isinstance(item, int | float) and not isinstance(item, bool) and key != "p"
    }
    if "interpolation" in values:  # warps write nearest so
        yield values | {
            "interpolation": {6: 0}.get(values["interpolation"], values["interpolation"])
        }


def _written(name: str, value: Any, given: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for other in (*RENAMED.get(name, ()), f"{name}_range", f"{name}_limit"):
        yield other, value
    if name in ("interpolation", "mask_interpolation"):
        yield name, _INTERPOLATIONS.get(value, value)
    elif name == "padding_mode":
        yield "border_mode", _BORDERS.get(value, value)
    elif name == "area_for_downscale":
        yield name, "image" if value else None
    elif name in ("fill", "color"):
        yield name, _whole_times_255(value)
    elif name == "gamma":
        yield "gamma_limit", tuple(_near_whole(100 * end) for end in value)
    elif name == "scale" and "translate_percent" not in given and isinstance(value, tuple):
        yield from ((name, value), ("scale_limit", (value[0] - 1, value[1] - 1)))
    elif _is_pair_of_pairs(value):
        yield name, {"x": value[0], "y": value[1]}
        yield f"{name.removeprefix('translate_')}_limit", value
    elif name == "size" and isinstance(value, tuple):
        yield from ((name, value), ("height", value[0]), ("width", value[1]))
        yield from (("min_height", value[0]), ("min_width", value[1]))
        corner = given.get("position")
        if isinstance(corner, tuple):
            yield from (("x_min", corner[1]), ("y_min", corner[0]))
            yield from (("x_max", corner[1] + value[1]), ("y_max", corner[0] + value[0]))
    elif name == "down":
        names = _INTERPOLATIONS | {"nearest": 0, "nearest_exact": 6}
        way = [names.get(given[key], given[key]) for key in ("down", "up")]
        yield "interpolation_pair", {"downscale": way[0], "upscale": way[1]}
    else:
        yield name, value


def _is_pair_of_pairs(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple)


def _whole_times_255(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_whole_times_255, value))
    return _near_whole(value * 255) if isinstance(value, int | float) else value


def _near_whole(value: float) -> float:
    """Return a number without the rounding error of a division by 255: the nearest integer if it is close."""
    return round(value) if abs(value - round(value)) < 1e-6 else value


def _difference(operation: Operation, found: Operation, candidate: str) -> str:
    if type(found) is not type(operation):
        return f"{candidate}, which is {found!r}"
    differing = [
        f"{field.name} is {getattr(found, field.name)!r} and not {getattr(operation, field.name)!r}"
        for field in fields(operation)
        if getattr(found, field.name) != getattr(operation, field.name)
    ]
    return f"{candidate}, where {', '.join(differing)}"


def _boxes(params: BoxParams, library: Any) -> Any:
    box_format = _FORMATS.get((params.format, params.normalized))
    if box_format is None or params.keep_empty or params.instance_masks:
        raise RecipeError(f"{params!r} has no equal in Albumentations; nearest: format 'xyxy'")
    if not params.shrink_in_holes:
        raise RecipeError(
            "Albumentations shrinks boxes in holes; nearest: BoxParams(shrink_in_holes=True)"
        )
    return library.BboxParams(
        format=box_format,
        min_area=params.min_area,
        min_visibility=params.min_visibility,
        min_width=params.min_width,
        min_height=params.min_height,
        max_accept_ratio=params.max_accept_ratio,
        clip=params.clip,
        filter_invalid_bboxes=params.filter_invalid,
        check_each_transform=params.check_each,
    )


def _keypoints(params: KeypointParams, library: Any) -> Any:
    if params.pixel_index is not True or params.drop_in_holes != params.remove_invisible:
        raise RecipeError(
            "Albumentations counts keypoints in pixels and drops those in holes; "
            "nearest: KeypointParams(pixel_index=True, drop_in_holes=True)"
        )
    return library.KeypointParams(
        format="xy",
        remove_invisible=params.remove_invisible,
        check_each_transform=params.check_each,
    )
