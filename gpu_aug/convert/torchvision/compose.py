"""Converters for the containers of torchvision, and for its transforms of dtypes, boxes and views."""

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from gpu_aug.convert.containers import as_one, choice, probe, sometimes, times_255, within_8_bits
from gpu_aug.convert.known_code import IDENTITY, does_the_same
from gpu_aug.convert.registry import TORCHVISION, Changed, Refused
from gpu_aug.convert.report import Walk
from gpu_aug.convert.torchvision.compound import expand
from gpu_aug.convert.torchvision.types import CONVERSIONS, TARGETS, follow, output_words
from gpu_aug.convert.translate import suggestion
from gpu_aug.engines.seeded import torchvision_function
from gpu_aug.errors import RecipeError
from gpu_aug.names import closest, policy_reason
from gpu_aug.ops.color.normalize import Normalize
from gpu_aug.ops.combine import OneOf, RandomOrder
from gpu_aug.ops.foreign.transforms import TorchvisionTransform
from gpu_aug.ops.geometric.crops import FixedCrop
from gpu_aug.ops.geometric.flips import HorizontalFlip, Identity, VerticalFlip
from gpu_aug.ops.operation import Operation
from gpu_aug.output import GRAY, kind_after
from gpu_aug.recipe import Recipe
from gpu_aug.targets.targets import BOX_FORMATS, BoxParams, KeypointParams
from gpu_aug.views import Views

# Containers whose children are all applied, in order.
_SEQUENCES = ("Compose", "Sequential", "ModuleList", "list", "tuple")
# Transforms that need no operation.
_NOTHING = ("Identity",)
# Transforms with several results, which become views.
_CROPS = ("FiveCrop", "TenCrop")
# Transforms that work in 8 bits in a recipe.
_POLICIES = ("AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide")
# The order of torchvision's five crops.
_CORNERS = ("top_left", "top_right", "bottom_left", "bottom_right", "center")


def build(source: Any, walk: Walk) -> Recipe | Views | None:
    """Return the recipe or the views of a pipeline, or None if a step is refused; the report is in ``walk``.

    Raises:
        RecipeError: ``source`` is not a torchvision pipeline.
    """
    if not (_is_own(source) or callable(source)):
        reason = policy_reason(source) if isinstance(source, str) else ""
        raise RecipeError(
            "a torchvision pipeline must be a Compose, a list or a transform of torchvision, "
            f"got {source!r}" + (f": {reason}" if reason else "")
        )
    composer = _Composer(walk)
    operations = composer.step(source, _name(source))
    if composer.state == "float255":
        unscaled = Normalize((0.0,) * 3, (1 / 255,) * 3)
        walk.add(f"{_name(source)} result", "floats in 0..255", "kept", repr(unscaled))
        operations.append(unscaled)
    walk.refuse_unused(_name(source))
    if any(line.outcome == "refused" for line in walk.lines):
        return None
    try:
        if composer.crops is None:
            return Recipe(operations or [Identity()], **composer.rest())
        before, crops = composer.crops
        first, after = operations[:before], operations[before:]
        rest = composer.rest()
        return Views([Recipe([*first, *crop, *after], **rest) for crop in crops])
    except RecipeError as error:
        walk.blame(operations, error)
        return None


