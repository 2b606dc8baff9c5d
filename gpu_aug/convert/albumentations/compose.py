"""Converters for the containers of Albumentations: Compose, OneOf, SomeOf and others."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from gpu_aug.convert.albumentations.node import Node, as_node
from gpu_aug.convert.albumentations.processors import read_processors
from gpu_aug.convert.containers import (
    as_one,
    choice,
    probe,
    rounded_once,
    sometimes,
    times_255,
    within_8_bits,
)
from gpu_aug.convert.registry import ALBUMENTATIONS, Changed, Refused
from gpu_aug.convert.report import Walk
from gpu_aug.convert.translate import refuse_functions, suggestion
from gpu_aug.engines.seeded import albumentations_function
from gpu_aug.errors import RecipeError
from gpu_aug.ops.combine import OneOf, RandomOrder, SomeOf, SomeOfRepeated
from gpu_aug.ops.foreign.transforms import AlbumentationsTransform
from gpu_aug.ops.geometric.flips import Identity
from gpu_aug.ops.geometric.spatial import Spatial
from gpu_aug.ops.operation import Operation
from gpu_aug.output import GRAY
from gpu_aug.recipe import Recipe
from gpu_aug.targets.targets import BoxParams

# Containers whose children are all applied, in order.
_SEQUENCES = ("Compose", "ReplayCompose", "Sequential")
# Transforms that need no operation; a Lambda only if its functions do nothing.
_NOTHING = ("Lambda", "NoOp", "ToTensorV2")
_TYPES = ("FromFloat", "ToFloat", "ToTensorV2")  # also words of Recipe.output
# The reason for refusing a conversion within a choice.
_SOME_ONLY = "it changes the type of some images only"
# Transforms whose mirrored borders also copy boxes and keypoints in Albumentations.
_COPYING = ("Affine", "Pad", "PadIfNeeded", "Rotate", "SafeRotate", "ShiftScaleRotate")
# Crops with a border if `pad_if_needed`, likewise.
_CROPS = ("CenterCrop", "Crop", "RandomCrop")
_MIRRORED = (2, 4)  # cv2.BORDER_REFLECT, BORDER_REFLECT_101
# Arguments in the units of the image's type.
_VALUES = ("fill", "drop_value", "max_pixel_value")
_NEAREST = (None, 0, 6)  # cv2.INTER_NEAREST, INTER_NEAREST_EXACT: converters tell them apart


def build_recipe(root: Node, walk: Walk) -> Recipe | None:
    """Return the recipe of a pipeline, or None if a step is refused; the report is in ``walk``."""
    targets = read_processors(root, walk)
    composer = _Composer(walk, targets, root)
    operations = composer.step(root, root.name, forced=False)
    walk.refuse_unused(root.name)
    if any(line.outcome == "refused" for line in walk.lines):
        return None
    try:
        return Recipe(operations or [Identity()], **targets, output=composer.output)
    except RecipeError as error:
        walk.blame(operations, error)
        return None


class _Composer:
    """Converts nodes to operations. The argument ``forced`` is Albumentations' ``force_apply``.

    After the first step of a pipeline Albumentations drops boxes by their size, even if that step does nothing.
    ``_filtered`` is the container whose first step this is, or None if no box is dropped by its size.
    """

    def __init__(self, walk: Walk, targets: dict[str, Any], root: Node) -> None:
        self.walk, self.has_targets, self._has_boxes = walk, bool(targets), "boxes" in targets
        self.output: list[str] = []
        self._filtered = root if _filters(targets.get("boxes")) else None
        self.containers: dict[str, Callable[..., list[Operation]]] = {
            **dict.fromkeys(_SEQUENCES, self._sequence),
            "OneOf": self._one_of,
            "OneOrOther": self._one_or_other,
            "SomeOf": self._some_of,
            "RandomOrder": self._random_order,
            "SelectiveChannelTransform": self._selective,
        }

    def step(self, node: Node, path: str, *, forced: bool) -> list[Operation]:
        """Return the operations that do what a node does, in order."""
        if (key := self.walk.translations.find(node.transform)) is not None:
            return self._translated(key, node, path, forced)
        if node.children is None:
            in_8_bits = self.walk.unit == 255
            operation = self._leaf(node, path, forced)
            if operation is None:
                return []
            return within_8_bits(operation) if in_8_bits else [operation]
        if node.args.get("p") == 0 and node.name != "OneOrOther" and not forced:
            self.walk.add(path, node.source, "nothing to do", "p is 0")
            return []
        convert = self.containers.get(node.name)
        if convert is None:
            self.walk.refuse(path, node.source, "it is a container of a class that is not known")
            return []
        if node.name in _SEQUENCES and (forced or node.args["p"] == 1):
            return convert(node, path, forced)
        return self._sometimes(convert, node, path, forced)

    def _translated(self, key: Any, node: Node, path: str, forced: bool) -> list[Operation]:
        """Return what replaces a step by ``translate``; in a choice that has chosen it, its probability is 1."""
        if node.transform.p == 0 and not forced:
            self.walk.add(path, node.source, "nothing to do", "p is 0")
            return []

        def convert(step: Any, path: str) -> list[Operation]:
            try:
                return self.step(as_node(step), path, forced=forced)
            except RecipeError as error:
                self.walk.refuse(path, node.source, str(error))
                return []

        return self.walk.translated(key, path, node.transform, convert, forced=forced)

    def _sometimes(
        self, convert: Callable[..., list[Operation]], node: Node, path: str, forced: bool
    ) -> list[Operation]:
        """Convert a container that is skipped for some images; its steps must not change the dtype of images."""
        outside, changing = self.output, "FromFloat" if self.walk.unit == 1 else "ToFloat"
        self.output = []
        inner = convert(node, path, forced)
        if "ToTensorV2" in self.output or self.output[-1:] == [changing]:
            self.walk.refuse(path, node.source, _SOME_ONLY, f"{self.output[-1]} outside")
        self.output = outside
        return inner

    def _children(self, node: Node, path: str, *, forced: bool) -> list[list[Operation]]:
        """Convert the children; with ``forced`` they are the children of a choice, and each gets images in the same units."""
        assert node.children is not None
        unit, children = self.walk.unit, []
        for child in node.children:
            if forced:
                self.walk.unit = unit
            children.append(self.step(child, f"{path} > {child.name}", forced=forced))
        if self.walk.normalized:
            self.walk.unit = 1.0
        return children

    def _leaf(self, node: Node, path: str, forced: bool) -> Operation | None:
        args = dict(node.args)
        if args.get("p") == 0:
            self.walk.add(path, node.source, "nothing to do", "p is 0")
            return None
        if forced:
            args["p"] = 1.0
        operation = self.walk.leaf(
            path,
            node.source,
            lambda: self._convert(node, args),
            None if node.transform is None else lambda: self._foreign(node, forced),
        )
        self._follow_range(node.name)
        self._follow_output(node)
        return operation

    def _convert(self, node: Node, args: dict[str, Any]) -> Operation | Changed | None:
        if node.name in _TYPES and args.get("p", 1) != 1:
            raise Refused(_SOME_ONLY, f"{node.name}(p=1)")
        if node.name == "Lambda":
            refuse_functions(node.transform)
        if node.name in _NOTHING:
            return None
        if node.name == "ToTensor3D":
            raise Refused("it works on volumes, and recipes on images", "ToTensorV2")
        converter = ALBUMENTATIONS.get(node.name)
        if converter is None and node.transform is not None:
            name = type(node.transform).__name__
            raise Refused(f"{name} is unknown here", suggestion(node.transform, "Albumentations"))
        if node.fault or converter is None:
            raise Refused(node.fault or f"{node.name} is unknown here")
        if node.name == "Sharpen" and args.get("method") == "gaussian" and self.walk.unit == 255:
            raise Refused(
                "with method='gaussian' its difference of 8-bit images wraps around at 0, and whatever "
                "is darker than its surroundings becomes white",
                "A.UnsharpMask(), or A.Sharpen(method='gaussian') after A.ToFloat()",
            )
        if args.get("mask_interpolation") not in _NEAREST:
            raise Refused(
                "masks are resampled nearest here, and mask_interpolation asks for another way",
                "mask_interpolation=cv2.INTER_NEAREST",
            )
        if self.has_targets and _mirrors(node.name, args):
            raise Refused(
                "Albumentations adds mirrored copies of boxes and keypoints there, and here they "
                "stay what they are",
                "border_mode=cv2.BORDER_CONSTANT",
            )
        try:
            return self._with_boxes(node.name, args, converter(self._with_white_255(args)))
        except KeyError as error:
            raise Refused(
                f"its description lacks {error}, and Albumentations is not installed to add it"
            ) from error

    def _with_boxes(
        self, name: str, args: dict[str, Any], found: Operation | Changed | None
    ) -> Operation | Changed | None:
        """Return the operation, with a note if Albumentations moves boxes differently from the image."""
        far = {"SafeRotate": "half a pixel", "Affine": "a pixel"}.get(name)
        beside = name == "SafeRotate" or args.get("fit_output")
        if not (self._has_boxes and far and beside and isinstance(found, Operation)):
            return found
        return Changed(found, f"boxes lie on the picture, and Albumentations' own {far} off")

    def _with_white_255(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments in the units of uint8 images, which converters expect."""
        if self.walk.unit == 255:
            return args
        return args | {
            name: times_255(args[name]) for name in _VALUES if args.get(name) is not None
        }

    def _follow_range(self, name: str) -> None:
        if name == "ToFloat":
            self.walk.unit = 1.0
        elif name == "FromFloat" and not self.walk.normalized:
            self.walk.unit = 255.0

    def _follow_output(self, node: Node) -> None:
        """Record how a transform changes the type of images."""
        if node.name == "ToRGB" and GRAY in self.output:
            self.output.remove(GRAY)
        if node.name in _TYPES:
            self.output.append(node.name)
        elif node.name == "Normalize" and node.args["normalization"] != "standard":
            self.output.append("NormalizePerImage")
        elif node.name == "ToGray" and node.args["p"] == 1:
            self.output += [GRAY] * (node.args["num_output_channels"] == 1)

    def _foreign(self, node: Node, forced: bool) -> Operation:
        transform = deepcopy(node.transform)
        if forced:
            transform.p = 1.0
        takes = "uint8" if self.walk.unit == 255 else "float32"
        operation = AlbumentationsTransform(transform, takes=takes)  # type: ignore[arg-type]
        if self.has_targets and operation.spatial:
            raise RecipeError("boxes and keypoints would not follow it")
        probe(albumentations_function(operation), operation.takes)
        return operation

    def _sequence(self, node: Node, path: str, forced: bool) -> list[Operation]:
        is_first = node is self._filtered
        if is_first and node.children:
            self._filtered = node.children[0]
        children = self._children(node, path, forced=False)
        if is_first and children and not children[0]:
            children[0] = [Identity()]
        inner = rounded_once([op for child in children for op in child])
        p = 1.0 if forced else node.args["p"]
        return sometimes(inner, p)

    def _one_of(self, node: Node, path: str, forced: bool) -> list[Operation]:
        assert node.children is not None
        weights = [child.args.get("p", 0.5) for child in node.children]
        if not node.children:
            return []
        if sum(weights) == 0:
            self.walk.refuse(path, node.source, "the probabilities of its transforms are all 0")
            return []
        children = self._children(node, path, forced=True)
        return choice(children, weights, 1.0 if forced else node.args["p"])

    def _one_or_other(self, node: Node, path: str, forced: bool) -> list[Operation]:  # noqa: ARG002
        assert node.children
        inner = Node(node.name, node.args, [node.children[0], node.children[-1]])
        p = node.args["p"]
        return choice(self._children(inner, path, forced=True), [p, 1 - p], 1.0)

    def _some_of(self, node: Node, path: str, forced: bool) -> list[Operation]:  # noqa: ARG002
        children, n, p = self._children(node, path, forced=False), node.args["n"], node.args["p"]
        if n <= 0 or not any(children):
            return []
        if node.args.get("replace") and n > 1:
            return [SomeOfRepeated([as_one(child) for child in children], n, p=p)]
        if n >= len(children):
            return sometimes([op for child in children for op in child], p)
        return [SomeOf([as_one(child) for child in children], n, p=p)]

    def _random_order(self, node: Node, path: str, forced: bool) -> list[Operation]:  # noqa: ARG002
        children, n, p = self._children(node, path, forced=False), node.args["n"], node.args["p"]
        if n <= 0 or not any(children):
            return []
        if node.args.get("replace"):
            return sometimes([OneOf([as_one(child) for child in children])] * n, p)
        if n >= len(children):
            return [RandomOrder([as_one(child) for child in children if child], p=p)]
        return [RandomOrder([as_one(child) for child in children], n=n, p=p)]

    def _selective(self, node: Node, path: str, forced: bool) -> list[Operation]:
        channels = node.args.get("channels")
        if channels is None:
            self.walk.refuse(
                path, node.source, "its file does not say which channels it changes", "Sequential"
            )
            return []
        if list(channels) != [0, 1, 2]:
            self.walk.refuse(
                path, node.source, f"it changes channels {channels} by themselves", "Sequential"
            )
            return []
        inner = self._sequence(node, path, forced)
        if not all(
            leaf.group == 1 and (not isinstance(leaf, Spatial) or isinstance(leaf, Identity))
            for op in inner
            for leaf in op.leaves
        ):
            self.walk.refuse(
                path, node.source, "it moves the image without its masks, boxes and keypoints"
            )
        return inner


def _filters(boxes: BoxParams | None) -> bool:
    """Return whether boxes are dropped by their size after each step."""
    if boxes is None or not boxes.check_each:
        return False
    smallest = (boxes.min_area, boxes.min_width, boxes.min_height)
    return any(smallest) or boxes.max_accept_ratio is not None


def _mirrors(name: str, args: dict[str, Any]) -> bool:
    """Return whether a transform copies boxes and keypoints into the border that it mirrors."""
    pads = name in _COPYING or (name in _CROPS and args.get("pad_if_needed"))
    return bool(pads) and args.get("border_mode") in _MIRRORED
