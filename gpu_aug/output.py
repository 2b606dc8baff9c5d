"""The type of the images that `Recipe.transform` returns if an imported pipeline converts them.

A recipe has no step for a conversion such as ToTensor, because a Loader decides the dtype of its batches. A transform
replaces the
pipeline, so `Recipe.output` keeps the conversions, in order, as words. Their effect depends on the given image, as in the
pipeline: v2.ToDtype leaves a Pillow image unchanged.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from gpu_aug.errors import RecipeError, TargetsError

GRAY = "gray"
"""The word for "one channel": images have three equal channels until they are returned."""

UNSCALED = " unscaled"
"""The end of the word for a type whose values stay 0..255; the recipe multiplies by 255 itself."""

# Kinds of images that are tensors.
_PLANES = frozenset({"tensor", "image"})
_ANY = frozenset({"array", "pillow", "tensor", "image"})


class _Conversion(NamedTuple):
    """The effect of one word.

    Attributes:
        takes: Kinds of images that are converted; others are unchanged.
        kind: Kind of the result; "" if the kind does not change.
        dtypes: Dtypes after the conversion by the dtypes before it, with "*" for all dtypes; others do not change.
    """

    takes: frozenset[str]
    kind: str = ""
    dtypes: Mapping[str, str] = MappingProxyType({})


# Floating-point types of results.
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_CONVERSIONS = {
    "ToTensor": _Conversion(frozenset({"array", "pillow"}), "tensor", {"uint8": "float32"}),
    "PILToTensor": _Conversion(frozenset({"pillow"}), "tensor"),
    "ToImage": _Conversion(_ANY, "image"),
    "ToPureTensor": _Conversion(frozenset({"image"}), "tensor"),
    "ToPILImage": _Conversion(_ANY, "pillow", {"*": "uint8"}),
    "ToTensorV2": _Conversion(_ANY, "tensor"),
    "ToFloat": _Conversion(_ANY, "", {"*": "float32"}),
    "FromFloat": _Conversion(_ANY, "", {"*": "uint8"}),
    # Albumentations computes the statistics of uint8 images in doubles, and returns them.
    "NormalizePerImage": _Conversion(_ANY, "", {"uint8": "float64"}),
    GRAY: _Conversion(frozenset()),
    **{
        f"{dtype}{of_some}{scale}": _Conversion(takes, "", {"*": dtype})
        for scale in ("", UNSCALED)
        for of_some, takes in (
            ("", _PLANES),
            (" of tensors", frozenset({"tensor"})),
            (" of images", frozenset({"image"})),
        )
        for dtype in ("uint8", *_FLOATS)
    },
}


def checked_output(words: Any) -> tuple[str, ...]:
    """Check the words of a recipe's output, and return them as a tuple.

    Raises:
        RecipeError: A word is unknown.
    """
    if not isinstance(words, list | tuple) or not set(map(str, words)) <= _CONVERSIONS.keys():
        raise RecipeError(
            f"output of a recipe must be a list of {', '.join(_CONVERSIONS)}, got {words!r}: leave it out, so that a "
            "transform returns what it is given"
        )
    return tuple(words)


def kind_after(output: Sequence[str], kind: str) -> str:
    """Return the kind that an image of ``kind`` has after the conversions; see `converted`."""
    for word in output:
        if kind in _CONVERSIONS[word].takes:
            kind = _CONVERSIONS[word].kind or kind
    return kind


def converted(output: Sequence[str], kind: str, dtype: str) -> tuple[str, str]:
    """Return the kind and the dtype that an image has after the conversions.

    Args:
        output: Words of the conversions; see `Recipe.output`.
        kind: Kind of the image: "array", "pillow", "tensor", or "image" for torchvision's class Image.
        dtype: Dtype of the image: "uint8", or "float32" for floating-point numbers in [0, 1].

    Raises:
        TargetsError: The pipeline would give such an image another range of values than the recipe does.
    """
    for word in output:
        takes, new_kind, dtypes = _CONVERSIONS[word]
        if word.endswith(UNSCALED) and (kind not in takes or dtype != "uint8"):
            raise TargetsError(
                f"the imported pipeline turns 0..255 into floats without dividing, so it needs uint8 tensors at that "
                f"place, got {kind} of {dtype}: give uint8, or import it with ToDtype(torch.float32, scale=True)"
            )
        if kind in takes:
            kind, dtype = new_kind or kind, dtypes.get(dtype, dtypes.get("*", dtype))
    return kind, dtype
