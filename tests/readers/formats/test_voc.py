"""Pascal VOC: what torchvision reads from the same files, the conventions of coordinates, and files that are none."""

import io
import re
import shutil
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import VOCDetection, VOCSegmentation

from dali_pipes import Loader
from gpu_aug import Recipe, Resize
from readers import BadSample, open_dataset
from readers.formats.voc.dataset import VocDataset
from readers.formats.voc.survey import CLASSES, palette
from tests.support.annotated import (
    BOX,
    HEIGHT,
    WIDTH,
    mask_png,
    picture,
    put,
    voc_object,
    voc_xml,
    write_voc,
)
from tests.support.entries import json_of
from tests.support.opening import assert_refused, open_with_warning, warnings_of

IMAGE = picture(kind="JPEG")
SIDES = ("xmin", "ymin", "xmax", "ymax")
EDGE = voc_object("person", (1, 1, WIDTH, HEIGHT))


@pytest.fixture
def devkit(tmp_path: Path) -> Path:
    root = tmp_path / "VOCdevkit" / "VOC2012"
    part = "<part><name>head</name><bndbox><xmin>2</xmin><ymin>2</ymin><xmax>5</xmax><ymax>5</ymax></bndbox></part>"
    write_voc(root, IMAGE, 4, train="0\n2\n", val="3\n1\n", trainval="0\n1\n2\n3\n")
    floats = voc_object("cat", (3.5, 2.25, 30.75, 40.5), part, pose="Frontal")
    put(root, {"Annotations/2.xml": voc_xml(floats, EDGE)})
    put(root, {"ImageSets/Main/dog_train.txt": "0  1\n2 -1\n", "ImageSets/Main/dog_val.txt": "1  0\n3  1\n"})  # fmt: skip
    masks = [f"Segmentation{kind}/{n}.png" for kind in ("Class", "Object") for n in range(4)]
    put(root, dict.fromkeys(masks, mask_png(12)))
    put(root, {"ImageSets/Segmentation/train.txt": "2\n", "ImageSets/Segmentation/val.txt": "3\n"})
    return root


@pytest.mark.parametrize("split", ["train", "val", "trainval"])
def test_objects_are_those_of_torchvision(devkit: Path, split: str) -> None:
    """Pictures, names, boxes and flags; torchvision hands out the texts, from which 1 is taken at the first corner."""
    theirs = VOCDetection(devkit.parent.parent, "2012", split)
    ours = open_dataset(devkit.parent, split=split)
    entries = ours.fetch(range(len(ours)))

    assert len(ours) > 1
    for entry, path, (_, target) in zip(entries, theirs.images, theirs, strict=True):
        objects = target["annotation"]["object"]
        sides = [[float(one["bndbox"][side]) for side in SIDES] for one in objects]
        found = json_of(entry)
        assert entry.image == Path(path).read_bytes()
        assert found["boxes"] == [[x - 1, y - 1, right, bottom] for x, y, right, bottom in sides]
        assert [ours.class_names[label] for label in found["labels"]] == [one["name"] for one in objects]  # fmt: skip
        assert found["difficult"] == [int(one.get("difficult", 0)) for one in objects]
        assert found["pose"] == [one.get("pose", "Unspecified") for one in objects]


def test_the_filled_box(devkit: Path) -> None:
    """Its pixels are those between the edges, whole pictures begin at 0, and parts of objects are none."""
    dataset = VocDataset(devkit, split="trainval")
    first, _, third, _ = dataset.fetch(range(4))

    assert {name: json_of(first)[name] for name in ("boxes", "labels", "truncated")} == {
        "boxes": [[*BOX], [0, 0, WIDTH, HEIGHT]],
        "labels": [11, 14],
        "truncated": [1, 0],
    }
    assert json_of(third)["boxes"] == [[2.5, 1.25, 30.75, 40.5], [0, 0, WIDTH, HEIGHT]]
    assert (dataset.class_names, dataset.coords) == (CLASSES, "one-based")
    assert [entry.size for entry in (first, third)] == [(HEIGHT, WIDTH)] * 2
    assert dataset.column("height").tolist() == [HEIGHT] * 4
    assert dataset.column("width").tolist() == [WIDTH] * 4


def test_difficult_objects_can_be_left_out(devkit: Path) -> None:
    """They are marked, or not there."""
    [entry] = VocDataset(devkit, split="train", difficult=False).fetch([0])

    assert (json_of(entry)["labels"], json_of(entry)["difficult"]) == ([11], [0])


