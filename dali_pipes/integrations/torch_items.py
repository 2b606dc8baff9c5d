"""What a dataset of PyTorch returns for one index, as a sample: pictures of all common kinds, labels, targets."""

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers import HeaderError, Sample, read_header
from readers.arrays import as_array, channels_last
from readers.custom import field_bytes, with_bytes
from readers.describe import describe, few_of
from readers.formats.columns import IMAGE_NAMES, LABEL_NAMES, shorten, to_label
from readers.image.raw_pixels import row_file
from readers.label_vector import Label, to_vector
from readers.sample import IMAGE_FIELDS, Payload
from readers.storage.limits import check_bytes

_FIELD_OF_FORMAT = {"jpeg": "jpg", "tiff": "tif"}
_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
_PICTURES = "a PIL image, a uint8 array or tensor, the bytes of an image file, or its path"


class ItemError(ValueError):
    """Something that is no sample; the text says what it is and what would be."""


def sample_of(item: Any, index: int, key: str, classes: tuple[str, ...] = ()) -> Sample:
    """Make a sample of an item: an image, (image, label or target), a dictionary of named entries, or a Sample.

    Args:
        item: The item.
        index: Its number.
        key: Its name for people.
        classes: Name of each class number, for labels that are text.

    Raises:
        ItemError: It is none of these.
        OSError: The file that it names cannot be read.
    """
    if isinstance(item, Sample):
        return _of_sample(item, index, classes)
    if isinstance(item, Mapping):
        return _of_mapping(item, index, key, classes)
    if isinstance(item, tuple | list):
        if len(item) != 2:
            raise ItemError(
                f"it returns {describe(item)}: return (image, label), or a dictionary that names its entries"
            )
        field, payload, size = image_of(item[0])
        label, fields = _target(item[1], classes)
        return Sample(index, key, {field: payload, **fields}, label, size, image_field=field)
    field, payload, size = image_of(item)
    return Sample(index, key, {field: payload}, size=size, image_field=field)


def image_of(value: Any) -> tuple[str, bytes, tuple[int, int] | None]:
    """Return a picture as the name and the content of a field, and (height, width) where it is known.

    A PIL image that is still as its file has it, not loaded, is handed over as that file. All others are raw pixels.

    Raises:
        ItemError: It is no picture of 8 bits.
        OSError: The file that it names cannot be read.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return _encoded(bytes(value))
    if isinstance(value, str | os.PathLike):
        return _encoded(Path(value).read_bytes())
    if hasattr(value, "convert") and hasattr(value, "mode"):
        return _of_pil(value)
    array = as_array(value)
    if array is None:
        raise ItemError(f"its image is {describe(value)}: return {_PICTURES}")
    laid = array if array.ndim == 2 else None
    if array.ndim == 3:
        laid = channels_last(array, first=array is not value)
    if array.dtype != np.uint8 or laid is None or not array.size:
        advice = (
            "leave the transforms out that make a tensor (transform=None), the recipe does that"
        )
        raise ItemError(
            f"its image is {describe(value)}, not uint8 [3, height, width] (tensor) or [height, width, 3] (array): {advice}"
        )
    return _pixels(laid)


def _of_pil(image: Any) -> tuple[str, bytes, tuple[int, int] | None]:
    untouched = _untouched_file(image)
    if untouched is not None:
        return untouched
    if image.mode in _DEEP_MODES:
        raise ItemError(
            f"its image has the mode {image.mode}, more than 8 bits per channel: convert it to RGB or L"
        )
    mode = "L" if image.mode in ("1", "L") else "RGB"
    return _pixels(np.asarray(image if image.mode == mode else image.convert(mode)))


def _untouched_file(image: Any) -> tuple[str, bytes, tuple[int, int] | None] | None:
    """The file of an image that was opened and no more; PIL's own pixels where it would be turned upright."""
    # Whatever changes an image loads it first, and has its tiles decoded then.
    if not getattr(image, "tile", None) or getattr(image, "is_animated", False):
        return None
    file = getattr(image, "fp", None)
    name = getattr(image, "filename", "")
    if isinstance(file, io.BytesIO):
        data = file.getvalue()
    elif name and os.path.isfile(name):  # noqa: PTH113 - of either type
        data = Path(os.fsdecode(name)).read_bytes()
    else:
        return None
    return plain_file(data)


def plain_file(data: bytes) -> tuple[str, bytes, tuple[int, int] | None] | None:
    """An image file that decodes to what PIL makes of it: 8 bits, opaque, upright. None for any other."""
    try:
        header = read_header(data)
    except HeaderError:
        return None
    if header.orientation != 1 or header.bits != 8 or header.has_alpha or header.format == "tiff":
        return None
    name = _FIELD_OF_FORMAT.get(header.format, header.format)
    return (name, data, (header.height, header.width)) if name in IMAGE_FIELDS else None


