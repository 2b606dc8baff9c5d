"""Recipe files: their schema, and errors that name the line.

A file holds a version and the operations, each in full or short form::

    version: 1
    operations:
    - {name: RandomResizedCrop, size: 224}
    - RandomResizedCrop: {size: 224}
    - RandomResizedCrop: 224          # the first field
    - HorizontalFlip                  # all fields have their defaults
    - OneOf: [GaussianBlur: 5, Grayscale: 1]

For several images of each sample, ``views``, a list of such lists of operations, takes the place of ``operations``. ``schedule``
is a list of recipes or views by epoch, each with its ``from_epoch``. ``camera_groups`` is a list of recipes, each with the names of
its ``cameras``. ``Recipe.save`` writes the full form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from inspect import signature
from os import PathLike
from typing import Any, TypeVar

from gpu_aug.errors import RecipeError
from gpu_aug.files.document import Document, read_document
from gpu_aug.files.limits import MAX_PIXELS, Keys
from gpu_aug.names import closest, hint
from gpu_aug.ops.operation import Operation, limit_pixels
from gpu_aug.recipe import FORMAT_VERSION, Recipe, find_misfit
from gpu_aug.schedule import Schedule
from gpu_aug.targets.targets import BoxParams, KeypointParams, MaskParams
from gpu_aug.views import CameraRecipes, Views

Made = TypeVar("Made", Recipe, Views, Schedule)

Functions = Mapping[str, Any]
"""Name in a file -> the function or module; files hold no code."""

# Key of a recipe in a file -> the class of its fields.
_TARGETS = {"boxes": BoxParams, "keypoints": KeypointParams, "masks": MaskParams}


def load_recipe(
    path: str | PathLike[str],
    *,
    functions: Functions | None = None,
    max_pixels: float = MAX_PIXELS,
) -> Recipe | Views:
    """Return the recipe, or the views, of a YAML or JSON file.

    Args:
        path: Path of a file that ``Recipe.save`` wrote, or that was written by hand.
        functions: The functions and modules that the file names, by name; see Recipe.save.
        max_pixels: Largest image that an operation may make, also in the middle of the recipe, in pixels.

    Raises:
        RecipeError: The file is invalid; the text begins with ``file:line``.
    """
    document = read_document(path)
    with limit_pixels(max_pixels):
        made = _build(document, functions or {})
    if isinstance(made, Schedule):
        raise document.fault(
            ("schedule",), "the file holds recipes by epoch: read it with Schedule.load(path)"
        )
    return made


def load_single(path: str | PathLike[str], **options: Any) -> Recipe:
    """Return the recipe of a file that ``save`` wrote or that was written by hand.

    Args:
        path: Path of a YAML or JSON file; see gpu_aug.files.schema.
        options: ``functions``, the functions and modules that the file names, by name, because files hold no code; and
            ``max_pixels``; see `load_recipe`.

    Raises:
        RecipeError: The file is missing or holds no single recipe; the text begins with ``file:line``.
    """
    recipe = load_recipe(path, **options)
    if isinstance(recipe, Views):
        raise RecipeError(
            f"{path} holds views, several recipes for each sample: read it with "
            "gpu_aug.files.schema.load_recipe(path)"
        )
    return recipe


def from_dict(cls: type[Made], saved: Any) -> Made:
    """Return the recipe, the views or the schedule that a dictionary from ``to_dict`` describes.

    Raises:
        RecipeError: The version is another one, an operation is unknown, or a field is invalid.
    """
    made = _build(Document("", saved, ""), {})
    if not isinstance(made, cls):
        raise RecipeError(
            f"{cls.__name__}.from_dict was given a {type(made).__name__}: call {type(made).__name__}.from_dict"
        )
    return made


def operation_from_dict(saved: Any) -> Operation:
    """Return the operation that a dictionary from ``to_dict`` describes.

    Raises:
        RecipeError: The name is not that of an operation, or a field is unknown or has an invalid value.
    """
    return _operation(Document("", saved, ""), (), saved, {})


def params_from_dict(cls: Any, saved: Any) -> Any:
    """Return the BoxParams, KeypointParams or MaskParams that a dictionary from ``to_dict`` describes.

    Raises:
        RecipeError: A field is unknown or has an invalid value.
    """
    return _plain_class(Document("", saved, ""), (cls.__name__,), saved, cls)


def _build(document: Document, functions: Functions) -> Recipe | Views | Schedule:
    _check_version(document)
    if "schedule" in document.value:
        return _schedule(document, functions)
    return _recipe_or_views(document, (), document.value, functions, ("version",))


def load_schedule(
    path: str | PathLike[str],
    *,
    functions: Functions | None = None,
    max_pixels: float = MAX_PIXELS,
) -> Schedule:
    """Return the schedule of a file that ``save`` wrote or that was written by hand.

    A file with a single recipe is a schedule, too.

    Args:
        path: Path of a YAML or JSON file; see gpu_aug.files.schema.
        functions: The functions and modules that the file names, by name, because files hold no code.
        max_pixels: Largest image that an operation may make, also in the middle of a recipe, in pixels.

    Raises:
        RecipeError: The file is missing or holds no schedule; the text begins with ``file:line``.
    """
    with limit_pixels(max_pixels):
        made = _build(read_document(path), functions or {})
    return made if isinstance(made, Schedule) else Schedule({0: made})


def _schedule(document: Document, functions: Functions) -> Schedule:
    value = document.value
    _check_keys(document, (), value, ("version", "schedule"), "a file of a schedule")
    parts = value["schedule"]
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise document.fault(
            ("schedule",), f"schedule must be a list of recipes with from_epoch, got {parts!r}"
        )
    known = ("from_epoch",)
    made = [
        (
            part.get("from_epoch"),
            _recipe_or_views(document, ("schedule", number), part, functions, known),
        )
        for number, part in enumerate(parts)
    ]
    if len(dict(made)) < len(made):
        epochs = [epoch for epoch, _ in made]
        raise document.fault(
            ("schedule",),
            f"a schedule must have one recipe for an epoch, got {epochs}: leave one out",
        )
    try:
        return Schedule(dict(made))
    except RecipeError as error:
        raise document.fault(("schedule",), str(error)) from error


def _check_version(document: Document) -> None:
    value = document.value
    version = value.get("version") if isinstance(value, dict) else type(value).__name__
    if not isinstance(value, dict) or version != FORMAT_VERSION or isinstance(version, bool):
        raise document.fault(
            ("version",),
            f"recipe version must be {FORMAT_VERSION}, got {version!r}: write version: "
            f"{FORMAT_VERSION} beside operations",
        )


def _recipe_or_views(
    document: Document, at: Keys, value: Any, functions: Functions, known: Sequence[str]
) -> Recipe | Views:
    """Return a recipe, or views or groups of cameras if the dictionary has them; it may also have the keys `known`."""
    if "camera_groups" in value:
        _check_keys(document, at, value, (*known, "camera_groups"), "a file of camera groups")
        return _camera_recipes(document, (*at, "camera_groups"), value["camera_groups"], functions)
    if "views" not in value:
        return _recipe(document, at, value, functions, (*known, "operations"))
    _check_keys(document, at, value, (*known, "views"), "a file of views")
    views = value["views"]
    if not isinstance(views, list) or not views:
        raise document.fault(
            (*at, "views"), f"views must be a list of lists of operations, got {views!r}"
        )
    return Views(
        [
            _recipe(document, (*at, "views", number), view, functions, ("operations",))
            for number, view in enumerate(views)
        ]
    )


def _camera_recipes(
    document: Document, at: Keys, value: Any, functions: Functions
) -> CameraRecipes:
    """Return the recipes of a list of groups of cameras."""
    recipes = {}
    for number, group in enumerate(value if isinstance(value, list) else [value]):
        names = group.get("cameras") if isinstance(group, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise document.fault(
                (*at, number),
                f"a group of cameras must have cameras, a list of names, and operations, got {group!r}",
            )
        if tuple(names) in recipes:  # the dictionary would lose the first of the two
            raise document.fault(
                (*at, number), f"{names} is a group twice: leave one of the two out"
            )
        known = ("cameras", "operations")
        recipes[tuple(names)] = _recipe(document, (*at, number), group, functions, known)
    try:
        return CameraRecipes(recipes)
    except RecipeError as error:
        raise document.fault(at, str(error)) from error


def _recipe(
    document: Document, keys: Keys, value: Any, functions: Functions, known: Sequence[str]
) -> Recipe:
    """Return the recipe of a list of operations, or of a dictionary that has one."""
    if not isinstance(value, dict):
        value, at = {"operations": value}, keys
    else:
        at = (*keys, "operations")
    _check_keys(document, keys, value, (*known, *_TARGETS, "output"), "a recipe")
    steps = value.get("operations")
    if not isinstance(steps, list) or not steps:
        raise document.fault(
            at,
            f"recipe operations must be a list of at least one operation, got {steps!r}: write a list, "
            "with a dash before each operation in YAML",
        )
    operations = [
        _operation(document, (*at, number), step, functions) for number, step in enumerate(steps)
    ]
    extra = {
        name: _plain_class(document, (*keys, name), value[name], cls)
        for name, cls in _TARGETS.items()
        if value.get(name) is not None
    }
    try:
        return Recipe(operations, **extra, output=value.get("output", ()))
    except RecipeError as error:
        misfit = find_misfit(operations)
        raise document.fault((*at, misfit[0]) if misfit else at, str(error)) from error


def _operation(document: Document, keys: Keys, value: Any, functions: Functions) -> Operation:
    """Return the operation that its full or short form describes."""
    name, values, keys_of = _spread(document, keys, value)
    cls = _find_class(document, keys, name)
    known = fields(cls)
    _check_names(document, keys_of, [one.name for one in known], f"{name} has no field")
    defaults = (MISSING, MISSING)
    missing = [one.name for one in known if (one.default, one.default_factory) == defaults]
    if lacking := [one for one in missing if one not in values]:
        raise document.fault(keys, f"{name} lacks its field {', '.join(lacking)}")
    for field, inner in list(values.items()):
        at = keys_of[field]
        if field == "operations" and isinstance(inner, list):
            values[field] = tuple(
                _operation(document, (*at, number), child, functions)
                for number, child in enumerate(inner)
            )
        if field == getattr(cls, "given_by_name", None) and isinstance(inner, str):
            if inner not in functions:
                raise document.fault(
                    at,
                    f"{name} names {inner!r}, and a file holds no code: "
                    f"give it as functions={{{inner!r}: ...}}",
                )
            values |= {field: functions[inner], "name": inner}
    try:
        return cls(**values)
    except RecipeError as error:
        if ":" in str(error) and str(error).startswith(document.name):
            raise
        blamed = next((f for f in values if str(error).startswith(f"{name} {f} ")), None)
        raise document.fault(keys_of[blamed] if blamed else keys, str(error)) from error


def _spread(document: Document, keys: Keys, value: Any) -> tuple[str, dict[str, Any], Any]:
    """Return the name of an operation in any form, its fields, and the keys under which each field stands in the file."""
    if isinstance(value, str):
        return value, {}, {}
    if isinstance(value, dict) and "name" in value:
        values = {field: item for field, item in value.items() if field != "name"}
        return value["name"], values, {field: (*keys, field) for field in values}
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        keys = (*keys, name)
        if inner is None:
            return name, {}, {}
        if isinstance(inner, dict) and not _is_short(inner):
            return name, dict(inner), {field: (*keys, field) for field in inner}
        first = next(iter(signature(_find_class(document, keys, name)).parameters), None)
        if first is None:
            raise document.fault(keys, f"{name} has no fields, got {inner!r}: write {name} alone")
        return name, {first: inner}, {first: keys}
    raise document.fault(
        keys,
        "an operation must be a name, or a name and its fields such as "
        f"{{name: HorizontalFlip, p: 0.5}}, got {value!r}",
    )


def _is_short(value: dict[str, Any]) -> bool:
    """Return whether a dictionary is an operation in its short form, and not the fields of an operation."""
    return len(value) == 1 and next(iter(value)) in Operation._classes


def _find_class(document: Document, keys: Keys, name: Any) -> type[Operation]:
    known = Operation._classes
    if isinstance(name, str) and name in known:
        return known[name]
    way = hint(name, known) if isinstance(name, str) else ""
    listed = "the name of one" if way else f"one of {', '.join(sorted(known))}"
    way = way or "correct the name in the recipe"
    raise document.fault((*keys, "name"), f"operation must be {listed}, got {name!r}: {way}")


def _check_keys(
    document: Document, keys: Keys, value: dict[str, Any], known: Sequence[str], what: str
) -> None:
    _check_names(document, {key: (*keys, key) for key in value}, known, f"{what} has no")


def _check_names(
    document: Document, keys_of: Mapping[str, Keys], known: Sequence[str], lacks: str
) -> None:
    for name, keys in keys_of.items():
        if name not in known:
            close = closest(name, known)
            raise document.fault(
                keys,
                f"{lacks} {name!r}; it has: {', '.join(known) or 'none'}"
                + (f" (did you mean {close}?)" if close else ""),
            )


def _plain_class(document: Document, keys: Keys, value: Any, cls: Any) -> Any:
    """Return an instance of a dataclass with plain values, made from a dictionary of its fields."""
    if not isinstance(value, dict):
        raise document.fault(keys, f"{keys[-1]} must be fields of {cls.__name__}, got {value!r}")
    _check_keys(document, keys, value, [field.name for field in fields(cls)], cls.__name__)
    try:
        return cls(**value)
    except (RecipeError, TypeError) as error:
        blamed = next((field for field in value if f" {field} " in str(error)), None)
        raise document.fault((*keys, blamed) if blamed else keys, str(error)) from error
