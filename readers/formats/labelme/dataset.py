"""Datasets of LabelMe annotations: pictures with one JSON file of shapes each."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from readers.describe import few_of
from readers.detect.registry import require
from readers.formats.boxes.checks import (
    NEEDED_FOR_CLASSES,
    Outside,
    class_number,
    fit_box,
    read_if_sound,
    require_choice,
    require_stated_size,
    unpaired_warnings,
)
from readers.formats.boxes.dataset import (
    AnnotatedDataset,
    Entry,
    Picture,
    image_field,
    names_below,
    stem_of,
)
from readers.formats.boxes.oriented import ORIENTED, fit_corners
from readers.formats.coco.masks import mask_fields
from readers.formats.files.described import spread_evenly
from readers.formats.labelme.document import (
    LINES,
    ROTATED,
    WITH_AREA,
    Document,
    Instance,
    Shape,
    decode_base64,
    instances_of,
    mask_of,
    parse_document,
    parse_labels,
)
from readers.formats.named_splits import inside_split
from readers.image.header import Header, read_header
from readers.labels.classes import Classes, read_classes
from readers.labels.flip_pairs import pairs_of_names
from readers.plural import counted
from readers.sample import PathLike, Payload, SourceError, is_image_file
from readers.storage.limits import check_bytes
from readers.storage.unreadable import oserror_as_source_error

_READ_BYTES = 2  # memory for each byte of a file that is decoded to text
_VALUE_BYTES = 100  # memory for each JSON value
_LOOKED_AT = (
    20  # files that are searched for rotated rectangles: each may hold a picture of several MB
)
_FIELDS = {"jpeg": "jpg", "tiff": "tif"}  # names of fields that differ from those of image formats


class LabelMeDataset(AnnotatedDataset):
    """One sample per LabelMe file at any depth of a folder, sorted by file name.

    Each sample has the picture and the field ``json``, from which the loader reads targets:

    - ``boxes``, ``labels``: the extent and the class number of each object that has an area: rectangles, polygons,
      circles, rotated rectangles and masks. Shapes with equal label and ``group_id`` are one object. With oriented boxes,
      x, y of four corners and ``box_format`` "xyxyxyxy": of a rotated rectangle, a polygon of four points (a fifth may repeat
      the first) or a rectangle of four points in the order of the file; of a rectangle of two points or a circle those of the
      extent. Another polygon, a mask or an object of several shapes then makes its sample bad, as in COCO;
    - ``keypoints``, ``keypoint_labels``: points, and their class numbers; ``keypoint_objects`` is the index of the box with the
      point's ``group_id``, -1 if no box or several boxes have it;
    - ``shapes``, ``flags``: as in the file, without the pixels of masks. Lines, which have no area, appear only here, since
      LabelMe's own exporters disagree about them. If ``classes`` is None, a warning states their count.

    Coordinates are pixels of the upright picture (after its EXIF orientation is applied). A picture embedded in the JSON file
    is preferred to the picture file that it names. A picture whose size differs from the stated one makes the sample bad.

    Args:
        root: The folder.
        split: Name of a split, if folders in root are named like splits.
        classes: Names of the classes in the order of their numbers, or a text file with one per line. If None, the labels in
            all files of all splits, sorted, are the classes, with a warning; an unreadable file is then an error.
        masks: Whether each object's mask is a field, ``mask.0.png`` and so on in the order of the boxes, with 1 inside the
            object and 0 elsewhere. Masks may overlap. Needs the package pycocotools (the extra ``coco``).
        outside: "raise" makes a sample bad if a box leaves its picture, "clip" clips the box. An oriented box is never clipped,
            since that would deform it: "raise" makes the sample bad if its centre lies outside, "clip" leaves out boxes that
            lie outside completely. ``BoxParams(clip=True)`` of a recipe cuts the others.
        oriented: Whether boxes are oriented. If None, they are if all shapes with an area in up to 20 files, spread evenly, are
            rotated rectangles (``oriented_rectangle``, or ``rotation`` of X-AnyLabeling). Where only some are, a warning says
            so when the first of them is read.

    Attributes:
        oriented: Whether boxes are oriented, as given or found.

    Raises:
        SourceError: There are no JSON files, several splits but `split` is None, or no such split.

    Example:
        >>> import json
        >>> labelme = LabelMeDataset("labelme/", classes=["cat", "dog"])
        >>> [sample] = labelme.fetch([0])
        >>> json.loads(sample.fields["json"])["boxes"][0]
        [8.0, 4.0, 40.0, 36.0]
    """

    def __init__(
        self,
        root: PathLike,
        *,
        split: str | None = None,
        classes: Classes | None = None,
        masks: bool = False,
        outside: Outside = "raise",
        oriented: bool | None = None,
    ) -> None:
        require_choice("outside", outside, get_args(Outside))
        if masks:
            require("pycocotools.mask", extra="coco")
        folder = Path(root).absolute()
        with oserror_as_source_error(str(folder)):
            entries, everything, num_bare = _find_entries(folder, split)
        names = read_classes(classes)
        options = {"format": "labelme", "masks": masks, "outside": outside}
        super().__init__(folder, entries, names or (), options)
        remarks = unpaired_warnings(folder, num_bare, 0, ".json")
        if names is None:
            shapes = self._labels(everything)
            self._set_classes(sorted({label for label, _ in shapes}))
            num_lines = sum(kind in LINES for _, kind in shapes)
            if num_lines:
                remarks.append(
                    f"{folder} has {counted(num_lines, 'shape')} of the types {' and '.join(LINES)}, which have no area and so no box or "
                    "mask: they are in the field shapes only"
                )
            remarks.append(
                f"{folder} has no list of classes, so they are the labels of its files in sorted order "
                f"({few_of(self._class_names, 10)}): say classes= to fix their numbers"
            )
        self._warns_of_rotated = oriented is None
        self.oriented = self._are_all_rotated(everything) if oriented is None else oriented
        # Fingerprints without oriented boxes are older than this option.
        self._options |= ORIENTED if self.oriented else {}
        # Points have classes, as other shapes have.
        self._keypoint_names, self._flip_pairs = self.class_names, pairs_of_names(self.class_names)
        self._remarks = tuple(remarks)

    def _read(self, entry: Entry) -> Picture:
        name = entry.annotation
        document = self._document(name)
        data, field, header = self._picture(document, name)
        size = header.height, header.width
        require_stated_size(document.size, size, name)
        instances, targets = self._targets(document, size, name)
        if not self._options["masks"]:
            return Picture(data, field, header, targets, {})
        masks = (mask_of(one, size, f"{name} shape {one.number}") for one in instances)
        return Picture(data, field, header, targets, mask_fields(masks))

    def _targets(
        self, document: Document, size: tuple[int, int], name: str
    ) -> tuple[list[Instance], dict[str, Any]]:
        """Return the objects that have a box inside the picture, and the content of the field json."""
        for number, shape in enumerate(document.shapes, start=1):
            class_number(self._numbers, shape.label, f"{name} shape {number}")
        fit, outside = fit_corners if self.oriented else fit_box, self._options["outside"]
        objects = [
            (one, box)
            for one in instances_of(document.shapes)
            if (where := f"{name} shape {one.number}")
            and (
                box := fit(
                    one.corners(where) if self.oriented else one.box,
                    size,
                    outside,
                    where,
                )
            )
            is not None
        ]
        instances = [one for one, _ in objects]
        num_rotated = sum(shape.kind == ROTATED for shape in document.shapes)
        if num_rotated and self._warns_of_rotated and not self.oriented:
            self._warns_of_rotated = False  # the text would be the same for each file
            warnings.warn(
                f"{name} has {counted(num_rotated, 'rotated rectangle')}, of which only the extent becomes a box, since other files "
                "or shapes are not rotated: say oriented=True to have oriented boxes, for which each outline must have "
                "four corners, or oriented=False to have extents",
                stacklevel=2,
            )
        points = [shape for shape in document.shapes if shape.kind == "point"]
        return instances, {
            "boxes": [box for _, box in objects],
            "labels": [self._numbers[one.label] for one in instances],
            "keypoints": [list(shape.points[0]) for shape in points],
            "keypoint_labels": [self._numbers[shape.label] for shape in points],
            "keypoint_objects": [_owner(shape, instances) for shape in points],
            "shapes": document.raw_shapes,
            "flags": document.flags,
            **(ORIENTED if self.oriented else {}),
        }

    def _are_all_rotated(self, everything: Sequence[str]) -> bool:
        """Return whether all shapes with an area, in some files of all splits, are rotated rectangles."""
        names = [everything[at] for at in spread_evenly(len(everything), _LOOKED_AT)]
        of_files = [
            read_if_sound(lambda name: parse_labels(self._content_of(name), name), name) or ()
            for name in names
        ]
        kinds = {kind for shapes in of_files for _, kind in shapes if kind in WITH_AREA}
        return kinds == {ROTATED}

    def _picture(self, document: Document, name: str) -> tuple[Payload, str, Header]:
        if not document.data:
            return self._files.read_picture(document.image)
        data = decode_base64(document.data, f"{name}: imageData")
        header = read_header(data)
        return data, image_field(f".{_FIELDS.get(header.format, header.format)}"), header

    def _document(self, name: str) -> Document:
        return parse_document(self._content_of(name), name)

    def _content_of(self, name: str) -> bytes:
        content = self._files.read_annotation(name, _READ_BYTES)
        num_values = sum(
            map(content.count, (b"[", b"{", b","))
        )  # base64 text holds none of these characters
        check_bytes(_READ_BYTES * len(content) + _VALUE_BYTES * num_values, name)
        return content

    def _labels(self, everything: Sequence[str]) -> list[tuple[str, str]]:
        """Return (label, type) of every shape in the given files.

        Raises:
            SourceError: A file cannot be read, or no file has a shape.
        """
        of_files = (
            read_if_sound(
                lambda name: parse_labels(self._content_of(name), name), name, NEEDED_FOR_CLASSES
            )
            for name in everything
        )
        shapes = [shape for one in of_files if one for shape in one]
        if not shapes:
            raise SourceError(
                f"the files in {self._root} have no shapes: give the names of the classes, open_dataset(..., "
                "classes=['cat', 'dog'])"
            )
        return shapes

    def _sizes_of(self, entry: Entry) -> tuple[int, int]:
        return self._document(entry.annotation).size


def _find_entries(root: Path, split: str | None) -> tuple[list[Entry], list[str], int]:
    """Return the entries of a split, the names of the JSON files of all splits, and the split's count of pictures without one."""
    names = list(names_below(root))
    images = {stem_of(name): name for name in filter(is_image_file, names)}
    files = [name for name in names if name.lower().endswith(".json")]
    if not files:
        raise SourceError(f"{root} holds no .json files: give the folder in which LabelMe wrote")
    inside = inside_split(root, files, split)
    entries = [
        Entry(stem_of(name), images.get(stem_of(name), ""), name) for name in sorted(filter(inside, files))
    ]  # fmt: skip
    bare = {key for key in images if inside(key)} - {one.key for one in entries}
    return entries, sorted(files), len(bare)


def _owner(shape: Shape, instances: Sequence[Instance]) -> int:
    """Return the index of the object in a point's group, -1 if the group has no object or several."""
    if shape.group_id is None:
        return -1
    numbers = [
        number for number, one in enumerate(instances) if one.shapes[0].group_id == shape.group_id
    ]
    return numbers[0] if len(numbers) == 1 else -1
