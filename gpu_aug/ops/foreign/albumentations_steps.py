"""Properties of Albumentations transforms, found by class name without importing the package, and construction of transforms.

From a description, only classes of Albumentations itself are constructed.
"""

import json
import warnings
from collections.abc import Mapping
from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.ops.foreign.code import describe_class, describe_code


def leaves_of(transform: Any) -> list[Any]:
    """Return the transforms inside a Compose or another container, in order; a single transform is returned in a list."""
    if all(base.__name__ != "BaseCompose" for base in type(transform).__mro__):
        return [transform]
    return [leaf for child in transform.transforms for leaf in leaves_of(child)]


def is_code(leaf: Any) -> bool:
    """Return whether a transform holds a function of the user, or is of a class outside Albumentations."""
    kind = type(leaf)
    return kind.__name__ == "Lambda" or not kind.__module__.startswith("albumentations.")


def changes_values_only(leaf: Any) -> bool:
    """Return whether a transform is known to move no pixels."""
    bases = {base.__name__ for base in type(leaf).__mro__}
    if type(leaf).__name__ == "Lambda":
        return set(leaf.custom_apply_fns) <= {"image"}
    return bool(bases & {"ImageOnlyTransform", "NoOp", "ToTensorV2"})


def with_code(transform: Any, described: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a transform with digests of the user's code added.

    The names of the user's modules are left out, so that the description stays equal if the code moves to another module.
    """
    leaves = [leaf for leaf in leaves_of(transform) if is_code(leaf)]
    if not leaves:
        return described
    shortened: dict[str, Any] = _without(
        {f"{type(leaf).__module__}." for leaf in leaves}, described
    )
    return shortened | {"code": [_describe(leaf) for leaf in leaves]}


def _describe(leaf: Any) -> Any:
    functions = getattr(leaf, "custom_apply_fns", None)
    if functions is None:
        return describe_class(type(leaf))
    given = {name: functions[name] for name in functions if functions[name].__name__ != "noop"}
    return [leaf.p, {name: describe_code(function) for name, function in given.items()}]


def _without(modules: set[str], described: Any) -> Any:
    """Return a description in which the names of classes lack these prefixes, the names of modules."""
    if isinstance(described, list):
        return [_without(modules, item) for item in described]
    if isinstance(described, dict):
        return {key: _without(modules, item) for key, item in described.items()}
    if isinstance(described, str):
        return next(
            (described.removeprefix(m) for m in modules if described.startswith(m)), described
        )
    return described


def short_name(full: str) -> str:
    """Return the class name that ``A.save`` writes; classes of other packages keep the name of their module."""
    return full.rpartition(".")[2] if full.startswith("albumentations.") else full


def build_transform(described: Mapping[str, Any]) -> Any:
    """Return the transform, or the Compose with its transforms, that a description stands for.

    Args:
        described: The description, as ``to_dict()["transform"]`` returned it.

    Raises:
        RecipeError: The class is not one of Albumentations, or its arguments are invalid.
    """
    values = {str(key): value for key, value in described.items()}
    name = short_name(str(values.pop("__class_fullname__", "")))
    cls = _find_class(name)
    if "transforms" in values:
        values["transforms"] = [build_transform(child) for child in values["transforms"]]
    if "p" not in values and name not in ("Compose", "Sequential"):
        values["p"] = 0.5  # as A.from_dict does
    return call(cls, name, values)


def call(cls: Any, name: str, values: dict[str, Any]) -> Any:
    """Return the transform that an Albumentations class makes of ``values``; arguments that it would ignore are an error.

    Raises:
        RecipeError: An argument is unknown or has an invalid value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            transform = cls(**values)
        except Exception as error:
            raise RecipeError(
                f"{name} cannot be built with these arguments: {' '.join(str(error).split())}"
            ) from error
    own = transform.to_dict_private() if hasattr(transform, "invalid_args") else {}
    ignored = [
        argument
        for argument in getattr(transform, "invalid_args", ())
        # Some write what their base class is made with, which follows from their own arguments.
        if argument not in own or _plain(own[argument]) != _plain(values[argument])
    ]
    if ignored:
        raise RecipeError(
            f"Albumentations {_version()} has no argument {', '.join(ignored)} of {name}, and would ignore "
            "it: write the pipeline again with this version"
        )
    return transform


def _plain(value: Any) -> Any:
    """Return a value as it looks after writing to and reading from JSON: tuples become lists."""
    return json.loads(json.dumps(value, default=repr))


def _version() -> str:
    import albumentations

    return str(albumentations.__version__)


def _find_class(name: str) -> Any:
    import albumentations as A
    import albumentations.pytorch
    from albumentations.core.serialization import Serializable

    cls = getattr(A, name, None) or getattr(albumentations.pytorch, name, None)
    if not isinstance(cls, type) or not issubclass(cls, Serializable):
        raise RecipeError(f"{name} is not a class of Albumentations {_version()}")
    if name == "Lambda":
        raise RecipeError("Lambda holds functions, which are not in its description")
    return cls
