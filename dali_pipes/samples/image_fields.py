"""Define the image fields of a sample, their channels and depth, and warn if conversion to RGB loses data."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache

from dali_pipes.errors import LoaderError
from dali_pipes.samples.read_field import missing_field, require_batch_names
from gpu_aug.errors import RecipeError
from gpu_aug.image_kind import USUAL, Depth, ImageKind
from readers import Header, Sample
from readers.sample import Payload


@dataclass(frozen=True, slots=True)
class ImageFields:
    """The images of a sample.

    Attributes:
        kind: Channels and depth of each image.
        fields: For each name in the batch, the field of the sample that holds the image; the first one is
            `batch.images`. Empty if the user named no field: then the sample's first image is used.
    """

    kind: ImageKind = USUAL
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        """Count of images per sample."""
        return max(len(self.fields), 1)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the images in the batch, if samples have several images; else empty."""
        return tuple(name for name, _ in self.fields) if self.count > 1 else ()

    @property
    def is_usual(self) -> bool:
        """Whether a sample has a single RGB image of 8 bits."""
        return self.kind.is_usual and self.count == 1

    def __str__(self) -> str:
        names = f"{', '.join(self.names)}, each " if self.names else ""
        return f"{names}{self.kind}"

    def reads(self, name: str) -> bool:
        """Return whether a field is one of the images."""
        return any(field == name for _, field in self.fields)

    def missing(self, sample: Sample) -> str:
        """Return which image a sample lacks, as a reason for a bad sample; "" if the sample has all images."""
        for _, field in self.fields:
            if field not in sample.fields:
                return missing_field(field, sample.fields)
        return ""

    def chosen(self, sample: Sample) -> Sample:
        """Return a copy of the sample whose `image` is the first of these fields."""
        first = self.fields[0][1] if self.fields else sample.image_field
        if first in (None, sample.image_field) or sample.image is sample.fields.get(first):
            return sample
        return replace(sample, image_field=first, size=None, restarts=None)

    def payloads(self, sample: Sample) -> dict[str, Payload]:
        """Return the encoded images by name; a single image without a name is "image"."""
        if not self.fields:
            assert sample.image is not None  # the fetch stage has checked this
            return {"image": sample.image}
        return {name: sample.fields[field] for name, field in self.fields}


def as_image_fields(
    chosen: str | Collection[str] | Mapping[str, str] | None, channels: int, depth: Depth
) -> ImageFields:
    """Return the images that the loader's arguments request.

    Raises:
        LoaderError: A name or field is not a string, the collection is empty, or a name is reserved for Batch.
    """
    try:
        kind = ImageKind(channels, depth)
    except RecipeError as error:
        raise LoaderError(str(error)) from error
    if chosen is None:
        return ImageFields(kind)
    given = [chosen] if isinstance(chosen, str) else chosen
    if not isinstance(given, Collection):
        raise LoaderError(
            f'fields={chosen!r} is not allowed; give fields, such as ["left.jpg", "right.jpg"], or a dictionary from '
            "names to fields"
        )
    pairs = tuple(given.items() if isinstance(given, Mapping) else ((name, name) for name in given))
    require_batch_names("fields", (name for name, _ in pairs))
    fields = [field for _, field in pairs]
    are_names = bool(fields) and all(isinstance(field, str) and field for field in fields)
    if not are_names or len(set(fields)) < len(fields):
        raise LoaderError(
            f"fields={chosen!r} is not allowed; give names of fields, at least one and each of them once"
        )
    return ImageFields(kind, pairs)


def warn_of_losses(header: Header) -> None:
    """Warn once per process about images that lose bits or transparency by conversion to RGB of 8 bits.

    Args:
        header: Header of an encoded image.

    Raises:
        UserWarning: An image loses data, and the user has made warnings errors.
    """
    if header.bits > 8:
        upper = header.bits - 8
        low, high = (300, 4000) if header.bits > 12 else (30, 1000)  # 10 bits end at 1023
        _warn_once(
            f"{header.format}: an image has {header.bits} bits per channel, of which the upper 8 are kept: values below "
            f"{1 << upper} become 0, and {low} and {high} become {low >> upper} and {high >> upper} of 255; if the numbers "
            "matter, give ImageOptions(depth=16) (and the images' channels=), or scale them to 8 bits beforehand",
        )
    if header.has_alpha:
        _warn_once(
            f"{header.format}: an image has an alpha channel, which is left out: transparent pixels get the colour that is "
            "stored for them; to have it as a channel, give ImageOptions(channels=4), and to have another background, put "
            "the images on it beforehand",
        )


# Two threads may both warn about one loss. If warnings are errors, nothing is cached, so each such image raises.
@cache
def _warn_once(text: str) -> None:
    warnings.warn(f"{text} (said once)", UserWarning, stacklevel=3)
