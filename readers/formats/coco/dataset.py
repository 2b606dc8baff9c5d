"""COCO's annotations: one JSON file with images, objects and categories, and the images beside it."""

import json
from collections import Counter
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from readers.detect.registry import require
from readers.formats.boxes.checks import (
    read_each,
    read_if_sound,
    require_choice,
    require_stated_size,
    same_name_warnings,
)
from readers.formats.boxes.dataset import image_field
from readers.formats.boxes.oriented import ORIENTED, look_like_turned_boxes
from readers.formats.coco.lists import CAPTION, IMAGE, SEGMENTS, find_images
from readers.formats.coco.masks import mask_fields, rasterise
from readers.formats.coco.targets import (
    add_boxes,
    are_categories,
    choose_objects,
    file_name,
    name_of,
    objects_to_json,
    outline_box,
    parse,
    quadrangle_of,
    rotated_box,
    segments_to_json,
    upright_box,
)
from readers.formats.columns import CORNERS, to_payload
from readers.formats.files.described import (
    DescribedFiles,
    FilesBelow,
    folder_with,
    spread_evenly,
)
from readers.image.header import image_size
from readers.labels.flip_pairs import FlipPairs, pairs_of_names
from readers.plural import counted
from readers.sample import (
    MASK_VALUES,
    BadSample,
    PathLike,
    Payload,
    Sample,
    SourceError,
)
from readers.storage.index import Scan

_LOOKED_AT = 20  # images whose outlines are examined at opening


