"""Ultralytics YOLO: pictures with a text file each, of boxes, polygons, turned boxes or poses, or with masks."""

import struct
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from readers.detect.registry import require
from readers.formats.boxes.checks import (
    Outside,
    keypoints_to_json,
    read_if_sound,
    require_choice,
    same_name_warnings,
)
from readers.formats.boxes.dataset import AnnotatedDataset, Entry, Picture
from readers.formats.coco.masks import mask_fields, rasterise
from readers.formats.yolo.labels import (
    Labels,
    Object,
    Row,
    Task,
    drop_repeated,
    find_task,
    objects_of,
    read_rows,
)
from readers.formats.yolo.layout import Layout, file_of_picture, find_layout
from readers.labels.classes import Classes, read_classes
from readers.plural import counted
from readers.sample import PathLike, Payload, SourceError
from readers.storage.unreadable import oserror_as_source_error

# Files of labels that are searched for repeated rows at opening: 0.05 s from the page cache; 20,000 took 0.8 s.
_LOOKED_AT = 1000
_FLIPPED = (
    " keypoints of an object have other numbers in a mirrored picture. Flips here keep the numbers, so that left ones are called "
    "right ones: leave HorizontalFlip, VerticalFlip, Transpose and D4 out of the recipe, or exchange keypoint_labels of "
    "mirrored rows by dataset.flip_idx"
)