@pytest.mark.parametrize("kind", ["class", "object"])
def test_masks_are_those_of_torchvision(devkit: Path, kind: Any) -> None:
    """The numbers of the palette, with 255 where nothing counts, of the pictures in the lists of segmentation."""
    theirs = VOCSegmentation(devkit.parent.parent, "2012", "train")
    ours = VocDataset(devkit, split="train", masks=kind)
    fixed: dict[str, Any] = {"device": "cpu", "decoder": "cpu", "shuffle": "none"}
    [batch] = Loader(ours, Recipe([Resize((HEIGHT, WIDTH))]), batch_size=1, **fixed)
    [(_, mask)] = theirs

    assert [entry.key for entry in ours.fetch([0])] == ["2"]
    assert np.array_equal(batch.masks[0].numpy(), np.array(mask))
    assert set(np.unique(batch.masks).tolist()) == {0, 12, 255}
    assert ours.class_names[12 - 1] == "dog"


def test_masks_in_colours(devkit: Path) -> None:
    """CVAT's become the numbers of the classes; a colour of no class makes a bad sample."""
    colors = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    colors[4:9], colors[9:12] = (12, 34, 56), (224, 224, 192)
    for number, color in ((2, (9, 9, 9)), (3, (12, 34, 56))):
        colors[30, 30] = color
        Image.fromarray(colors).save(devkit / "SegmentationClass" / f"{number}.png")

    def opened(split: str, labelmap: str) -> VocDataset:
        put(devkit, {"labelmap.txt": labelmap} if labelmap else {})
        return VocDataset(devkit, split=split, masks="class")

    labelmap = "background:0,0,0::\ncat:1,2,3::\ndog:12,34,56::\nperson:::\n"
    [bare] = opened("val", "").fetch([0])
    [bad] = opened("train", labelmap).fetch([0])
    dataset = opened("val", labelmap)
    before = dataset.fingerprint
    numbers = np.asarray(Image.open(io.BytesIO(dataset.fetch([0])[0].fields["mask.png"])))

    assert "is in colours, and no labelmap.txt gives their classes" in bare.reason
    assert bad.reason.endswith("2.png has the colour 9,9,9, which labelmap.txt gives no class")
    assert dataset.class_names == ("cat", "dog", "person")
    assert numbers[:, 0].tolist() == [0] * 4 + [2] * 5 + [255] * 3 + [0] * (HEIGHT - 12)
    assert numbers[30, 30] == 2
    assert opened("val", labelmap.replace("34,56", "34,57")).fingerprint != before
    for text, sentence in {
        "background:0,0,0::\n": "lists no classes",
        "dog:0,0,1::\ndog:0,0,2::\n": "labelmap.txt:2 names dog a second time",
        "dog:0,0,256::\n": "three numbers to 255, such as 128,0,0, got '0,0,256'",
    }.items():
        put(devkit, {"labelmap.txt": text})
        assert_refused(sentence, devkit, split="val")


def test_the_palette() -> None:
    """Some colours that Pascal VOC's tools print: aeroplane, bicycle, person, and the void."""
    numbers = {number: color for color, number in palette().items()}

    assert [numbers[n] for n in (0, 1, 2, 15, 20, 255)] == [
        (0, 0, 0), (128, 0, 0), (0, 128, 0), (192, 128, 128), (0, 64, 128), (224, 224, 192),
    ]  # fmt: skip


def test_lists_of_one_class(devkit: Path) -> None:
    """Pictures with it, without it, and with objects that are hard to recognise alone."""
    dataset = open_dataset(devkit, split="dog_val")
    entries = dataset.fetch(range(2))

    assert [(entry.label, list(entry.fields)) for entry in entries] == [(-1, ["jpg"]), (1, ["jpg"])]
    assert open_dataset(devkit, split="dog_train").column("label").tolist() == [1, 0]
    assert dataset.class_names == ("not dog", "dog")


