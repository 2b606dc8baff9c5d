"""Datasets of DOTA: pictures from above with text files of oriented boxes."""

from pathlib import Path
from typing import get_args

from readers.describe import few_of
from readers.formats.boxes.checks import (
    NEEDED_FOR_CLASSES,
    Outside,
    class_number,
    read_if_sound,
    require_choice,
)
from readers.formats.boxes.dataset import AnnotatedDataset, Entry, Picture
from readers.formats.boxes.oriented import ORIENTED, fit_corners, has_area
from readers.formats.dota.labels import CLASSES, Row, choose_classes, parse_labels
from readers.formats.dota.layout import find_layout
from readers.formats.yolo.config import USUAL, looks_like_config, read_config
from readers.labels.classes import Classes, read_classes
from readers.plural import counted
from readers.sample import PathLike
from readers.storage.unreadable import oserror_as_source_error


class DotaDataset(AnnotatedDataset):
    """The pictures of a split of DOTA (v1.0, v1.5, v2.0) or of data in its format, with their oriented boxes.

    The folder holds ``images`` and ``labelTxt``, or folders of splits with these. Labels may also lie in
    ``labelTxt-v1.5/DOTA-v1.5_train`` and the like, or in ``annfiles``, as MMRotate calls it, and pictures at any depth. Tiles
    such as ``P0001__1__0___0.png`` are pictures like others. A picture and its labels have the same name but for the ending.
    Each sample has the picture in the field named by its ending, and the field ``json``, from which the loader reads targets:

    - ``boxes``: x, y of four corners in pixels of the upright picture, counted from 0, in the order of the file, with
      ``box_format`` "xyxyxyxy". In DOTA the first corner tells the heading of an object;
    - ``labels``: class numbers; `class_names` has their names;
    - ``difficult``: 0, 1 for an object that is hard to recognise, or 2 for a rest of an object at the edge of a tile; 0 if the
      file has no such flag;
    - ``header``: the lines before the objects as text, such as ``{"imagesource": "GoogleEarth", "gsd": "0.146"}``. The ground
      sampling distance gsd is in metres per pixel.

    An empty label file is background; pictures without a label file are left out with a warning. Boxes without an area, as the
    cutting of tiles leaves them, are left out with a warning. A malformed line makes its sample bad.

    All label files of the folder are read when it is opened. If classes are not given, an unreadable one is an error, since it may
    name a class that shifts the numbers of others.

    Args:
        root: The folder.
        split: Name of a split, if folders are named like splits; None if there is only one.
        annotations: Name of the folders of label files, such as "labelTxt-v1.5", if there are several or they have another name.
        classes: Names of the classes in the order of their numbers, or a text file with one per line. If None, these are
            the names in ``data.yaml``, which Roboflow writes; without this file, the classes of the first version of DOTA (15, 16 or 18 classes) that has all names, in the order of
            https://captain-whu.github.io/DOTA/dataset.html; otherwise the names in all label files, sorted, with a warning.
        difficult: Whether objects with a ``difficult`` above 0 are included.
        outside: For a box whose centre lies outside its picture: "raise" makes the sample bad; "clip" leaves out boxes that lie
            outside completely. Corners outside are returned unchanged, since moving single ones would deform the box;
            ``BoxParams(clip=True)`` of a recipe cuts boxes.

    Raises:
        SourceError: There are no pictures with labels, labels of several versions but `annotations` is None, several splits but
            `split` is None, or no such split.

    Example:
        >>> import json
        >>> dota = DotaDataset("dota/", split="train")
        >>> [sample] = dota.fetch([0])
        >>> [box] = json.loads(sample.fields["json"])["boxes"]
        >>> dota.class_names[:2], box
        (('plane', 'ship'), [8.0, 4.0, 40.0, 4.0, 40.0, 36.0, 8.0, 36.0])
    """

    def __init__(
        self,
        root: PathLike,
        *,
        split: str | None = None,
        annotations: str | None = None,
        classes: Classes | None = None,
        difficult: bool = True,
        outside: Outside = "raise",
    ) -> None:
        require_choice("outside", outside, get_args(Outside))
        folder = Path(root).absolute()
        with oserror_as_source_error(str(folder)):
            entries, files, remarks = find_layout(folder, split, annotations)
        options = {"format": "dota", "difficult": difficult, "outside": outside}
        names = read_classes(classes) or _names_in_yaml(folder) or None
        super().__init__(folder, entries, names or (), options)
        parsed = [
            read_if_sound(self._labels, name, "" if names else NEEDED_FOR_CLASSES) for name in files
        ]
        rows = [row for one in parsed if one for row in one[1]]
        if names is None:
            self._set_classes(choose_classes({row.name for row in rows}, folder))
            if not {*self._class_names} <= {*CLASSES}:
                remarks.append(
                    f"{folder} has classes that are not DOTA's, so its classes are the names in its label files in sorted order "
                    f"({few_of(self._class_names, 10)}): say classes= to fix their numbers"
                )
        num_flat = sum(not has_area(row.corners) for row in rows)
        if num_flat:
            remarks.append(
                f"{folder} has {counted(num_flat, 'box')} without an area in its label files, which are left out: correct or remove "
                "them"
            )
        self._remarks = tuple(remarks)

    def _read(self, entry: Entry) -> Picture:
        data, field, header = self._files.read_picture(entry.image)
        size = header.height, header.width
        name = entry.annotation
        head, rows = self._labels(name)
        kept = [row for row in rows if self._is_box(row, size, f"{name}:{row.line}")]
        targets = {
            "boxes": [row.corners for row in kept],
            "labels": [class_number(self._numbers, row.name, f"{name}:{row.line}") for row in kept],
            "difficult": [row.difficult for row in kept],
            "header": head,
            **ORIENTED,
        }
        return Picture(data, field, header, targets, {})

    def _is_box(self, row: Row, size: tuple[int, int], where: str) -> bool:
        """Return whether an object has an area, is not left out as difficult, and lies in its picture."""
        is_wanted = has_area(row.corners) and (self._options["difficult"] or not row.difficult)
        return is_wanted and bool(fit_corners(row.corners, size, self._options["outside"], where))

    def _labels(self, name: str) -> tuple[dict[str, str], list[Row]]:
        return parse_labels(self._files.read_annotation(name), name)


def _names_in_yaml(folder: Path) -> tuple[str, ...]:
    """Return the class names in a ``data.yaml`` of YOLO, as Roboflow writes beside ``labelTxt``; () without such a file."""
    file = next(filter(looks_like_config, (folder / name for name in USUAL)), None)
    return read_config(file).names if file else ()
