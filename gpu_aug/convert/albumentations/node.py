"""A pipeline of Albumentations as a tree of nodes, made from its objects or from their description."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_aug.convert.registry import ALBUMENTATIONS
from gpu_aug.errors import RecipeError
from gpu_aug.ops.foreign.albumentations_steps import build_transform, short_name

# Key of a Compose's processors -> the argument that makes it.
_PROCESSORS = {"bboxes": "bbox_params", "keypoints": "keypoint_params"}


@dataclass
class Node:
    """A transform, or a container with its transforms.

    Attributes:
        name: Name of its class, as ``A.save`` writes it.
        args: Arguments of the constructor, as ``to_dict`` writes them.
        children: The transforms inside a container; None for a single transform.
        transform: The object, or None if only its description is known.
        fault: Why it cannot be described or built; "" if it can.
        source: The transform as text for the report.
    """

    name: str
    args: dict[str, Any]
    children: "list[Node] | None" = None
    transform: Any = None
    fault: str = ""
    source: str = field(default="")


def as_node(source: Any) -> Node:
    """Return the tree of a pipeline object, or of a description without the version around it.

    Raises:
        RecipeError: ``source`` is neither.
    """
    if isinstance(source, Mapping):
        return _from_dict(source)
    if isinstance(source, list | tuple):
        return Node("Compose", {"p": 1.0}, [as_node(child) for child in source])
    if hasattr(source, "get_class_fullname") and hasattr(source, "to_dict_private"):
        return _from_object(source)
    raise RecipeError(
        "an Albumentations pipeline must be a Compose or a transform, what its to_dict() returned, or "
        f"a file that A.save wrote, got {source!r}"
        + ": give it to Recipe.from_torchvision"
        * type(source).__module__.startswith("torchvision.")
    )


def _from_object(transform: Any) -> Node:
    name = short_name(transform.get_class_fullname())
    if any(base.__name__ == "BaseCompose" for base in type(transform).__mro__):
        nodes = [as_node(child) for child in transform.transforms]
        return Node(name, _settings(transform), nodes, transform, source=name)
    try:
        args = transform.to_dict_private()
    except (NotImplementedError, ValueError) as error:  # ValueError: a Lambda without a name
        # A transform that holds data is refused with the reason of its class, if that has one.
        fault = "" if name in ALBUMENTATIONS else f"{error}"
        return Node(name, {"p": transform.p}, None, transform, fault, repr(transform))
    args.pop("__class_fullname__", None)
    return Node(name, args, None, transform, source=repr(transform))


def _settings(container: Any) -> dict[str, Any]:
    """Return the arguments of a container, without its transforms."""
    names = ("p", "n", "replace", "channels", "is_check_shapes", "seed")
    args = {name: getattr(container, name) for name in names if hasattr(container, name)}
    args["additional_targets"] = dict(getattr(container, "additional_targets", {}))
    processors = getattr(container, "processors", {})
    for key, name in _PROCESSORS.items():
        if key in processors:
            args[name] = dict(vars(processors[key].params))
    return args


def _from_dict(described: Mapping[str, Any]) -> Node:
    if not isinstance(described, Mapping) or "__class_fullname__" not in described:
        raise RecipeError(
            "each transform of an Albumentations file must have __class_fullname__, "
            f"got {str(described)[:80]}"
        )
    name = short_name(str(described["__class_fullname__"]))
    args = {str(k): v for k, v in described.items() if k != "__class_fullname__"}
    source = f"{name}({', '.join(f'{k}={v!r}' for k, v in args.items() if k != 'transforms')})"
    if {"applied", "params"} <= set(args):
        fault = "it is the record of one call of ReplayCompose, and no pipeline"
        return Node(name, args, None, fault=fault, source=source)
    children = args.pop("transforms", None)
    if isinstance(children, list | tuple):
        if "p" not in args:
            args["p"] = {"Compose": 1.0}.get(name, 0.5)
        return Node(name, args, [as_node(child) for child in children], source=name)
    try:
        transform = build_transform(described)
    except ModuleNotFoundError:  # without the package the description has to be complete
        return Node(name, args, None, source=source)
    except RecipeError as error:
        return Node(name, args, None, fault=str(error), source=source)
    return _from_object(transform)
