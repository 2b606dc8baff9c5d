"""Datasets in Pascal VOC's format: pictures with one XML file each, masks, and lists of splits."""

import warnings
from pathlib import Path
from typing import Any, Literal, get_args

from readers.formats.boxes.checks import (
    NEEDED_FOR_CLASSES,
    Coords,
    Outside,
    choose_coords,
    class_number,
    fit_box,
    require_choice,
    require_stated_size,
)
from readers.formats.boxes.dataset import AnnotatedDataset, Entry, Picture
from readers.formats.voc.annotation import VocAnnotation, parse_annotation
from readers.formats.voc.layout import MASKS, Layout, find_layout, mask_name
from readers.formats.voc.survey import (
    BACKGROUND,
    Color,
    choose_classes,
    has_colors,
    number_colors,
    numbers_of_colors,
    palette,
    read_labelmap,
    survey,
)
from readers.labels.classes import Classes, read_classes
from readers.plural import counted
from readers.sample import PathLike, Payload, SourceError
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_text

Masks = Literal["class", "object"]


class VocDataset(AnnotatedDataset):
    """The pictures of a split of Pascal VOC with their objects.

    The folder is ``VOC2012`` (with ``JPEGImages``, ``Annotations`` and ``ImageSets``) or a folder around it, an export of
    CVAT in this layout, or a folder in which ``a.xml`` lies next to ``a.jpg``. Each sample has the picture in the field named
    by its ending, and the field ``json``, from which the loader reads targets:

    - ``boxes``: left, top, right, bottom in pixels from 0, without the right and bottom edges. If coordinates count from 1
      and include both ends, 1 is subtracted from xmin and ymin only;
    - ``labels``: class numbers; `class_names` has their names;
    - ``difficult``, ``truncated``, ``pose``: as in the file, one value for each box.

    Parts of objects (heads, hands) are not read. If the split is a list of one class
    (``split="cat_train"``), samples have no ``json``; their label is 1 with the class, 0 without it, and -1 if all objects
    of the class are difficult.

    The format has no rule about EXIF orientation. A sample is bad if its annotation states another size than that of the
    upright picture, also if the stated size is the one before the orientation is applied.

    All annotations in the folder are read when it is opened, unless both classes and coords are given. If classes are not
    given, an unreadable annotation is an error, since it may name a class that shifts the numbers of others.
    An object without a bndbox gets the box around its polygon. The attribute ``rotation`` of CVAT, whose bndbox is the rectangle
    before the rotation, is not used, and a warning counts these. XML is decoded by its byte order mark or its declared encoding.

    Args:
        root: The folder.
        split: Name of a list in ``ImageSets`` (``Main``, or with masks ``Segmentation``), or of a folder named like a split;
            None if there is only one.
        classes: Names of the classes in the order of their numbers, or a text file with one per line. If None, these are
            tried in turn: the names in ``labelmap.txt``; the 20 classes of Pascal VOC, if all names in the annotations are
            among them; the names in the annotations of all splits, sorted.
        coords: "one-based" if coordinates count from 1, "zero-based" if they count from 0. If None, all boxes are examined: a
            box that begins at 0 shows that they count from 0, a box that ends at the width or height that they count from 1.
            If there is neither, they count from 1, as Pascal VOC defines, with a warning.
        masks: "class" or "object": the field ``mask.png`` is the mask in ``SegmentationClass`` or ``SegmentationObject``; None
            for no masks. The value 0 is the background, 255 is ignored (``ignore_index=255`` of torch's losses); with
            "class" the class ``class_names[k]`` has the value k + 1. Masks in colours, as CVAT exports them, are converted to
            numbers by the colours in ``labelmap.txt``, with "object" by those of Pascal VOC's palette.
        difficult: Whether objects marked as difficult are included.
        outside: "raise" makes a sample bad if a box leaves its picture, "clip" clips the box.

    Attributes:
        coords: "one-based" or "zero-based", as given or found.

    Raises:
        SourceError: There are no pictures with annotations, several splits but `split` is None, or no such split.

    Example:
        >>> import json
        >>> voc = VocDataset("VOCdevkit/VOC2012", split="train")
        >>> [sample] = voc.fetch([0])
        >>> json.loads(sample.fields["json"])["boxes"]
        [[8.0, 4.0, 40.0, 36.0], [0.0, 0.0, 64.0, 48.0]]
    """

    def __init__(
        self,
        root: PathLike,
        *,
        split: str | None = None,
        classes: Classes | None = None,
        coords: Coords | None = None,
        masks: Masks | None = None,
        difficult: bool = True,
        outside: Outside = "raise",
    ) -> None:
        require_choice("coords", coords, (None, *get_args(Coords)))
        require_choice("masks", masks, (None, *get_args(Masks)))
        require_choice("outside", outside, get_args(Outside))
        folder = Path(root).absolute()
        with oserror_as_source_error(str(folder)):
            layout = find_layout(folder, split, masks)
        _require_some(layout, masks)
        remarks = list(layout.remarks)
        listed = _labelmap(layout.root)
        names = read_classes(classes) or (*(one for one in listed if one != BACKGROUND),) or None
        if layout.list_class:
            names, coords = (f"not {layout.list_class}", layout.list_class), coords or "one-based"
        self._has_objects = bool(layout.annotations) and not layout.list_class
        if not layout.annotations:
            names, coords = names or (), coords or "one-based"
        options = {"format": "voc", "masks": masks, "difficult": difficult, "outside": outside}
        super().__init__(layout.root, layout.entries, names or (), options)
        self._has_warned = False
        if names is None or coords is None:
            needed_for = "" if names else NEEDED_FOR_CLASSES
            surveyed = survey(self._files.read_annotation, layout.annotations, needed_for)
            self._has_warned = surveyed.num_turned > 0
            remarks += [_turned_sentence(layout.root, surveyed.num_turned)] * self._has_warned
            self._set_classes(names or choose_classes(surveyed, layout.root))
            if coords is None:
                coords, remark = choose_coords(surveyed.boxes, layout.root, "one-based")
                remarks += [remark] if remark else []
        self._options["coords"] = self.coords = coords
        self._colors = palette() if masks == "object" else numbers_of_colors(listed, names or ())
        if masks == "class":
            self._options["colors"] = sorted(
                [*color, number] for color, number in self._colors.items()
            )
        self._remarks = tuple(remarks)

    @property
    def mask_names(self) -> tuple[str, ...]:
        """Name of each value of a mask of classes: the background, then `class_names`; empty without such masks."""
        return (BACKGROUND, *self.class_names) if self._options["masks"] == "class" else ()

    def _read(self, entry: Entry) -> Picture:
        if not entry.image:
            raise ValueError(f"there is no picture for {entry.key}")
        data, field, header = self._files.read_picture(entry.image)
        fields: dict[str, Payload] = {}
        if self._options["masks"]:
            fields["mask.png"] = self._mask(mask_name(entry, self._options["masks"]))
        if not self._has_objects:
            return Picture(data, field, header, None, fields)
        if not entry.annotation:
            raise ValueError(f"there is no annotation for {entry.key}")
        parsed = self._annotation(entry)
        num_turned = sum(one.is_turned for one in parsed.objects)
        if num_turned and not self._has_warned:
            self._has_warned = True  # the text would be the same for each file
            warnings.warn(_turned_sentence(entry.annotation, num_turned), stacklevel=2)
        size = header.height, header.width
        require_stated_size(parsed.size, size, entry.annotation)
        return Picture(data, field, header, self._targets(parsed, size, entry.annotation), fields)

    def _targets(
        self, annotation: VocAnnotation, size: tuple[int, int], name: str
    ) -> dict[str, list[Any]]:
        targets: dict[str, list[Any]] = {
            key: [] for key in ("boxes", "labels", "difficult", "truncated", "pose")
        }
        first = 1 if self.coords == "one-based" else 0
        other = "zero" if first else "one"
        for number, one in enumerate(annotation.objects, start=1):
            where = f"{name} object {number}"
            label = class_number(self._numbers, one.name, where)
            left, top, right, bottom = one.box
            box = fit_box(
                (left - first, top - first, right, bottom),
                size,
                self._options["outside"],
                where,
                raw=one.box,
                hint=f" ({other}-based? pass coords=)",
            )
            if box is None or (one.difficult and not self._options["difficult"]):
                continue
            values = (box, label, one.difficult, one.truncated, one.pose)
            for key, value in zip(targets, values, strict=True):
                targets[key].append(value)
        return targets

    def _mask(self, name: str) -> Payload:
        mask = self._files.read(name)
        if not has_colors(mask):
            return mask
        if not self._colors:
            raise ValueError(
                f"{name} is in colours, and no labelmap.txt gives their classes: store the numbers of the classes"
            )
        return number_colors(mask, self._colors, name)

    def _annotation(self, entry: Entry) -> VocAnnotation:
        return parse_annotation(self._files.read_annotation(entry.annotation), entry.annotation)

    def _sizes_of(self, entry: Entry) -> tuple[int, int]:
        return (entry.annotation and self._annotation(entry).size) or (0, 0)