class _Composer:
    """Converts transforms to operations."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.state = "pil"  # or uint8, float, float255: what images are at this place
        self.crops: tuple[int, list[list[Operation]]] | None = None
        self.box_format = "xyxy"
        self.output: list[str] = []
        self._moves_targets = False
        self._depth = 0
        self._before: list[Operation] = []
        self.containers: dict[str, Callable[[Any, str], list[Operation]]] = {
            **dict.fromkeys(_SEQUENCES, self._sequence),
            "RandomApply": self._random_apply,
            "RandomChoice": self._random_choice,
            "RandomOrder": self._random_order,
        }

    @property
    def _kind(self) -> str:
        """Kind that a Pillow image has at this step: "pillow", "tensor" or "image" (tv_tensors.Image)."""
        return kind_after(self.output, "pillow")

    def rest(self) -> dict[str, Any]:
        """Return the type of the result and the treatment of boxes and keypoints, as keyword arguments of Recipe.

        Only pipelines of v2 treat boxes and keypoints: boxes are clipped at the border after each transform and kept until
        SanitizeBoundingBoxes, even if nothing of them is left; keypoints are never dropped.
        """
        if not self._moves_targets:
            return {"output": self.output}
        return {
            "output": self.output,
            "boxes": BoxParams(format=self.box_format, keep_empty=True),  # type: ignore[arg-type]
            "keypoints": KeypointParams(
                # torchvision exchanges no labels
                remove_invisible=False,
                pixel_index="flips",
                flip_pairs=(),
            ),
        }

    def step(self, transform: Any, path: str) -> list[Operation]:
        """Return the operations that do what a transform does, in order."""
        if (key := self.walk.translations.find(transform)) is not None:
            return self.walk.translated(key, path, transform, self.step)
        name, in_8_bits = _name(transform), self.state in ("pil", "uint8")
        self._moves_targets |= type(transform).__module__.startswith("torchvision.transforms.v2")
        if _is_own(transform) and name in self.containers:
            return self.containers[name](transform, path)
        if _is_own(transform) and name in _CROPS:
            self._several_crops(transform, path)
            return []
        inner = self._expanded(transform, path)
        if inner is not None:
            if _name(transform) == "VideoClassification":
                self.walk.add(path, repr(transform), "changed", "clips stay [T, 3, H, W]")
            return self._sequence(inner, path)
        operation = self.walk.leaf(
            path,
            repr(transform),
            lambda: self._convert(transform, name),
            lambda: self._foreign(transform),
        )
        if _is_own(transform):
            self.state = follow(transform, name, self.state, self._kind)
            self._follow_output(transform, name)
            if name == "Normalize":
                self.state = "float"
        if operation is None:
            return []
        return within_8_bits(operation) if in_8_bits else [operation]

    def _follow_output(self, transform: Any, name: str) -> None:
        """Add the words for how a transform changes the type of images to the output."""
        makes_three = name == "RGB" or (name == "Normalize" and len(transform.mean) == 3)
        if makes_three and GRAY in self.output:
            self.output.remove(GRAY)
        if not self._depth:
            self.output += output_words(transform, name)

    def _expanded(self, transform: Any, path: str) -> list[Any] | None:
        """Return the basic transforms that a compound transform stands for.

        The result is [] if the transform is refused, and None if it is not compound.
        """
        try:
            return expand(transform)
        except Refused as refused:
            self.walk.refuse(path, repr(transform), refused.reason, refused.nearest)
            return []

    def _convert(self, transform: Any, name: str) -> Operation | Changed | None:
        if does_the_same(getattr(transform, "lambd", transform), IDENTITY):
            return None
        if not _is_own(transform) or name == "Lambda":
            self._refuse_code(transform, name)
        if name in CONVERSIONS:
            if self._depth and output_words(transform, name):
                raise Refused("it changes the type of some images only", "it outside")
            return CONVERSIONS[name](transform, self.state, self._kind)
        if name in _NOTHING:
            return None
        if name == "ConvertBoundingBoxFormat":
            return self._convert_boxes(transform)
        if name in TARGETS:
            return TARGETS[name](transform)
        if name == "Normalize" and self.state == "float255":
            transform = _over_255(transform)
        elif self.state == "float255":
            raise Refused(
                "it stands after a conversion to floats in 0..255",
                "ToDtype(torch.float32, scale=True)",
            )
        converter = TORCHVISION.get(name)
        if converter is None:
            raise Refused(f"{name} is unknown here", closest(name, Operation._classes) or "")
        if (
            self.state == "uint8"
            and name == "RandomErasing"
            and transform.value in (None, "random")
        ):
            raise Refused(
                "on 8-bit images its noise is cut down to 0, 1 and 255, and almost black",
                "RandomErasing after ToDtype(torch.float32, scale=True)",
            )
        if self.state == "float" and name in _POLICIES:
            raise Refused(
                "its colours have other rules on floats, and policies work in 8 bits here",
                f"{name} before the conversion to floats",
            )
        return converter(transform if self.state != "float" else _with_white_255(transform))

    def _refuse_code(self, transform: Any, name: str) -> None:
        """Refuse a step that holds code of the user, or is of another library."""
        reason = f"{name} is not torchvision's, and a recipe cannot look into it"
        if type(transform).__module__.startswith("albumentations."):
            raise Refused(reason, "Recipe.from_albumentations(pipeline)")
        if name != "Lambda":
            raise Refused(reason, suggestion(transform, "torchvision"))
        reason = "it holds a function, which a recipe cannot look into"
        if self.crops:
            raise Refused(
                f"{reason}; crops become views, which are not stacked",
                f"ToTensor() in its place: {suggestion(transform, 'torchvision', 'ToTensor')}",
            )
        raise Refused(reason, suggestion(transform, "torchvision"))

    def _convert_boxes(self, transform: Any) -> Changed | None:
        """Record the format that a ConvertBoundingBoxFormat sets, and return a note if boxes have to be given otherwise.

        The recipe uses one box format for input and output, that of the last such conversion.
        """
        wanted = str(getattr(transform.format, "value", transform.format)).lower()
        if wanted not in BOX_FORMATS:
            raise Refused(f"boxes cannot be {wanted!r} here", f"one of {', '.join(BOX_FORMATS)}")
        is_new, self.box_format = wanted != self.box_format, wanted
        return (
            Changed(None, f"boxes must be given as {wanted} too: a recipe has one format for both")
            if is_new
            else None
        )

    def _foreign(self, transform: Any) -> Operation:
        takes = {"pil": "pil", "uint8": "uint8"}.get(self.state, "float32")
        operation = TorchvisionTransform(transform, takes=takes)  # type: ignore[arg-type]
        probe(torchvision_function(operation), operation.takes)
        return operation

    def _children(self, transforms: Iterable[Any], path: str) -> list[list[Operation]]:
        self._depth += 1
        state = self.state
        children = []
        for child in transforms:
            self.state = state
            children.append(self.step(child, f"{path} > {_name(child)}"))
            if self.state != state:
                self.walk.refuse(
                    path, repr(child), "it changes the type of some images only", "it outside"
                )
        self.state = state
        self._depth -= 1
        return children

    def _sequence(self, transform: Any, path: str) -> list[Operation]:
        done: list[Operation] = []
        for child in _inner(transform):
            if self._depth == 0:
                self._before = done
            inner = self.step(child, f"{path} > {_name(child)}")
            if self._depth == 0 and self.crops and _is_random(inner):
                self.walk.refuse(
                    f"{path} > {_name(child)}",
                    repr(child),
                    "it draws once for all crops, and each view draws for itself",
                    "it without chance, or one crop",
                )
            done += inner
        return done

    def _random_apply(self, transform: Any, path: str) -> list[Operation]:
        children = self._children(_inner(transform), path)
        return sometimes([step for child in children for step in child], float(transform.p))

    def _random_choice(self, transform: Any, path: str) -> list[Operation]:
        children = self._children(_inner(transform), path)
        weights = [float(w) for w in transform.p] if transform.p else [1.0] * len(children)
        if len(children) == 1 and children[0] and weights[0]:
            return [OneOf([as_one(children[0])])]
        return choice(children, weights)

    def _random_order(self, transform: Any, path: str) -> list[Operation]:
        children = [as_one(child) for child in self._children(_inner(transform), path) if child]
        return [RandomOrder(children)] if len(children) > 1 else children

    def _several_crops(self, transform: Any, path: str) -> None:
        if self._depth or self.crops:
            self.walk.refuse(path, repr(transform), "it stands inside of another choice")
        elif _is_random(self._before):
            self.walk.refuse(
                path,
                repr(transform),
                "what stands before it draws once for all crops, and each view draws for itself",
                "no chance before it",
            )
        else:
            self.crops = (len(self._before), _corner_crops(transform))
            note = f"Views of {len(self.crops[1])} recipes"
            self.walk.add(path, repr(transform), "kept", note)


def _corner_crops(transform: Any) -> list[list[Operation]]:
    size = transform.size
    size = (size, size) if isinstance(size, int) else tuple(size)
    crops: list[list[Operation]] = [[FixedCrop(size, corner)] for corner in _CORNERS]
    if _name(transform) == "FiveCrop":
        return crops
    flip = VerticalFlip(1.0) if transform.vertical_flip else HorizontalFlip(1.0)
    return crops + [[flip, *crop] for crop in crops]


def _name(transform: Any) -> str:
    if _is_own(transform) or isinstance(transform, list | tuple):
        return type(transform).__name__
    return getattr(transform, "__name__", type(transform).__name__)


def _is_own(transform: Any) -> bool:
    """Return whether the class of a transform is torchvision's, or a container of torch."""
    module = type(transform).__module__
    return module.startswith(("torchvision.", "torch.nn.modules.container")) or isinstance(
        transform, list | tuple
    )


def _inner(transform: Any) -> list[Any]:
    return list(getattr(transform, "transforms", transform))


def _is_random(operations: list[Operation]) -> bool:
    return any(
        sum(operation.slots) and getattr(operation, "p", 0.5) not in (0.0, 1.0)
        for operation in operations
    )


def _over_255(normalize: Any) -> Any:
    changed = copy(normalize)
    changed.mean = [value / 255 for value in normalize.mean]
    changed.std = [value / 255 for value in normalize.std]
    return changed


def _with_white_255(transform: Any) -> Any:
    """Return a transform whose values are in the units of uint8 images, which converters expect."""
    changed = copy(transform)
    for name in ("fill", "_fill", "threshold", "value"):
        if getattr(transform, name, None) is not None:
            setattr(changed, name, times_255(getattr(transform, name)))
    changed.white = 1.0  # masks are filled with the value itself
    return changed
