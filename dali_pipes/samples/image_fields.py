"""Which fields of a sample are its images, and what kind of images these are."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError
from gpu_aug.errors import RecipeError
from gpu_aug.image_kind import USUAL, Depth, ImageKind
from readers import Sample
from readers.sample import Payload


@dataclass(frozen=True, slots=True)
class ImageFields:
    """The images of a sample.

    Attributes:
        kind: What each of them is.
        fields: Name in the batch -> field of the sample, the first of which is `batch.images`; empty leaves it to
            the sample.
    """

    kind: ImageKind = USUAL
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        """How many images a sample has."""
        return max(len(self.fields), 1)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names in the batch, where there are several."""
        return tuple(name for name, _ in self.fields) if self.count > 1 else ()

    @property
    def is_usual(self) -> bool:
        """Whether it is one RGB image of 8 bits."""
        return self.kind.is_usual and self.count == 1

    def __str__(self) -> str:
        names = f"{', '.join(self.names)}, each " if self.names else ""
        return f"{names}{self.kind}"

    def reads(self, name: str) -> bool:
        """Whether a field holds one of them."""
        return any(field == name for _, field in self.fields)

    def missing(self, sample: Sample) -> str:
        """Return why a sample lacks one of them, "" where it has them all."""
        for _, field in self.fields:
            if field not in sample.fields:
                return f"no field {field!r}; its fields: {', '.join(sample.fields) or 'none'}"
        return ""

    def chosen(self, sample: Sample) -> Sample:
        """Return a sample, whose `image` is the first of them."""
        if not self.fields or sample.image_field == self.fields[0][1]:
            return sample
        if sample.image is sample.fields.get(self.fields[0][1]):
            return sample
        return replace(sample, image_field=self.fields[0][1], size=None, restarts=None)

    def payloads(self, sample: Sample) -> dict[str, Payload]:
        """Return the encoded images by name; one that has no name is "image"."""
        if not self.fields:
            assert sample.image is not None  # see Fetcher
            return {"image": sample.image}
        return {name: sample.fields[field] for name, field in self.fields}


def as_image_fields(
    chosen: str | Collection[str] | Mapping[str, str] | None, channels: int, depth: Depth
) -> ImageFields:
    """Return what a loader was asked for.

    Raises:
        LoaderError: A name or field is no text, there are none, or one is a name of Batch.
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
    pairs = tuple(given.items() if isinstance(given, Mapping) else ((one, one) for one in given))
    taken = [own.name for own in fields(Batch)]
    for name, field in pairs:
        if not isinstance(name, str) or not isinstance(field, str) or not field:
            raise LoaderError(
                f"fields has {name!r}: {field!r}; give names of fields, such as 'left.jpg'"
            )
        if name in taken:
            raise LoaderError(
                f"fields={name!r} is not allowed: batch.{name} is something else; give it another name"
            )
    if not pairs or len({field for _, field in pairs}) < len(pairs):
        raise LoaderError(
            f"fields={chosen!r} is not allowed; give at least one field, and each of them once"
        )
    return ImageFields(kind, pairs)
