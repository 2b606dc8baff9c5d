"""Converters for transforms of torchvision that change the type of images, boxes or keypoints, or that are refused."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gpu_aug.convert.registry import Changed, Refused
from gpu_aug.ops.boxes import ClampBoundingBoxes, SanitizeBoundingBoxes
from gpu_aug.ops.color.normalize import ToDtype
from gpu_aug.ops.operation import Operation
from gpu_aug.output import GRAY, UNSCALED

# Types that a recipe, which computes in float32, can return.
_FLOATS = ("float32", "float64")
# Types in which a recipe returns images, but does not compute.
_HALVES = ("float16", "bfloat16")


def follow(transform: Any, name: str, state: str, kind: str) -> str:
    """Return the form of images after a transform: "pil", "uint8", "float" or "float255" (floats in 0 to 255).

    Args:
        transform: The transform.
        name: Name of the transform's class.
        state: Form of images before the transform.
        kind: Kind of a Pillow image before the transform: "pillow", "tensor" or "image".
    """
    if name in ("PILToTensor", "ToImage"):
        return "uint8" if state == "pil" else state
    if name == "ToTensor":
        return "float" if state in ("pil", "uint8") else state
    if name == "ToPILImage":
        return "pil"
    if name in ("ToDtype", "ConvertImageDtype"):
        dtype = _dtype_of(transform, kind)
        if dtype is None:
            return state
        if dtype == "uint8":
            return "uint8"
        scale = getattr(transform, "scale", True)
        return "float" if scale or state == "float" else "float255"
    return state


def _to_dtype(transform: Any, state: str, kind: str) -> Operation | Changed | None:
    dtype = _dtype_of(transform, kind)
    if dtype is None or (dtype == "uint8" and state in ("pil", "uint8")):
        return _note_of_masks(transform)
    if dtype == "uint8":
        scale = getattr(transform, "scale", True)
        if scale == (state == "float255"):
            raise Refused(
                f"it makes 8 bits of floats in 0..{255 if scale else 1} with scale={scale}",
                f"ToDtype(torch.uint8, scale={not scale})",
            )
        # Without scaling the floats in 0..255 are whole: such a state allows nothing but Normalize.
        return ToDtype("uint8", "scaled_floor") if scale else None
    if dtype in _HALVES:
        note = f"what follows computes in float32, and the result is {dtype}"
        return Changed(ToDtype(dtype), note)  # type: ignore[arg-type]
    if dtype not in _FLOATS:
        raise Refused(
            f"recipes compute in float32, and it computes on in {dtype}",
            "ToDtype(torch.float32, scale=True), and dtype of the loader",
        )
    return _note_of_masks(transform)


def _note_of_masks(transform: Any) -> Changed | None:
    """Return the note that masks are not converted, or None if torchvision does not convert them either."""
    given = transform.dtype.items() if isinstance(transform.dtype, dict) else ()
    by_name = {getattr(key, "__name__", key): dtype for key, dtype in given}
    masks = by_name.get("Mask", by_name.get("others"))
    return Changed(None, f"masks keep their type: convert them to {masks}") if masks else None


def _to_pil(transform: Any, state: str, _kind: str) -> Operation | None:
    if getattr(transform, "mode", None) not in (None, "RGB"):
        raise Refused(f"images are RGB here, and its mode is {transform.mode!r}", "RGB")
    if state == "float255":
        raise Refused("it takes floats in 0..255 for [0, 1]", "ToDtype(torch.float32, scale=True)")
    return ToDtype("uint8", "floor") if state == "float" else None


def _nothing(_transform: Any, _state: str, _kind: str) -> None:
    """Accept a conversion, because it does not change pixels."""


CONVERSIONS: dict[str, Callable[[Any, str, str], Operation | Changed | None]] = {
    **dict.fromkeys(("ToTensor", "PILToTensor", "ToImage", "ToPureTensor", "RGB"), _nothing),
    **dict.fromkeys(("ToDtype", "ConvertImageDtype"), _to_dtype),
    "ToPILImage": _to_pil,
}
"""Class name -> a function that returns the rounding that the conversion makes, or None if it keeps the picture."""


def output_words(transform: Any, name: str) -> list[str]:
    """Return how a transform changes the type of images, in the words of `Recipe.output`."""
    if name in ("ToDtype", "ConvertImageDtype"):
        by_kind = _dtypes(transform)
        if len(set(by_kind.values())) == 1:
            by_kind = {"": by_kind["image"]}
        scales = getattr(transform, "scale", True)
        return [
            dtype + (f" of {kind}s" * bool(kind)) + ("" if scales or dtype == "uint8" else UNSCALED)
            for kind, dtype in by_kind.items()
            if dtype in ("uint8", *_FLOATS, *_HALVES)  # others are refused
        ]
    if name == "Grayscale" and transform.num_output_channels == 1:
        return [GRAY]
    return [name] if name in CONVERSIONS and name != "RGB" else []


def _dtype_of(transform: Any, kind: str) -> str | None:
    """Return the dtype that images get, or None if it does not change.

    torchvision's ToDtype leaves Pillow images unchanged. A pipeline that has not converted them before is therefore
    read as one for tensors, of the class whose dtype changes.
    """
    by_kind = _dtypes(transform)
    return by_kind[kind] if kind in by_kind else by_kind["image"] or by_kind["tensor"]


def _dtypes(transform: Any) -> dict[str, str | None]:
    """Return the dtype that each kind of image gets, or None for kinds that do not change.

    As in torchvision, the exact class is looked up first, then "others".
    """
    from torchvision.tv_tensors import Image

    given = transform.dtype if isinstance(transform.dtype, dict) else {"others": transform.dtype}
    dtypes = {"image": given.get(Image, given.get("others"))}
    dtypes["tensor"] = given.get(Tensor, given.get("others"))
    return {
        kind: None if dtype is None else str(dtype).removeprefix("torch.")
        for kind, dtype in dtypes.items()
    }


def _sanitize_boxes(transform: Any) -> Operation:
    getter = transform.labels_getter
    if getter not in ("default", None):
        raise Refused(
            "its labels_getter looks into samples, and labels are told by name here",
            "SanitizeBoundingBoxes(), with box_labels beside the boxes",
        )
    return SanitizeBoundingBoxes(transform.min_size, transform.min_area)


def _clamp_boxes(transform: Any) -> Operation:
    mode = getattr(transform, "clamping_mode", "hard")  # torchvision 0.21 has no other
    if mode not in ("auto", "soft", "hard", None):
        raise Refused(f"its clamping_mode is {mode!r}")
    if mode is None:
        raise Refused("with clamping_mode=None it leaves boxes beyond the image", "no transform")
    return ClampBoundingBoxes()


def _refuse(reason: str, nearest: str) -> Callable[[Any], Operation | None]:
    def refuse(_: Any) -> Operation | None:
        raise Refused(reason, nearest)

    return refuse


TARGETS: dict[str, Callable[[Any], Operation | None]] = {
    "SanitizeBoundingBoxes": _sanitize_boxes,
    "ClampBoundingBoxes": _clamp_boxes,
    "SanitizeKeyPoints": _refuse(
        "keypoints are dropped by the recipe, after each operation or at the end",
        "Recipe(..., keypoints=KeypointParams(remove_invisible=True, check_each=False))",
    ),
    "ClampKeyPoints": _refuse(
        "keypoints beyond the image are dropped or kept where they are, and not moved to its border",
        "KeypointParams(remove_invisible=True)",
    ),
    "SetClampingMode": _refuse(
        "whether boxes are cut at the border is said once for the whole recipe",
        "Recipe(..., boxes=BoxParams(check_each=...)), ClampBoundingBoxes()",
    ),
    "UniformTemporalSubsample": _refuse(
        "which frames of a video are read is said to the loader",
        "the clip's number of frames and their stride in the loader",
    ),
}
"""Class name -> its converter, for images of any type."""