@pytest.mark.parametrize(
    ("objects", "coords", "warned"),
    [
        ([EDGE], "one-based", ""),
        ([voc_object(box=(5, 5, WIDTH, 9))], "one-based", ""),
        ([voc_object(box=(5, 5, 9, HEIGHT))], "one-based", ""),
        ([voc_object(box=(0, 3, 9, 9)), EDGE], "zero-based", "object 1 of a.xml begins at 0"),
        ([voc_object(box=(2, 3, 9, 9))], "one-based", "from 1, as no box shows it and this format usually does .*say coords="),
        ([voc_object(box=(-1, 3, 9, 9)), EDGE], "one-based", ""),
    ],
)  # fmt: skip
def test_from_where_coordinates_count(
    tmp_path: Path, objects: list[str], coords: str, warned: str
) -> None:
    """All boxes of the folder tell it; what is not certain is said, and an argument settles it."""
    files: dict[str, Any] = {"a.jpg": IMAGE, "a.xml": voc_xml(*objects), "b.jpg": IMAGE}
    root = put(tmp_path, files | {"b.xml": voc_xml(voc_object())})
    with pytest.warns(UserWarning, match=warned) if warned else nullcontext():
        dataset = open_dataset(root)
    first = [[8, 4, 40, 36]] if coords == "one-based" else [[9, 5, 40, 36]]

    assert (dataset.coords, json_of(dataset.fetch([1])[0])["boxes"]) == (coords, first)
    for asked in ("one-based", "zero-based"):
        assert VocDataset(root, coords=asked).coords == asked


def test_classes_of_all_splits(tmp_path: Path) -> None:
    """Without the fixed 20 they are all names of all splits, else those of the caller."""
    files: dict[str, Any] = {}
    for split, name in (("train", "zebra"), ("valid", "ant")):
        files[f"{split}/a.b.jpg"] = IMAGE
        files[f"{split}/a.b.xml"] = voc_xml(voc_object(name), voc_object(name, (1, 1, 64, 48)))
    root = put(tmp_path, files)

    assert_refused("holds the splits train, validation", root)
    dataset = open_dataset(root, split="train")
    [entry] = dataset.fetch([0])
    assert (dataset.class_names, entry.key) == (("ant", "zebra"), "train/a.b")
    assert json_of(entry)["labels"] == [1, 1]
    given = open_dataset(root, split="val", classes=["zebra", "ant"], coords="one-based")
    assert json_of(given.fetch([0])[0])["labels"] == [1, 1]
    [bad] = open_dataset(root, split="train", classes=["ant"], coords="one-based").fetch([0])
    assert bad.reason == "train/a.b.xml object 1: 'zebra' is none of the classes (ant)"


