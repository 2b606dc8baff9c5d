"""Make samples from items of other libraries' datasets: images of all common types, labels and targets."""

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers import HeaderError, Sample, read_header
from readers.datasets.arrays import as_array, channels_last
from readers.datasets.custom import field_bytes, with_bytes
from readers.describe import describe, few_of
from readers.formats.columns import IMAGE_NAMES, LABEL_NAMES, shorten, to_label
from readers.image.raw_pixels import row_file
from readers.labels.label_vector import Label, to_vector
from readers.sample import IMAGE_FIELDS, Payload
from readers.storage.limits import check_bytes

_FIELD_OF_FORMAT = {
    "jpeg": "jpg",
    "tiff": "tif",
}  # for other formats, the field has the format's name
_DEEP_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")
_PICTURES = "a PIL image, a uint8 array or tensor, the bytes of an image file, or its path"


class ItemError(ValueError):
    """An item that cannot become a sample; the message says what it is and what is allowed."""


class Picture(NamedTuple):
    """An image as a field of a sample.

    Attributes:
        field: Name of the field, such as "jpg".
        payload: Bytes of an image file, or of raw pixels (ppm, pgm).
        size: Height and width of the image; None if unknown.
    """

    field: str
    payload: bytes
    size: tuple[int, int] | None

    def sample(
        self, index: int, key: str, label: Label = -1, fields: Mapping[str, Payload] | None = None
    ) -> Sample:
        """Return a sample with this image and further fields."""
        contents = {self.field: self.payload, **(fields or {})}
        return Sample(index, key, contents, label, self.size, image_field=self.field)


def sample_of(item: Any, index: int, key: str, classes: tuple[str, ...] = ()) -> Sample:
    """Return a sample for an item: an image, (image, label or target), a dictionary of named entries, or a Sample.

    Args:
        item: The item, as `__getitem__` of the dataset returns it.
        index: Index of the item in the dataset.
        key: The key of the sample.
        classes: Name of each class number, for labels that are text.

    Raises:
        ItemError: The item has none of these forms.
        OSError: The file that the item names cannot be read.
    """
    if isinstance(item, Sample):
        return _of_sample(item, index, classes)
    if isinstance(item, Mapping):
        return _of_mapping(item, index, key, classes)
    if not isinstance(item, tuple | list):
        return picture_of(item).sample(index, key)
    if len(item) != 2:
        raise ItemError(
            f"it returns {describe(item)}: return (image, label), or a dictionary that names its entries"
        )
    return picture_of(item[0]).sample(index, key, *_target(item[1], classes))


def picture_of(value: Any) -> Picture:
    """Return an image as a field: the file of a PIL image that was opened but not loaded, else raw pixels.

    Raises:
        ItemError: The value is not an image of 8 bits.
        OSError: The file that the value names cannot be read.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return _encoded(bytes(value))
    if isinstance(value, str | os.PathLike):
        return _encoded(Path(value).read_bytes())
    if _is_pil(value):
        return _of_pil(value)
    array = as_array(value)
    if array is None:
        raise ItemError(f"its image is {describe(value)}: return {_PICTURES}")
    pixels = array if array.ndim == 2 else None
    if array.ndim == 3:
        pixels = channels_last(array, first=array is not value)
    if array.dtype != np.uint8 or pixels is None or not array.size:
        raise ItemError(
            f"its image is {describe(value)}, not uint8 [3, height, width] (tensor) or [height, width, 3] (array): leave "
            "the transforms out that make a tensor (transform=None), the recipe does that"
        )
    return _raw(pixels)


def _is_pil(value: Any) -> bool:
    """Return whether a value is a PIL image, without importing PIL."""
    return hasattr(value, "convert") and hasattr(value, "mode")


def _of_pil(image: Any) -> Picture:
    untouched = _untouched_file(image)
    if untouched is not None:
        return untouched
    if image.mode in _DEEP_MODES:
        raise ItemError(
            f"its image has the mode {image.mode}, more than 8 bits per channel: convert it to RGB or L"
        )
    mode = "L" if image.mode in ("1", "L") else "RGB"
    return _raw(np.asarray(image if image.mode == mode else image.convert(mode)))


def _untouched_file(image: Any) -> Picture | None:
    """Return the file of an opened and unchanged PIL image; None if its pixels differ from the file's."""
    # Any change loads the image first, which empties its list of tiles.
    if not getattr(image, "tile", None) or getattr(image, "is_animated", False):
        return None
    file = getattr(image, "fp", None)
    name = getattr(image, "filename", "")
    if isinstance(file, io.BytesIO):
        return plain_file(file.getvalue())
    if name and os.path.isfile(name):  # noqa: PTH113 - text or bytes
        return plain_file(Path(os.fsdecode(name)).read_bytes())
    return None


def plain_file(data: bytes) -> Picture | None:
    """Return an image file that every decoder decodes to PIL's pixels (8 bits, opaque, upright); None for other files."""
    try:
        header = read_header(data)
    except HeaderError:
        return None
    if header.orientation != 1 or header.bits != 8 or header.has_alpha or header.format == "tiff":
        return None
    name = _FIELD_OF_FORMAT.get(header.format, header.format)
    return Picture(name, data, (header.height, header.width)) if name in IMAGE_FIELDS else None


def _encoded(data: bytes) -> Picture:
    """Return an image file of any kind as a field; it is not checked, because the decoder reports damaged files."""
    check_bytes(len(data), "an image")
    try:
        kind = read_header(data).format
    except HeaderError as error:
        raise ItemError(str(error)) from None
    return Picture(_FIELD_OF_FORMAT.get(kind, kind), data, None)


def _raw(pixels: NDArray[Any]) -> Picture:
    file = row_file(pixels.shape, pixels.dtype)
    return Picture(file.field, file.of(pixels), file.size)


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
    if "boxes" in rest or "keypoints" in rest:
        fields = {"json": _targets_field(rest)}
    else:
        fields = {str(name): _field(value) for name, value in rest.items()}
    number = -1 if label is None else _label(item[label], classes)
    return picture_of(item[image]).sample(index, key, number, fields)


def _target(target: Any, classes: tuple[str, ...]) -> tuple[Label, dict[str, Payload]]:
    """Return the target of an image as a label and fields."""
    array = as_array(target)
    if target is None:
        return -1, {}
    if array is not None and array.ndim == 1 and array.dtype.kind in "biuf":
        return to_vector(array), {}
    if _is_label(target):
        return _label(target, classes), {}
    if isinstance(target, Mapping) and ("boxes" in target or "keypoints" in target):
        return -1, {"json": _targets_field(target)}
    if _is_pil(target):
        return -1, {"mask.png": _png(target)}
    if array is not None or isinstance(target, Mapping | list | tuple | bytes):
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
    """Return a mask as a PNG of class numbers, without the colours of a palette."""
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
    """Return targets as JSON for the field ``json``, with the format of torchvision's BoundingBoxes as "box_format"."""
    form = getattr(getattr(targets.get("boxes"), "format", None), "name", None)
    return _field(targets if form is None else {"box_format": form.lower(), **targets})


def _field(value: Any) -> Payload:
    try:
        return field_bytes(value)
    except ValueError as error:
        raise ItemError(f"its target or an entry cannot be a field: {error}") from None