class CocoDataset(DescribedFiles):
    """The images of a COCO file with their objects, in the order of the list ``images``.

    Each sample has the image under its extension, and the field ``json``, in which the loader looks for
    targets:

    - ``boxes``: x, y, x, y in pixels of the stored image, from COCO's x, y, width, height. With ``oriented=True`` or
      ``box_format="cxcywhr"``, x, y of four corners, with ``box_format`` "xyxyxyxy";
    - ``labels``: the object's category, counted from 0 in the order of the category numbers; `class_names`
      has their names. Without the list ``categories`` it is the number in the file, and a warning says so;
    - ``keypoints``, ``keypoint_labels``: where an object has keypoints, those that are labelled (v > 0), of
      all objects, and each one's number in its category's list;
    - ``keypoint_visibility``: 1 for those that are hidden, 2 for those that are seen; ``keypoint_objects``: the index of the
      object that each belongs to;
    - ``iscrowd``, ``area``: as in the file, one for each box. An ``iscrowd`` that is neither 0, 1, true nor false, as such or
      as text, makes its sample bad.

    Images without objects have empty lists. The label of a sample is -1, since an image has no single class.
    Categories whose ids are text are sorted as text. Ids may be whole numbers with a point (1.0), as pandas writes them.

    An object without a box gets the box around its outline (``segmentation``). An object without both makes its sample bad, and so
    does a box that is not four numbers or has a size below 0. An object whose box has a width or height of 0 and whose outline has no
    area is left out, and a warning counts these. An image whose width and height differ from those that the file states is a bad
    sample, since its boxes lie in another frame. So is an image that was annotated before its EXIF orientation turned it.

    In a file of captions, the captions of an image are a JSON list in the field ``captions``, and there is no field json. In a
    panoptic file, the mask is the field ``mask.png``; the loader makes a semantic mask of it with the field ``mask_values.json``, the
    class of each segment and 255 for no segment. Things are the objects of the field ``json``, with ``segment_ids``.

    The file is indexed once (see `readers.storage.index`), which takes memory of about three times its size. Objects
    are read when they are fetched.

    Args:
        annotations: The JSON file, such as ``annotations/instances_train2017.json``.
        images: Folder of the images. None takes the first of these that holds the first image: the folder
            named like the end of the file's name (``train2017``), next to the file or to its folder; ``images`` with or
            without such a folder in it; and the folder of the file.
        masks: Whether the mask of each object is a field too, ``mask.0.png`` and so on in the order of the boxes: 1 inside
            the object, else 0. Polygons need the package pycocotools (the extra ``coco``).
        crowd: Whether regions of several objects (``iscrowd``) count as objects.
        box_format: Meaning of the numbers of a box: "xywh" as in COCO, "xyxy", as some tools write them, or "cxcywhr" for oriented
            boxes: the centre, width, height and the angle in degrees, counter-clockwise, as in Detectron2 and torchvision.
        panoptic: Folder of the masks of a panoptic file. None takes the folder next to the file that has the file's name.
        oriented: Whether the box of an object is its outline (``segmentation``) instead of its ``bbox``. The outline must have
            four corners, which keep their order; another outline makes the sample bad. An object without an outline has
            the corners of its ``bbox``, turned around its centre by the ``rotation`` in its ``attributes``, if there is one: CVAT
            writes turned rectangles so, in degrees, clockwise. False returns such a bbox as it is. None is False, with a warning
            if all outlines look like oriented boxes or boxes have a rotation. It is not needed with the box_format "cxcywhr".

    Raises:
        SourceError: The file is missing, cut off, no JSON of this kind, lists no images, or has two images or two categories of
            one id; no folder holds the first image; or masks are asked for and pycocotools is not installed.
    """

    def __init__(
        self,
        annotations: PathLike,
        *,
        images: PathLike | None = None,
        masks: bool = False,
        crowd: bool = False,
        box_format: Literal["xywh", "xyxy", "cxcywhr"] = "xywh",
        panoptic: PathLike | None = None,
        oriented: bool | None = None,
    ) -> None:
        require_choice("box_format", box_format, ("xywh", "xyxy", "cxcywhr"))
        images = None if images is None else Path(images).absolute()
        panoptic = None if panoptic is None else Path(panoptic).absolute()
        options = {
            "images": images,
            "masks": masks,
            "crowd": crowd,
            "box_format": box_format,
            "panoptic": panoptic,
            "oriented": oriented,
        }
        super().__init__(annotations, Scan("coco", 5, find_images), options)
        path = self._source
        ends = path.stem.split("_")[-1]  # instances_train2017
        usual = (ends, f"images/{ends}", "images")
        around = (path.parent.parent, path.parent)
        root = images or folder_with(path, around, usual, [_name(self._first())])
        self._files = FilesBelow(root, "the folder of the images")
        members = self._stored.members
        self._holds_captions = any(name.startswith(CAPTION) for name in members)
        self._notes = max(name for name in members if name.startswith(IMAGE)).removeprefix(IMAGE)
        self._masks: FilesBelow | None = None
        if any(name.startswith(SEGMENTS) for name in members):
            self._masks = FilesBelow(
                _find_masks(path, panoptic), "the folder of the panoptic masks"
            )
        if masks:
            require("pycocotools.mask", extra="coco")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the categories, in the order of their ids in the file."""
        return tuple(str(category.get("name", "")) for category in self._categories.values())

    @property
    def keypoint_names(self) -> tuple[str, ...]:
        """Names of the keypoints; empty if categories have different ones."""
        lists = self._keypoint_lists
        return lists[0] if len(lists) == 1 else ()

    @property
    def flip_pairs(self) -> FlipPairs | None:
        """Keypoints whose names differ only in left and right; None without such, or if they differ between categories."""
        found = {*map(pairs_of_names, self._keypoint_lists)}
        return found.pop() if len(found) == 1 else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return warnings about the annotations, with the numbers of affected entries counted while indexing."""
        notes: Counter[str] = Counter(json.loads(self._notes or "{}"))  # 0 for a missing count
        name, is_xywh = self._source, self._options["box_format"] == "xywh"
        sentences = [
            (
                not self._categories
                and any(one.isdigit() or one.startswith(SEGMENTS) for one in self._stored.members),
                f"{name} has no categories, so that labels are its category_ids as they are, which need not count from 0, and there are "
                "no class_names: add the list categories",
            ),
            (
                notes["bare"],
                f"{name} has no annotations, so that its {counted(notes['bare'], 'image')} count as background: if it should have "
                "some, correct the list annotations",
            ),
            (
                notes["lost"],
                f"{name} has {counted(notes['lost'], 'annotation')} of images that it does not list, which are left out: make sure "
                "that images and annotations belong together"
                + " (one has ids that are text, the other numbers)"
                * notes["kinds"],
            ),
            (
                is_xywh and notes["flat"],
                f"{name} has {counted(notes['flat'], 'box')} without a width and a height above 0, whose objects are left out: "
                "correct them, or say box_format='xyxy' where they are corners",
            ),
            (
                notes["again"],
                f"{name} lists {counted(notes['again'], 'image')} again under another id, so that each sample of these has but a part "
                "of the objects: give each image one id",
            ),
            (
                is_xywh and notes["beyond"],
                f"{name}: bbox looks like x, y, x, y: x + w or y + h exceeds the image in {notes['beyond']}% of the boxes; say "
                "box_format='xyxy' if that is so",
            ),
            (
                notes["shares"],
                f"{name}: all boxes ({notes['shares']}) lie within the first pixels of their images, so that they look like shares of width and "
                "height: COCO's are pixels, so multiply them",
            ),
            (
                num_turned := self._num_turned_outlines(),
                f"{name}: the outlines of {counted(num_turned, 'object')} that were looked at are rectangles, of which some are turned, and "
                "boxes are those of bbox: say oriented=True to have oriented boxes, or oriented=False",
            ),
            (
                notes["turned"] and not self._is_form_given,
                f"{name} has {counted(notes['turned'], 'box')} with a rotation in their attributes, which is not used, so that they lie "
                "as before the rotation: say oriented=True to have the turned boxes, or oriented=False to have those of bbox",
            ),
        ]
        same = same_name_warnings(name, self.class_names, self._categories)
        return (*(sentence for is_said, sentence in sentences if is_said), *same)

    def _identity(self) -> bytes:
        identity = repr((self._options["masks"], self._options["crowd"]))
        box_format = self._options["box_format"]
        identity += "" if box_format == "xywh" else box_format
        return (f"{identity} oriented" if self._options["oriented"] else identity).encode()

    def _name_of(self, entry: Sample | BadSample) -> str:
        with suppress(
            ValueError
        ):  # a damaged entry is a bad sample, and its key stands for its name
            if isinstance(entry, Sample):
                return _name(entry)
        return entry.key

    def _read(self, entry: Sample) -> Sample:
        name = _name(entry)
        image = image_field(name)
        fields: dict[str, Payload] = {image: self._files.read(name)}
        size = image_size(fields[image])
        require_stated_size(entry.size, size, entry.key.partition("/")[0])
        if self._masks is not None:
            fields |= self._panoptic(entry, self._masks)
        elif self._holds_captions:
            texts = (text for name, text in entry.fields.items() if name.startswith(CAPTION))
            fields["captions"] = to_payload([str(parse(text)["caption"]) for text in texts])
        else:
            fields |= self._objects(entry, size or entry.size)
        return Sample(entry.index, entry.key, fields, image_field=image)

    def _objects(self, entry: Sample, size: tuple[int, int] | None) -> dict[str, Payload]:
        annotations = [parse(text) for name, text in entry.fields.items() if name.isdigit()]
        wanted = choose_objects(annotations, crowd=self._options["crowd"])
        box_format, oriented = self._options["box_format"], self._options["oriented"]
        has_angle = box_format == "cxcywhr"
        read = partial(outline_box if oriented else upright_box, box_format=box_format, size=size)
        objects = add_boxes(wanted, rotated_box if has_angle else read)
        # All samples have the same entries, also if none of an image's objects has keypoints.
        has_points = bool(json.loads(self._notes or "{}").get("points"))
        targets = objects_to_json(objects, self._categories, with_keypoints=has_points)
        form = ORIENTED if oriented or has_angle else CORNERS
        fields: dict[str, Payload] = {"json": to_payload(targets | form)}
        if self._options["masks"]:
            outlines = [one for one, _ in objects]
            height, width = size or (0, 0)
            masks = read_each(
                outlines, lambda one: rasterise(one.get("segmentation"), height, width), name_of
            )
            fields |= mask_fields(masks)
        return fields

    @property
    def _is_form_given(self) -> bool:
        """Whether the options say if boxes are oriented."""
        return self._options["oriented"] is not None or self._options["box_format"] == "cxcywhr"

    def _num_turned_outlines(self) -> int:
        """Return the number of outlines of some images if they look like oriented boxes; 0 if not, or if the options settle it."""
        rows = [] if self._is_form_given else spread_evenly(len(self), _LOOKED_AT)
        samples = (one for one in self._stored.fetch(rows) if isinstance(one, Sample))
        texts = [text for one in samples for name, text in one.fields.items() if name.isdigit()]
        outlines = [(read_if_sound(parse, text) or {}).get("segmentation") for text in texts]
        corners = [found for one in outlines if (found := quadrangle_of(one))]
        are_boxes = len(corners) == len(outlines) and look_like_turned_boxes(corners)
        return len(corners) if are_boxes else 0

    def _panoptic(self, entry: Sample, masks: FilesBelow) -> dict[str, Payload]:
        names = [name for name in entry.fields if name.startswith(SEGMENTS)]
        if not names:
            return {}
        if len(names) > 1:
            raise ValueError(f"it has {len(names)} panoptic masks, and one is allowed")
        one = parse(entry.fields[names[0]])
        targets, colors = segments_to_json(
            one["segments_info"], self._categories, crowd=self._options["crowd"]
        )
        mask = masks.read(str(one.get("file_name", "")))
        return {"mask.png": mask, MASK_VALUES: colors, "json": to_payload(targets | CORNERS)}

    @cached_property
    def _categories(self) -> dict[int | str, dict[str, Any]]:
        """Id in the file -> category, sorted by id."""
        text = self._first().fields.get("categories", b"[]")
        listed: Any = None
        with suppress(ValueError, RecursionError):  # the list was sound when the file was indexed
            # A wrong byte in a name must not make all objects unreadable.
            listed = json.loads(str(text, "utf-8", "replace"))
        if not are_categories(listed):
            raise SourceError(f"{self._source} has changed since it was opened")
        return {one["id"]: one for one in sorted(listed, key=lambda one: one["id"])}

    @property
    def _keypoint_lists(self) -> list[tuple[str, ...]]:
        """The different lists of keypoint names that categories have."""
        lists = [category.get("keypoints") for category in self._categories.values()]
        named = [tuple(map(str, names)) for names in lists if isinstance(names, list) and names]
        return [*dict.fromkeys(named)]

    def _first(self) -> Sample:
        """Return the first entry that can be read; the scan ensures that there is one."""
        for index in range(len(self._stored)):
            [entry] = self._stored.fetch([index])
            if isinstance(entry, Sample):
                return entry
        raise SourceError(f"{self._source} lists no image that can be read")


def _name(entry: Sample) -> str:
    return file_name(parse(next(iter(entry.fields.values()))))


def _find_masks(path: Path, asked: Path | None) -> Path:
    """Return the folder of a panoptic file's masks."""
    folder = path.parent / path.stem if asked is None else asked
    if not folder.is_dir():
        raise SourceError(
            f"{path} names panoptic masks, and there is no folder {folder}: say panoptic="
        )
    return folder