BAD = {
    voc_xml(voc_object(), voc_object(box=(1, 1, 65, 9))): (
        r"^a.xml object 2: xmax 65 > width 64 \(zero-based\? pass coords=\); outside='clip' cuts"
    ),
    voc_xml(voc_object(box=(0, 1, 6, 9))): r"object 1: xmin 0, which is -1 < 0 \(zero-based",
    voc_xml(voc_object(box=(8, 7, 8, 6))): "object 1: ymax 6 leaves no area behind ymin 7",
    voc_xml("<object><name>dog</name></object>"): r"object 1 \('dog'\) has no bndbox",
    voc_xml("<object><bndbox/></object>"): "object 1 has no name",
    voc_xml(
        voc_object(more="<bndbox/>")
    ): r"object 1 \('dog'\) has 2 times <bndbox>: write an object for each",
    voc_xml(voc_object(name="dog</name><name>cat")): "object 1 has 2 times <name>",
    voc_xml("<object><name>dog</name><robndbox/></object>"): (
        r"object 1 \('dog'\) has no bndbox, and its robndbox \(a turned box\) is not read"
    ),
    voc_xml("<object><name>dog</name><polygon><x1>1</x1><y1>1</y1></polygon></object>"): (
        r"object 1 \('dog'\) has no bndbox, and a polygon of 1 x and 1 y"
    ),
    voc_xml(voc_object(box=(1, 1, float("nan"), 9))): "object 1: xmax must be a number, got 'nan'",
    voc_xml(voc_object(difficult=3)): "object 1: difficult must be 0 or 1, got '3'",
    voc_xml(size=(48, 60)): "a.xml states 60 x 48 .*, the upright picture is 64 x 48",
    voc_xml().replace("48", "x"): "height must be a number of pixels, got 'x'",
    voc_xml()[:-9]: "a.xml is no XML that can be read",
    "<other/>": "a.xml holds <'other'>, not <annotation>",
    '<!DOCTYPE a [<!ENTITY b "c">]><annotation/>': "a.xml is no XML that can be read: it has entities",
    "": "a.xml is no XML",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_annotations_are_bad_samples(tmp_path: Path, text: str) -> None:
    """One sentence that names file, object, field and value; the neighbour is read."""
    files: dict[str, Any] = {"a.jpg": IMAGE, "a.xml": text, "b.jpg": IMAGE}
    root = put(tmp_path, files | {"b.xml": voc_xml(voc_object(), EDGE)})
    bad, good = VocDataset(root, classes=["dog", "person"], coords="one-based").fetch([0, 1])

    assert (bad.key, bad.stage) == ("a", "read")
    assert re.search(BAD[text], bad.reason), bad.reason
    assert str(tmp_path) not in bad.reason
    assert json_of(good)["labels"] == [0, 1]


def _polygon(points: str) -> str:
    return voc_xml(f"<object><name>dog</name><polygon>{points}</polygon></object>")


@pytest.mark.parametrize(
    "text",
    [
        voc_xml(voc_object()).replace("object", "OBJECT").replace("bndbox", "BndBox"),
        voc_xml(voc_object()).upper().replace("DOG", "dog"),
        _polygon("<x1>9</x1><y1>5</y1><x2>40</x2><y2>20</y2><x3>20</x3><y3>36</y3>"),
        _polygon("".join(f"<point><x>{x}</x><y>{y}</y></point>" for x, y in ((9, 5), (40, 20), (20, 36)))),
        voc_xml(voc_object(), size=None),
    ],
)  # fmt: skip
def test_other_spellings(tmp_path: Path, text: str) -> None:
    """Tags in capitals, outlines in place of boxes, and no size."""
    root = put(tmp_path, {"a.jpg": IMAGE, "a.xml": text, "b.jpg": IMAGE, "b.xml": voc_xml(EDGE)})
    assert json_of(open_dataset(root, coords="one-based").fetch([0])[0])["boxes"] == [[*BOX]]


def test_objects_without_a_box_name_their_class(tmp_path: Path) -> None:
    """They make their sample bad; the class that they name has its number."""
    turned = "<object><name>ant</name><robndbox/></object>"
    files: dict[str, Any] = {"a.jpg": IMAGE, "a.xml": voc_xml(turned), "b.jpg": IMAGE}
    root = put(tmp_path, files | {"b.xml": voc_xml(voc_object("cow"), EDGE)})
    dataset = open_dataset(root)

    assert dataset.class_names == ("ant", "cow", "person")
    assert [isinstance(one, BadSample) for one in dataset.fetch([0, 1])] == [True, False]


def test_boxes_can_be_clipped(tmp_path: Path) -> None:
    """A box that leaves its picture is cut, one that lies outside is no object any more."""
    objects = [voc_object(box=(60, 1, 70, 9)), voc_object(box=(65, 1, 70, 9)), voc_object()]
    root = put(tmp_path, {"a.jpg": IMAGE, "a.xml": voc_xml(*objects)})
    [entry] = VocDataset(root, outside="clip", coords="one-based").fetch([0])

    assert json_of(entry)["boxes"] == [[59, 0, 64, 9], [*BOX]]


def test_what_has_no_counterpart(tmp_path: Path) -> None:
    """It is counted in one warning; what a list names and is not there is a bad sample."""
    files: dict[str, Any] = {f"{name}.jpg": IMAGE for name in "abc"}
    root = put(tmp_path / "flat", files | {"a.xml": voc_xml(EDGE), "x.xml": voc_xml(EDGE)})
    counts = r"2 pictures without \.xml and 1 \.xml without a picture"
    assert len(open_with_warning(counts, root)) == 1

    listed = write_voc(tmp_path / "listed", IMAGE, 2, train="0\n7\n1\n")
    (listed / "Annotations" / "1.xml").unlink()
    good, *bad = open_dataset(listed).fetch(range(3))
    assert json_of(good)["boxes"]
    reasons = ["there is no picture for 7", "there is no annotation for 1"]
    assert [one.reason for one in bad] == reasons


@pytest.mark.parametrize(
    ("split", "options", "sentence"),
    [
        ("test", {}, "has no split 'test': its splits are train"),
        ("a", {}, "a.txt:2 names 0 a second time"),
        ("b", {}, "names no pictures"),
        ("c_x", {}, "c_x.txt:2 must be a picture and 1, -1 or 0"),
        ("d", {}, "holds no picture of the split"),
        ("train", {"coords": "1"}, "coords='1' must be one of None, 'one-based', 'zero-based'"),
        ("train", {"masks": True}, "masks=True must be one of None, 'class', 'object'"),
        ("train", {"outside": None}, "outside=None must be one of 'raise', 'clip'"),
        ("train", {"classes": "dog"}, "the file of classes dog cannot be read"),
        ("train", {"classes": ["dog", "dog"]}, "names the class 'dog' twice"),
        ("train", {"masks": "object"}, "has no folder SegmentationObject"),
    ],
)
def test_refusals(devkit: Path, split: str, options: dict[str, Any], sentence: str) -> None:
    """Lists that are none, masks that are not there, arguments of no meaning."""
    lists = {"a": "0\n0\n", "b": "\n", "c_x": "0 1\n2 5\n", "d": "../../etc/passwd\n"}
    put(devkit, {f"ImageSets/Main/{name}.txt": text for name, text in lists.items()})
    shutil.rmtree(devkit / "SegmentationObject")
    assert_refused(sentence, devkit, by=VocDataset, split=split, **options)


def test_several_splits_or_years_are_refused(devkit: Path) -> None:
    """One has to be named, in whatever folder they lie."""
    for source in (devkit, devkit.parent, devkit.parent.parent):
        assert_refused("the splits train, trainval, val, which are never", source)
    shutil.copytree(devkit, devkit.parent / "VOC2007")
    assert_refused("holds VOC2007, VOC2012: open one of them", devkit.parent, split="train")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("a.jpg", "a.png", "a.xml"), r"a.jpg and a.png have the same name"),
        (("a.jpg", "b.xml"), r"has 1 picture and 1 \.xml file, none of which belong"),
    ],
)
def test_partners_are_not_guessed(tmp_path: Path, names: tuple[str, ...], sentence: str) -> None:
    """Two pictures of one annotation, and an annotation of another picture."""
    put(tmp_path, {name: voc_xml(EDGE) if name.endswith("xml") else IMAGE for name in names})
    assert_refused(sentence, tmp_path, by=VocDataset)


