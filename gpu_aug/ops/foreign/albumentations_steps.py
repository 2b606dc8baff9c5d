"""Facts about transforms of Albumentations, by class name, so that it need not be imported."""

from typing import Any

from gpu_aug.ops.foreign.code import describe_class, describe_code


def leaves_of(transform: Any) -> list[Any]:
    """Return the transforms that a transform is made of; itself, where it is no Compose or the like."""
    if all(base.__name__ != "BaseCompose" for base in type(transform).__mro__):
        return [transform]
    return [leaf for child in transform.transforms for leaf in leaves_of(child)]


def is_code(leaf: Any) -> bool:
    """Whether a leaf holds a function, or is of a class that is not Albumentations'."""
    kind = type(leaf)
    return kind.__name__ == "Lambda" or not kind.__module__.startswith("albumentations.")


def changes_values_only(leaf: Any) -> bool:
    """Whether a leaf moves no pixels."""
    bases = {base.__name__ for base in type(leaf).__mro__}
    if type(leaf).__name__ == "Lambda":
        return set(leaf.custom_apply_fns) <= {"image"}
    return bool(bases & {"ImageOnlyTransform", "NoOp", "ToTensorV2"})


def with_code(transform: Any, described: dict[str, Any]) -> dict[str, Any]:
    """Add to a transform's own description what `is_code` in it does, and leave the modules of that out."""
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
    """Leave the names of modules out of the names of classes."""
    if isinstance(described, list):
        return [_without(modules, item) for item in described]
    if isinstance(described, dict):
        return {key: _without(modules, item) for key, item in described.items()}
    if isinstance(described, str):
        return next(
            (described.removeprefix(m) for m in modules if described.startswith(m)), described
        )
    return described
