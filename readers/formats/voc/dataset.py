"""Pascal VOC: pictures with an XML file each, masks, and lists of splits."""

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

    The folder is ``VOC2012`` (with ``JPEGImages``, ``Annotations`` and ``ImageSets``) or one around it, an export of
    CVAT in this form, or a folder in which ``a.xml`` lies next to ``a.jpg``. Each sample has the picture under its ending, and
    the field ``json``, in which the loader looks for targets:

    - ``boxes``: left, top, right, bottom in pixels from 0, without the right and bottom edges. If coordinates count from 1
      and include both ends, 1 is subtracted from xmin and ymin only;
    - ``labels``: class numbers; `class_names` has their names;
    - ``difficult``, ``truncated``, ``pose``: as written, one for each box.

    Parts of objects (heads, hands) are not read. A list of one class (``split="cat_train"``) gives the pictures
    without ``json``: their label is 1 with the class, 0 without it, and -1 if only difficult objects show it.

    Annotations have no rule about EXIF. If an annotation states the size of the picture as stored and the decoder
    turns the picture, the sample is bad, and so it is if the size differs in any other way.

    All annotations of the folder are read once when it is opened, unless both classes and coords are given. An unreadable
    one is then refused, unless classes are given, since it may name a class that shifts the numbers of others.
    An object without a bndbox has the box around its polygon. XML is decoded by its byte order mark or the encoding that it declares.

    Args:
        root: The folder.
        split: A list of ``ImageSets`` (``Main``, with masks ``Segmentation``), or a folder named like a split.
        classes: Names of the classes in the order of their numbers, or a text file with one per line. None takes those of
            ``labelmap.txt``, else the 20 of Pascal VOC if all names are among them, else all names in the folder (in all its
            splits), sorted.
        coords: Whether coordinates count from 1, "one-based", or from 0, "zero-based". None examines all boxes: a box that
            begins at 0 shows that they count from 0, a box that ends at the width or height that they count from 1. Without
            such a box they count from 1, as Pascal VOC defines, with a warning.
        masks: "class" or "object": ``SegmentationClass`` or ``SegmentationObject`` is the field ``mask.png``. 0 is the
            background, 255 is ignored (``ignore_index=255`` of torch's losses); in "class" the class
            ``class_names[k]`` has the value k + 1. Masks in colours, as CVAT exports them, become numbers by the colours
            in ``labelmap.txt``, in "object" by those of Pascal VOC's palette.
        difficult: Whether objects marked as difficult are included.
        outside: "raise" makes a sample bad if a box leaves its picture, "clip" clips the box.

    Attributes:
        coords: As given or found.

    Raises:
        SourceError: There are no such files, several splits and none is asked for, or no such split.

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
        if names is None or coords is None:
            needed_for = "" if names else NEEDED_FOR_CLASSES
            surveyed = survey(self._files.read_annotation, layout.annotations, needed_for)
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
    """Refuse a split without any picture or annotation, and masks without a folder."""
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


def _labelmap(root: Path) -> dict[str, Color | None]:
    """Return the classes and colours of CVAT's list, {} without a list."""
    path = root / "labelmap.txt"
    if not path.is_file():
        return {}
    return read_labelmap(read_text(path, "a list of classes and colours"), str(path))
