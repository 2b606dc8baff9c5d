"""Datasets of Ultralytics YOLO: pictures with one label file each (boxes, polygons, rotated boxes, poses) or masks."""

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
from readers.formats.boxes.oriented import ORIENTED, look_like_turned_boxes
from readers.formats.coco.masks import mask_fields, rasterise
from readers.formats.files.described import spread_evenly
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
from readers.image.header import image_size
from readers.labels.classes import Classes, read_classes
from readers.labels.flip_pairs import pairs_of_names, pairs_of_permutation
from readers.plural import counted
from readers.sample import PathLike, Payload, SourceError
from readers.storage.unreadable import oserror_as_source_error

# Label files that are searched for repeated rows at opening: 0.05 s from the page cache; 20,000 took 0.8 s.
_LOOKED_AT = 1000
_GUESSED_FROM = 20  # pictures whose sizes are read to tell oriented boxes from outlines


class YoloDataset(AnnotatedDataset):
    """The pictures of a split of a YOLO dataset with their objects, sorted by name.

    Each sample has the picture in the field named by its ending, and the field ``json``, from which the loader reads targets:

    - ``boxes``: left, top, right, bottom in pixels of the upright picture (after its EXIF orientation is applied); for
      outlines, their extent. For the task "obb", x, y of four corners in the order of the file, with ``box_format`` "xyxyxyxy";
    - ``labels``: class numbers as in the file; `class_names` has their names;
    - ``polygons``: for the task "segment", x, y, x, y, ... of each object in pixels;
    - ``keypoints``, ``keypoint_labels``: for the task "pose", the labelled keypoints (v > 0) of all objects, and the index of
      each in its object; also ``keypoint_visibility`` (1 hidden, 2 visible) and ``keypoint_objects`` (index of the object).

    For the task "semantic", the field ``mask.png`` is a mask of class numbers, in which 255 is ignored, and there is no
    ``json``.

    A picture without a label file, or with an empty one, is background. Repeated rows count once, as in Ultralytics, and a
    warning states their number. A row with a class or a number out of range, or of another task, makes its sample bad. Label
    caches are not read, nothing is written, and the command in ``download`` is never run.

    Args:
        source: Path of the folder that holds ``data.yaml``, of another YAML file of this kind, or of a folder without one.
        split: Name of the split; None if there is only one.
        task: Kind of the rows. If None, it is found by examining them. Rows of four corners may be outlines ("segment") or
            oriented boxes ("obb"). If there are no others, they count as oriented boxes if nearly all are rectangles and any is
            turned, otherwise as outlines, and a warning says so.
        masks: For the task "segment", whether each object's mask is a field, ``mask.0.png`` and so on in the order of the boxes,
            with 1 inside the object and 0 elsewhere. Needs the package pycocotools (the extra ``coco``).
        classes: Names of the classes, or a text file with one per line, if no YAML file has them.
        root: Path of the dataset's folder, if the YAML file lies elsewhere.
        outside: For a box that leaves its picture by more than 0.01 of its size: "raise" makes the sample bad, "clip" clips
            the box. An oriented box whose corners leave the picture is returned unchanged, since moving single corners would
            deform it: "raise" makes the sample bad if the centre of the box lies outside, "clip" leaves out boxes that lie
            outside completely. ``BoxParams(clip=True)`` of a recipe cuts the others.

    Attributes:
        task: Kind of the rows, as given or found.
        flip_idx: For each keypoint, its index in a mirrored picture, as the YAML file states it, otherwise (). A Loader applies
            it; see `flip_pairs`. Without it, keypoints whose names in ``kpt_names`` differ only in left and right are exchanged.

    Raises:
        SourceError: There are no pictures, no labels at all, or no class names; there are several splits but `split` is None;
            or the task contradicts the YAML file.

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
        self.task = _task(layout, task, self._files) or (
            "segment" if masks else self._guess_task()  # masks are made of outlines only
        )
        if masks and self.task != "segment":
            raise SourceError(
                f"masks=True is for outlines, and {layout.root} has task={self.task!r}: leave it out"
            )
        if masks:
            require("pycocotools.mask", extra="coco")
        self._remarks += (*same_name_warnings(source, names, range(len(names))),)
        shape, self.flip_idx = layout.config.kpt_shape, layout.config.flip_idx
        self._keypoint_names = layout.config.kpt_names
        by_names = pairs_of_names(self._keypoint_names)
        self._flip_pairs = pairs_of_permutation(self.flip_idx) if self.flip_idx else by_names
        self._masks_dir = layout.config.masks_dir or "masks"
        self._labels = Labels(self.task, len(names), shape)
        self._options |= {"task": self.task, "masks": masks, "outside": outside}
        self._options |= ORIENTED if self.task == "obb" else {}
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

    def _guess_task(self) -> Task:
        """Guess whether rows of four corners are outlines or oriented boxes, and add a warning about the guess."""
        entries = [one for one in self._entries if one.annotation]
        chosen = [entries[at] for at in spread_evenly(len(entries), _GUESSED_FROM)]
        of_files = [read_if_sound(self._outlines, entry) or [] for entry in chosen]
        outlines = [one for some in of_files for one in some]
        are_boxes = look_like_turned_boxes(outlines)
        task: Task = "obb" if are_boxes else "segment"
        self._remarks += (
            f"{self._root} has rows of four corners only, which may be outlines or oriented boxes. Of the "
            f"{counted(len(outlines), 'row')} of {counted(len(chosen), 'file')} that were looked at, "
            f"{'nearly all are rectangles and some are turned' if are_boxes else 'several are no rectangles or none is turned'}, so "
            f"they are read with task={task!r}: say task='obb' for oriented boxes or task='segment' for outlines",
        )
        return task

    def _outlines(self, entry: Entry) -> list[list[float]]:
        """Return the outlines of a picture, x, y, x, y, ... of each in pixels."""
        # The decoder reports a picture without a header. Here its outlines shrink to a point, which is no turned rectangle.
        height, width = image_size(self._files.read(entry.image, mapped=True)) or (0, 0)
        scale = (width, height) * 4
        rows = self._rows(entry.annotation)
        return [[a * b for a, b in zip(row.numbers, scale, strict=True)] for row in rows]

    def _num_repeated(self) -> tuple[int, int]:
        """Search up to 1000 label files, spread evenly, for repeated rows.

        Returns:
            The number of rows that repeat an earlier row of their file, and the number of files that were searched.
        """
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
        labels = [one.label for one in objects]
        if self.task == "obb":
            return {"boxes": [one.polygon for one in objects], "labels": labels, **ORIENTED}
        targets: dict[str, list[Any]] = {"boxes": [one.box for one in objects], "labels": labels}
        if self.task == "segment":
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


def _task(layout: Layout, asked: Task | None, files: Any) -> Task | None:
    """Return the task, as given or found in the label files; None if all rows are outlines of four corners.

    Args:
        layout: Files of the split.
        asked: Task that the caller gives, None to find it.
        files: Reads the label files.

    Raises:
        SourceError: The task contradicts the YAML file.
    """
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
    return find_task(files.read_annotation, names, layout.config.kpt_shape)


def _check_palette(mask: Payload, name: str) -> None:
    """Check that a mask has no palette of greys other than 0, 1, 2, ....

    With such a palette some programs read the greys, others the palette indices.

    Raises:
        ValueError: The mask has such a palette.
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