class YoloDataset(AnnotatedDataset):
    """The pictures of a split of a YOLO dataset with their objects, sorted by name.

    Each sample has the picture under its ending, and the field ``json``, in which the loader looks for targets:

    - ``boxes``: left, top, right, bottom in pixels of the upright picture (turned by its EXIF tag); around outlines and
      turned boxes their extent;
    - ``labels``: class numbers as written; `class_names` has their names;
    - ``polygons``: in "segment" and "obb", x, y, x, y, ... of each object in pixels;
    - ``keypoints``, ``keypoint_labels``: in "pose", the labelled keypoints (v > 0) of all objects, and the number of
      each in its object; also ``keypoint_visibility`` (1 hidden, 2 visible) and ``keypoint_objects`` (number of the object).

    In "semantic" a mask with class numbers is the field ``mask.png``, and there is no ``json``; 255 is ignored.

    A picture without a file of labels, or with an empty one, is background. Equal rows count once, as in Ultralytics, and a
    warning counts them. A row with a class or a number out of range, or of another task, makes its sample bad. Caches of labels
    are not read, nothing is written, and the command in ``download`` is never run.

    Args:
        source: The folder of ``data.yaml``, another YAML file of this kind, or a folder without one.
        split: Name of the split; None for the only one.
        task: Kind of the rows. None examines them; outlines of four corners only are refused, since they may be turned boxes.
        masks: In "segment", whether the mask of each object is a field too, ``mask.0.png`` and so on in the order of the boxes:
            1 inside the object, else 0. Needs the package pycocotools (the extra ``coco``).
        classes: Names of the classes, or a text file with one per line, if no YAML file has them.
        root: Folder of the dataset, if the YAML file lies elsewhere.
        outside: For a box that leaves its picture by more than 0.01 of its size: "raise" makes the sample bad, "clip" clips
            the box.

    Attributes:
        task: The task, as given or found.
        flip_idx: For each keypoint its number in a mirrored picture, as the YAML file has it, else (). It is not applied: flips
            keep the numbers of keypoints, with a warning.

    Raises:
        SourceError: There are no pictures, no labels at all, or no names of classes; there are several splits and none is
            asked for; or the task is unclear.

    Example:
        >>> import json
        >>> yolo = YoloDataset("yolo/data.yaml", split="train")
        >>> [sample] = yolo.fetch([0])
        >>> [box] = json.loads(sample.fields["json"])["boxes"]
        >>> yolo.task, [round(side) for side in box]
        ('detect', [8, 4, 40, 36])
    """

    def __init__(
        self,
        source: PathLike,
        *,
        split: str | None = None,
        task: Task | None = None,
        masks: bool = False,
        classes: Classes | None = None,
        root: PathLike | None = None,
        outside: Outside = "raise",
    ) -> None:
        require_choice("task", task, (None, *get_args(Task)))
        require_choice("outside", outside, get_args(Outside))
        path = Path(source).absolute()
        above = None if root is None else Path(root).absolute()
        with oserror_as_source_error(str(path)):
            layout = find_layout(path, split, above, labelled=task != "semantic")
        names = _class_names(layout, read_classes(classes))
        super().__init__(layout.root, layout.entries, names, {"format": "yolo"}, layout.remarks)
        self.task = _task(layout, task, self._files)
        if masks and self.task != "segment":
            raise SourceError(
                f"masks=True is for outlines, and {layout.root} has task={self.task!r}: leave it out"
            )
        if masks:
            require("pycocotools.mask", extra="coco")
        self._remarks += (*same_name_warnings(source, names, range(len(names))),)
        shape, self.flip_idx = layout.config.kpt_shape, layout.config.flip_idx
        changed = sum(number != other for number, other in enumerate(self.flip_idx))
        if changed:
            self._remarks += (f"{layout.config.file} says by flip_idx that {changed}{_FLIPPED}",)
        self._masks_dir = layout.config.masks_dir or "masks"
        self._labels = Labels(self.task, len(names), shape)
        self._options |= {"task": self.task, "masks": masks, "outside": outside}
        self._options |= {"kpt_shape": shape, "masks_dir": self._masks_dir}
        repeated, num_files = self._num_repeated()
        self._has_warned = repeated > 0
        if repeated:
            self._remarks += (self._repeated_sentence(repeated, num_files),)

    def _read(self, entry: Entry) -> Picture:
        data, field, header = self._files.read_picture(entry.image)
        if self.task == "semantic":
            name = file_of_picture(entry.image, self._masks_dir, ".png")
            mask = self._files.read(name)
            _check_palette(mask, name)
            return Picture(data, field, header, None, {"mask.png": mask})
        size = header.height, header.width
        objects: list[Object] = []
        if entry.annotation:
            rows = self._rows(entry.annotation)
            different = drop_repeated(rows)
            if len(different) < len(rows) and not self._has_warned:
                self._has_warned = True  # the text would be the same for each file
                warnings.warn(self._repeated_sentence(len(rows) - len(different), 1), stacklevel=2)
            outside = self._options["outside"]
            objects = objects_of(different, entry.annotation, self._labels, size, outside)
        outlined = objects if self._options["masks"] else ()
        fields = mask_fields(rasterise([[*one.polygon]], *size) for one in outlined)
        return Picture(data, field, header, self._targets(objects), fields)

    def _rows(self, name: str) -> list[Row]:
        return read_rows(self._files.read_annotation(name), name)

    def _num_repeated(self) -> tuple[int, int]:
        """Return the number of rows that repeat an earlier row of their file, and the number of files, spread evenly, that were searched."""
        names = [one.annotation for one in self._entries if one.annotation]
        names = names[:: len(names) // _LOOKED_AT + 1]
        of_files = [rows for name in names if (rows := read_if_sound(self._rows, name))]
        return sum(len(rows) - len(drop_repeated(rows)) for rows in of_files), len(names)

    def _repeated_sentence(self, num_rows: int, num_files: int) -> str:
        return (
            f"{self._root} repeats {counted(num_rows, 'row')} of labels exactly, in {counted(num_files, 'file')} of the split that "
            "were looked at: each counts once, as in Ultralytics; remove the others"
        )

    def _targets(self, objects: Sequence[Object]) -> dict[str, list[Any]]:
        targets: dict[str, list[Any]] = {
            "boxes": [one.box for one in objects],
            "labels": [one.label for one in objects],
        }
        if self.task in ("segment", "obb"):
            targets["polygons"] = [one.polygon for one in objects]
        if self.task == "pose":
            targets |= keypoints_to_json([one.keypoints for one in objects])
        return targets


def _class_names(layout: Layout, given: tuple[str, ...] | None) -> tuple[str, ...]:
    names = layout.config.names
    if not names:
        if given is None:
            raise SourceError(
                f"{layout.root} has no data.yaml that names its classes: name them, "
                "open_dataset(..., format='yolo', classes=['cat', 'dog'])"
            )
        return given
    if given is not None and given != names:
        raise SourceError(
            f"{layout.config.file} names other classes than classes=: leave out classes="
        )
    return names


def _task(layout: Layout, asked: Task | None, files: Any) -> Task:
    """Return the task of the rows."""
    if layout.config.masks_dir:
        if asked not in (None, "semantic"):
            raise SourceError(
                f"{layout.config.file} has masks_dir, which is of task='semantic', not {asked!r}"
            )
        return "semantic"
    if asked == "pose" and not layout.config.kpt_shape:
        raise SourceError(
            f"task='pose' needs kpt_shape in a YAML file, which {layout.root} has not: write one"
        )
    if asked is not None:
        return asked
    names = [one.annotation for one in layout.entries if one.annotation]
    found_task = find_task(files.read_annotation, names, layout.config.kpt_shape)
    if found_task is None:
        raise SourceError(
            f"{layout.root} has outlines of four corners alone, which may as well be turned boxes: say task='segment' or "
            "task='obb'"
        )
    return found_task


def _check_palette(mask: Payload, name: str) -> None:
    """Refuse a PNG with a palette of greys other than 0, 1, 2 ...: some programs read its greys, others its numbers.

    Raises:
        ValueError: The palette is of this kind.
    """
    data = bytes(mask[:8192])
    at = data.find(b"PLTE")
    if data[25:26] != b"\3" or at < 0:
        return
    [length] = struct.unpack_from(">I", data, at - 4)
    colors = [tuple(data[start : start + 3]) for start in range(at + 4, at + 4 + length, 3)]
    greys = [color[0] for color in colors]
    if all(len({*color}) == 1 for color in colors) and greys != list(range(len(greys))):
        raise ValueError(
            f"{name} has a palette of greys that are not its numbers: store the class numbers without a palette"
        )
