"""Pictures with a filled box at a known place, annotated in the manner of Pascal VOC, YOLO and LabelMe."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

HEIGHT, WIDTH = 48, 64
BOX = (8, 4, 40, 36)  # left, top, right, bottom of the filled box, from 0, half open
COLOR = (250, 60, 20)
_TURNED_BACK = {1: 0, 3: 2, 6: 1, 8: 3}  # quarter turns to the left that the orientation takes back


def pixels(background: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """A picture with the box, uint8 [48, 64, 3]; its other pixels are dark, or those of a photograph."""
    made = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    if background is not None:
        made[:] = background[:HEIGHT, :WIDTH]
    left, top, right, bottom = BOX
    made[top:bottom, left:right] = COLOR
    return made


def picture(
    orientation: int = 1, kind: str = "PNG", background: NDArray[np.uint8] | None = None
) -> bytes:
    """The picture as a file, stored so that its EXIF orientation turns it upright."""
    stored = np.rot90(pixels(background), _TURNED_BACK[orientation])
    exif = Image.Exif()
    exif[274] = orientation
    with io.BytesIO() as file:
        options: dict[str, Any] = {"exif": exif} if orientation > 1 else {}
        Image.fromarray(stored).save(file, kind, quality=95, **options)
        return file.getvalue()


def mask_png(value: int) -> bytes:
    """A palette PNG as Pascal VOC's: the value in the box, 255 at its left edge, 0 around; colours of no meaning."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    left, top, right, bottom = BOX
    mask[top:bottom, left:right] = value
    mask[top:bottom, left] = 255
    made = Image.frombytes("P", (WIDTH, HEIGHT), mask.tobytes())
    made.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
    with io.BytesIO() as file:
        made.save(file, "PNG")
        return file.getvalue()


def put(root: Path, files: dict[str, bytes | str]) -> Path:
    """Write files below a folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def voc_object(
    name: str = "dog", box: tuple[float, ...] = (9, 5, 40, 36), more: str = "", **fields: object
) -> str:
    """An object of Pascal VOC; the default is the filled box, counted from 1."""
    sides = zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
    inside = "".join(f"<{side}>{value}</{side}>" for side, value in sides)
    told = "".join(f"<{field}>{value}</{field}>" for field, value in fields.items())
    return f"<object><name>{name}</name>{told}<bndbox>{inside}</bndbox>{more}</object>"


def voc_xml(*objects: str, size: tuple[int, int] | None = (HEIGHT, WIDTH)) -> str:
    """An annotation of Pascal VOC of a picture of this height and width."""
    told = (
        f"<size><width>{size[1]}</width><height>{size[0]}</height><depth>3</depth></size>"
        if size
        else ""
    )
    return f"<annotation><folder>x</folder><filename>x.jpg</filename>{told}{''.join(objects)}</annotation>"


def write_voc(root: Path, image: bytes, number: int = 2, **lists: str) -> Path:
    """Pictures 0.jpg, 1.jpg, ... with a box each, and the lists of ImageSets/Main by name."""
    files: dict[str, bytes | str] = {}
    edge = voc_object("person", (1, 1, WIDTH, HEIGHT), difficult=1, pose="Left")
    for one in range(number):
        files[f"JPEGImages/{one}.jpg"] = image
        files[f"Annotations/{one}.xml"] = voc_xml(voc_object(truncated=1), edge)
    for name, text in lists.items():
        files[f"ImageSets/Main/{name}.txt"] = text
    return put(root, files)


def shares(box: tuple[float, ...] = BOX) -> tuple[float, float, float, float]:
    """Centre, width and height of a box in shares of the picture, as YOLO writes them."""
    left, top, right, bottom = box
    return (
        (left + right) / 2 / WIDTH,
        (top + bottom) / 2 / HEIGHT,
        (right - left) / WIDTH,
        (bottom - top) / HEIGHT,
    )


def yolo_row(label: int = 1, numbers: tuple[float, ...] | None = None) -> str:
    """A row of YOLO's labels; the default is the filled box."""
    return " ".join(map(str, (label, *(shares() if numbers is None else numbers)))) + "\n"


def outline(box: tuple[float, ...] = BOX) -> tuple[float, ...]:
    """The corners of a box in shares of the picture."""
    left, top, right, bottom = (
        value / length for value, length in zip(box, (WIDTH, HEIGHT) * 2, strict=True)
    )
    return left, top, right, top, right, bottom, left, bottom


def write_yolo(root: Path, image: bytes, *texts: str, yaml: str = "") -> Path:
    """Pictures 0.jpg, 1.jpg, ... with these labels, and data.yaml."""
    files: dict[str, bytes | str] = {
        "data.yaml": yaml or "train: images/train\nnames: [person, dog]\n"
    }
    for number, text in enumerate(texts):
        files[f"images/train/{number}.jpg"] = image
        files[f"labels/train/{number}.txt"] = text
    return put(root, files)


def shape(
    kind: str = "rectangle", points: object = None, label: str = "dog", **more: object
) -> dict[str, Any]:
    """A shape of LabelMe; the default is the filled box, from its last corner to its first."""
    points = [[BOX[2], BOX[3]], [BOX[0], BOX[1]]] if points is None else points
    told = {"label": label, "points": points, "group_id": None, "shape_type": kind, "flags": {}}
    return told | {"mask": None} | more


def labelme_json(*shapes: dict[str, Any], image: str = "0.jpg", **more: object) -> str:
    """A file of LabelMe."""
    stored = {"version": "5.5.0", "flags": {}, "shapes": [*shapes], "imagePath": image}
    stored |= {"imageData": None, "imageHeight": HEIGHT, "imageWidth": WIDTH}
    return json.dumps(stored | more)
