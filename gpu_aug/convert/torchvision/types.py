"""The transforms of torchvision that change the type of images and keep the picture."""

from collections.abc import Callable
from typing import Any

from gpu_aug.convert.registry import Refused
from gpu_aug.output import GRAY, UNSCALED

_FLOATS = ("float32", "float64")


def follow(transform: Any, name: str, state: str) -> str:
    """Return what images are after a transform: "pil", "uint8", "float" or "float255"."""
    if name in ("PILToTensor", "ToImage"):
        return "uint8" if state == "pil" else state
    if name == "ToTensor":
        return "float" if state in ("pil", "uint8") else state
    if name == "ToPILImage":
        return "pil"
    if name in ("ToDtype", "ConvertImageDtype"):
        kind = _kind(transform)
        if kind is None:
            return state
        if kind == "uint8":
            return "uint8" if state == "pil" else state
        scale = getattr(transform, "scale", True)
        return "float" if scale or state == "float" else "float255"
    return state


def _to_dtype(transform: Any, state: str) -> None:
    kind = _kind(transform)
    if kind is None:
        return
    if kind == "uint8" and state in ("pil", "uint8"):
        return
    if kind == "uint8":
        raise Refused("it rounds to 8 bits in the middle of a pipeline", "dtype of the loader")
    if kind not in _FLOATS:
        raise Refused(
            f"recipes compute in float32, and it computes on in {kind}",
            "ToDtype(torch.float32, scale=True), and dtype of the loader",
        )


def _to_pil(transform: Any, state: str) -> None:
    if getattr(transform, "mode", None) not in (None, "RGB"):
        raise Refused(f"images are RGB here, and its mode is {transform.mode!r}", "RGB")
    if state not in ("pil", "uint8"):
        raise Refused("it rounds to 8 bits in the middle of a pipeline", "dtype of the loader")


def _nothing(transform: Any, state: str) -> None:
    """Images are what the loader makes of them."""


CONVERSIONS: dict[str, Callable[[Any, str], None]] = {
    **dict.fromkeys(("ToTensor", "PILToTensor", "ToImage", "ToPureTensor", "RGB"), _nothing),
    **dict.fromkeys(("ToDtype", "ConvertImageDtype"), _to_dtype),
    "ToPILImage": _to_pil,
}
"""Class name -> what raises Refused where a conversion would change the picture."""


def output_words(transform: Any, name: str) -> list[str]:
    """Return what a transform does to the type of images, in the words of `Recipe.output`."""
    if name in ("ToDtype", "ConvertImageDtype"):
        kind = _kind(transform)
        scaled = kind == "uint8" or getattr(transform, "scale", True)
        return [] if kind is None else [kind if scaled else f"{kind}{UNSCALED}"]
    if name == "Grayscale" and transform.num_output_channels == 1:
        return [GRAY]
    return [name] if name in CONVERSIONS and name != "RGB" else []


def _kind(transform: Any) -> str | None:
    """Return the name of the type that images become, None if they keep theirs."""
    dtype = transform.dtype
    if isinstance(dtype, dict):
        by_name = {getattr(key, "__name__", key): value for key, value in dtype.items()}
        dtype = next(
            (by_name[key] for key in ("Image", "Tensor", "others") if key in by_name), None
        )
    return None if dtype is None else str(dtype).removeprefix("torch.")
