"""OpenImages' boxes, or labels of whole images, with the images beside the table."""

from pathlib import Path

from readers.formats.columns import CORNERS, to_payload
from readers.formats.files.described import DescribedFiles, FilesBelow, folder_with
from readers.formats.openimages.rows import (
    SIDES,
    find_images,
    parse,
    read_descriptions,
    read_header_row,
    to_boxes,
    to_image_labels,
)
from readers.formats.splits import split_of
from readers.image.header import read_header
from readers.sample import (
    BadSample,
    PathLike,
    Payload,
    Sample,
    SourceError,
)
from readers.storage.index import Scan
from readers.storage.shards import ShardDataset

_MOST_TRIED = 256
_HEAD_BYTES = 4096


class OpenImagesDataset(DescribedFiles):
    """The images of a table of OpenImages, in the order in which they first come in it.

    A sample has the image as ``jpg``; its label is -1. Of a table of boxes (``XMin`` and so on) the field ``json``, in which
    the loader looks for targets, has ``boxes`` in pixels of the upright image, ``labels``, ``iscrowd`` (``IsGroupOf``),
    and ``occluded``, ``truncated``, ``group_of``, ``depiction``, ``inside`` as stored: 1, 0, or -1 where it is not known.
    Of a table of labels of images (``Confidence`` without boxes) the field ``image_labels`` is
    ``{"present": [...], "absent": [...]}``, as people verified; a class in neither is not known, and not absent.

    Classes count from 0 in the order of the table of descriptions. Images of which the table says nothing are no samples;
    an image that is missing is a bad sample. Tables of segmentations are not read.

    Args:
        table: Such as ``oidv6-train-annotations-bbox.csv`` or ``train-annotations-human-imagelabels.csv``.
        images: Folder of the images. None takes the first of these that holds one of the first images: the folder called as
            the split in the table's name, or ``images``, beside the table or its folder, and the table's own.
        descriptions: Table of labels and their names. None takes ``*class-descriptions*.csv`` beside the table, and of
            several the one with ``boxable`` in its name for boxes and without for labels.
        crowd: Boxes around groups of objects (``IsGroupOf``) count as objects.

    Raises:
        SourceError: Table, descriptions or images are missing, or the table is another one.
    """

    def __init__(
        self,
        table: PathLike,
        *,
        images: PathLike | None = None,
        descriptions: PathLike | None = None,
        crowd: bool = False,
    ) -> None:
        images = None if images is None else Path(images).absolute()
        descriptions = None if descriptions is None else Path(descriptions).absolute()
        self._options = {"images": images, "descriptions": descriptions}
        self._options["crowd"] = crowd
        self._stored = ShardDataset([table], Scan("openimages", 1, find_images))
        path = Path(self._stored.shards[0])
        with path.open("rb") as file:
            self._columns = read_header_row(file.read(_HEAD_BYTES))
        self._has_boxes = SIDES[0] in self._columns
        self._names = read_descriptions(descriptions or _find_descriptions(path, self._has_boxes))
        self._labels = {label: number for number, label in enumerate(self._names)}
        first = self._stored.fetch(range(min(len(self), _MOST_TRIED)))
        root = images or folder_with(_folders_of_images(path), [*map(_file_of, first)], path)
        self._files = FilesBelow(root, "the folder of the images")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the descriptions."""
        return tuple(self._names.values())

    def _identity(self) -> bytes:
        return repr((list(self._names.items()), self._options["crowd"])).encode()

    def _name_of(self, entry: Sample | BadSample) -> str:
        return _file_of(entry)

    def _read(self, entry: Sample) -> Sample:
        fields: dict[str, Payload] = {"jpg": self._files.read(_file_of(entry))}
        rows = parse(self._columns, [bytes(piece) for piece in entry.fields.values()])
        if self._has_boxes:
            header = read_header(fields["jpg"])  # boxes are shares of its size
            size = header.height, header.width
            told = to_boxes(rows, self._labels, size, crowd=self._options["crowd"])
            fields["json"] = to_payload(told | CORNERS)
        else:
            fields["image_labels"] = to_payload(to_image_labels(rows, self._labels))
        return Sample(entry.index, entry.key, fields, image_field="jpg")


def _file_of(entry: Sample | BadSample) -> str:
    """Return the name of an image's file; its key is the table's name and the image's id."""
    return f"{entry.key.partition('/')[2]}.jpg"


def _find_descriptions(path: Path, has_boxes: bool) -> Path:
    found: list[Path] = sorted(path.parent.glob("*class-descriptions*.csv"))
    fitting: list[Path] = [one for one in found if ("boxable" in one.name) == has_boxes] or found
    if len(fitting) == 1:
        return fitting[0]
    raise SourceError(
        f"{path} has {len(found) or 'no'} files class-descriptions*.csv beside it, and its labels need one: say descriptions="
    )


def _folders_of_images(path: Path) -> list[Path]:
    """Return the folders in which the images of a table mostly lie."""
    split = split_of(path.stem.replace("-", " "))
    words = {"validation": ("validation", "val")}.get(split or "", (split,) if split else ())
    beside = (path.parent, path.parent.parent)
    return [*(folder / name for name in (*words, "images") for folder in beside), path.parent]