def _encoded(data: bytes) -> tuple[str, bytes, tuple[int, int] | None]:
    """An encoded image, whatever it is; a decoder says what is wrong with it."""
    check_bytes(len(data), "an image")
    try:
        kind = read_header(data).format
    except HeaderError as error:
        raise ItemError(str(error)) from None
    return _FIELD_OF_FORMAT.get(kind, kind), data, None


def _pixels(array: NDArray[Any]) -> tuple[str, bytes, tuple[int, int] | None]:
    file = row_file(array.shape, array.dtype)
    return file.field, file.of(array), file.size


def _of_sample(item: Sample, index: int, classes: tuple[str, ...]) -> Sample:
    label: Any = item.label
    number = _named(label, classes) if isinstance(label, str) else label
    try:
        return with_bytes(replace(item, index=index, label=number))
    except ValueError as error:
        raise ItemError(str(error)) from None


def _of_mapping(item: Mapping[Any, Any], index: int, key: str, classes: tuple[str, ...]) -> Sample:
    names = [str(name) for name in item]
    image = next((name for name in (*IMAGE_NAMES, "pixel_values", "photo") if name in names), None)
    if image is None:
        raise ItemError(
            f"it returns a dictionary of {', '.join(names[:8]) or 'nothing'}: call the image 'image' and the class "
            "number 'label'"
        )
    label = next((name for name in LABEL_NAMES if name in names and _is_label(item[name])), None)
    rest = {name: value for name, value in item.items() if name not in (image, label)}
    if any(name in rest for name in ("boxes", "keypoints")):
        fields = {"json": _targets_field(rest)}
    else:
        fields = {str(name): _field(value) for name, value in rest.items()}
    field, payload, size = image_of(item[image])
    number = -1 if label is None else _label(item[label], classes)
    return Sample(index, key, {field: payload, **fields}, number, size, image_field=field)


def _target(target: Any, classes: tuple[str, ...]) -> tuple[Label, dict[str, Payload]]:
    """A label, or what else belongs to an image, as a label and fields."""
    array = as_array(target)
    if array is not None and array.ndim == 1 and array.dtype.kind in "biuf":
        return to_vector(array), {}
    if target is None:
        return -1, {}
    if _is_label(target):
        return _label(target, classes), {}
    if isinstance(target, Mapping) and any(name in target for name in ("boxes", "keypoints")):
        return -1, {"json": _targets_field(target)}
    if hasattr(target, "convert") and hasattr(target, "mode"):
        return -1, {"mask.png": _png(target)}
    if (
        isinstance(target, Mapping | list | tuple | bytes | np.ndarray)
        or as_array(target) is not None
    ):
        return -1, {"target": _field(target)}
    raise ItemError(
        f"its target is {describe(target)}: return a class number, a mask as a PIL image, or a dictionary"
    )


def _is_label(value: Any) -> bool:
    if isinstance(value, bool | int | float | np.number | str):
        return True
    array = as_array(value)
    return array is not None and array.shape in ((), (1,)) and array.dtype.kind in "iufb"


def _label(value: Any, classes: tuple[str, ...]) -> int:
    if isinstance(value, str):
        return _named(value, classes)
    array = as_array(value)
    try:
        return to_label(value if array is None else array.reshape(-1)[0].item())
    except ValueError as error:
        raise ItemError(str(error)) from None


def _named(label: str, classes: tuple[str, ...]) -> int:
    if label in classes:
        return classes.index(label)
    known = f"none of the classes {few_of(classes)}" if classes else "text"
    raise ItemError(
        f"its label {shorten(label)} is {known}: return a class number, or name all classes in the order of their "
        "numbers, from_torch(dataset, classes=[...]); return a caption as a further entry of a dictionary"
    )


def _png(image: Any) -> bytes:
    """A mask as a file: class numbers as they are, the colours of a palette left out."""
    if image.mode not in ("L", "P", "I;16", "1"):
        raise ItemError(
            f"its mask has the mode {image.mode}: return class numbers as a PIL image of mode L or P"
        )
    plain = image.convert("L") if image.mode == "1" else image
    if plain.mode == "P":
        from PIL import Image

        plain = Image.fromarray(np.asarray(image))
    stream = io.BytesIO()
    plain.save(stream, "png", compress_level=1)
    return stream.getvalue()


def _targets_field(targets: Mapping[Any, Any]) -> Payload:
    """The field json; torchvision's BoundingBoxes say what their numbers are, which JSON would forget."""
    form = getattr(getattr(targets.get("boxes"), "format", None), "name", None)
    return _field(targets if form is None else {"box_format": form.lower(), **targets})


def _field(value: Any) -> Payload:
    try:
        return field_bytes(value)
    except ValueError as error:
        raise ItemError(f"its target or an entry cannot be a field: {error}") from None