def test_masks_without_annotations(devkit: Path) -> None:
    """A folder of pictures and masks alone has no boxes."""
    shutil.rmtree(devkit / "Annotations")
    dataset = open_dataset(devkit, split="val", masks="class", classes=CLASSES)
    [entry] = dataset.fetch([0])

    assert list(entry.fields) == ["jpg", "mask.png"]
    assert Image.open(io.BytesIO(entry.fields["mask.png"])).mode == "P"
    assert_refused("no annotation for any of the 2 pictures", devkit, split="val")


def test_fingerprint(devkit: Path) -> None:
    """It sees one digit of a box, the classes, and all that decides what a sample holds."""

    def of(**options: Any) -> str:
        return VocDataset(devkit, split="train", **options).fingerprint

    settings: tuple[dict[str, Any], ...] = (
        {"difficult": False},
        {"outside": "clip"},
        {"coords": "zero-based"},
        {"classes": ("dog", "person", "cat")},
        {"masks": "class"},
        {"masks": "object"},
    )
    before = of()
    others = {of(**options) for options in settings}
    assert before == of()
    path = devkit / "Annotations" / "2.xml"
    path.write_text(path.read_text().replace("30.75", "30.76"))

    assert len({before, of(), *others}) == 8


def rotation(value: str) -> str:
    """The attributes of an object as CVAT writes them."""
    pair = f"<attribute><name>rotation</name><value>{value}</value></attribute>"
    return f"<attributes><attribute><name>x</name><value>9</value></attribute>{pair}</attributes>"


def test_rotations_are_warned_about(tmp_path: Path) -> None:
    """At opening if all annotations are read there, else with the first such object; an angle of 0 or another text is none."""
    turned = voc_object(more=rotation("330.0"))
    root = put(tmp_path / "a", {"a.jpg": IMAGE, "a.xml": voc_xml(turned, turned, voc_object())})
    options: dict[str, Any] = {"classes": ["dog"], "coords": "one-based"}
    said = "a has 2 objects with the attribute rotation, which is not used"
    dataset = open_with_warning(said, root, coords="one-based")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert json_of(dataset.fetch([0])[0])["boxes"] == [[*BOX]] * 3
        unread = open_dataset(root, **options)
    with pytest.warns(UserWarning, match=r"a.xml has 2 objects .*open that with oriented=True"):
        assert json_of(unread.fetch([0])[0])["boxes"] == [[*BOX]] * 3

    for number, value in enumerate(("0.0", "0", "left", "")):
        one = voc_xml(voc_object(more=rotation(value)))
        other = put(tmp_path / str(number), {"a.jpg": IMAGE, "a.xml": one})
        assert not any("attribute rotation" in text for text in warnings_of(other))
