"""ImageOptions: which fields of a sample are its images, and what comes with them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from dali_pipes.arguments.values import require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.samples.image_fields import ImageFields, as_image_fields
from dali_pipes.samples.maps import Flow, MapReader, NumberMap, as_map_reader
from dali_pipes.samples.targets import KINDS, Kind
from gpu_aug.files.limits import MAX_PIXELS
from gpu_aug.image_kind import Depth


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """What the images of a sample are, and which targets and maps come with them: ``Loader(images=ImageOptions(...))``.

    Args:
        fields: Which fields of a sample are its images: one, such as "left.png", or several, as a list or as a
            dictionary from names to fields. All have one kind and size and get the same draws. The first is
            `batch.images`, and all are in `batch.fields` by their names: ``batch["right"]``. None takes the first
            image of a sample.
        channels: Channels of a stored image: 1 for gray, 3 for RGB, 4 for RGBA, any number for TIFF and NumPy files. With
            3 channels and a depth of 8, gray images become RGB and alpha is dropped, with a warning; otherwise an image with
            another number of channels is a bad sample. `batch.images` are [B, channels, H, W].
        depth: Bits per channel: 8; 16 for PNG, TIFF, PNM and NumPy files of uint16, which become floats in [0, 1];
            "float32" for TIFF and NumPy files of float16 or float32, whose values do not change. With a depth of 8 and 3
            channels the upper 8 bits are kept, with a warning; otherwise an image of another depth is a bad sample.
            Operations of the recipe that do not accept such images are refused by name.
        maps: Depth, disparity and optical flow, which move as `batch.images` do: a dictionary from names in
            `batch.fields` to `NumberMap` or `Flow`, such as ``{"depth": NumberMap("depth.png", scale=256)}``. A sample
            without the map, or with a map of another size than its image, is a bad sample. Clips have none.
        targets: Which of "masks", "boxes" and "keypoints" are read from the samples' fields and moved as `batch.images`
            are; "auto" reads all that the data has. They are stored as `mask.png` and `json`, in coordinates of the
            upright image. Damaged targets, and those that do not fit their image, make the sample a bad one. Clips have
            none.
        max_pixels: Images that claim more pixels are bad samples and are not decoded.

    Raises:
        LoaderError: A value that is not allowed.

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, images=ImageOptions(fields="jpg", targets=[]))
        >>> loader.peek().images.shape
        torch.Size([8, 3, 64, 64])
    """

    fields: str | Collection[str] | Mapping[str, str] | None = None
    channels: int = 3
    depth: Depth = 8
    maps: Mapping[str, NumberMap | Flow] | None = None
    targets: Literal["auto"] | Collection[Kind] = "auto"
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        require_positive(max_pixels=self.max_pixels)
        self.image_fields()
        self.target_kinds()
        self.map_reader()

    def image_fields(self) -> ImageFields:
        """Return the fields by name, and the kind of their images."""
        return as_image_fields(self.fields, self.channels, self.depth)

    def map_reader(self) -> MapReader:
        """Return the reader of the maps."""
        return as_map_reader(self.maps)

    def target_kinds(self) -> frozenset[str]:
        """Return the kinds of targets to read, all of KINDS for "auto"."""
        if self.targets == "auto":
            return frozenset(KINDS)
        is_collection = isinstance(self.targets, Collection) and not isinstance(self.targets, str)
        if not is_collection or not all(kind in KINDS for kind in self.targets):
            names = ", ".join(f'"{kind}"' for kind in KINDS)
            raise LoaderError(
                f'targets={self.targets!r} is not known; allowed are "auto", or some of {names}, such as '
                f'["boxes"], or [] for none'
            )
        return frozenset(self.targets)