def _require_some(layout: Layout, masks: str | None) -> None:
    """Check that a split has pictures and annotations, and that the folder of masks exists.

    Raises:
        SourceError: No entry has a picture, no entry has an annotation, or the folder of masks is missing.
    """
    without = next((one.key for one in layout.entries if not one.image), "")
    if without and not any(one.image for one in layout.entries):
        raise SourceError(
            f"{layout.root} holds no picture of the split; the first missing one is {without}"
        )
    is_bare = layout.list_class or (masks and not layout.annotations)
    if not is_bare and not any(one.annotation for one in layout.entries):
        raise SourceError(
            f"{layout.root} has no annotation for any of the {counted(len(layout.entries), 'picture')} of the split: open the "
            "folder of the pictures to have them without objects"
        )
    if masks and not (layout.root / MASKS[masks]).is_dir():
        raise SourceError(f"{layout.root} has no folder {MASKS[masks]}: leave out masks={masks!r}")


def _turned_sentence(source: object, number: int) -> str:
    return (
        f"{source} has {counted(number, 'object')} with the attribute rotation, which is not used, so that their boxes lie as before the "
        "rotation: export them as COCO and open that with oriented=True to have the turned boxes"
    )


def _labelmap(root: Path) -> dict[str, Color | None]:
    """Return the colour of each class in CVAT's ``labelmap.txt``, by class name; empty if the file does not exist."""
    path = root / "labelmap.txt"
    if not path.is_file():
        return {}
    return read_labelmap(read_text(path, "a list of classes and colours"), str(path))
