"""Masks, boxes and keypoints: read from a sample's fields, moved with its image, put into the batch."""

import io
import itertools
import json
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image

from dali_pipes import Batch, Execution, ImageOptions, LoaderError
from gpu_aug import CenterCrop, HorizontalFlip, Mosaic, RandomResizedCrop, Recipe, Resize
from gpu_aug.errors import TargetsError
from gpu_aug.targets.targets import BoxParams, KeypointParams
from readers import Dataset, open_dataset
from tests.support.loaders import draw_canvases_in_dali, loader_maker

NUM_IMAGES = 9
NO_SIDES = KeypointParams(flip_pairs=())
FLIPPED = Recipe([Resize((48, 64)), HorizontalFlip(1), CenterCrop((40, 40))], keypoints=NO_SIDES)
RANDOM = Recipe([RandomResizedCrop(24, scale=(0.3, 1.0)), HorizontalFlip()], keypoints=NO_SIDES)
DALI = pytest.mark.needs_dali
DECODERS = ["cpu", pytest.param("dali", marks=DALI)]


def png(array: np.ndarray, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(array).save(stream, "PNG", **options)
    return stream.getvalue()


def mask_of(number: int) -> np.ndarray:
    """A mask whose value tells row and column apart."""
    rows, columns = np.mgrid[: 60 + number, : 80 - number]
    return ((rows // 7 * 16 + columns // 9) % 251).astype(np.uint8)


def annotations_of(number: int) -> dict[str, Any]:
    boxes = [[5, 6, 30 + number, 40], [20, 10, 70 - number, 50.5], [0, 0, 4, 4]][: number % 4]
    return {"boxes": boxes, "labels": list(range(number % 4)), "keypoints": [[12.5, 30], [60, 8]]}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """A folder of nine images with a mask and a json beside each."""
    root = tmp_path_factory.mktemp("targets")
    for number in range(NUM_IMAGES):
        (root / f"{number}.jpg").write_bytes(jpeg(60 + number, 80 - number, seed=number))
        (root / f"{number}.mask.png").write_bytes(png(mask_of(number)))
        (root / f"{number}.json").write_text(json.dumps(annotations_of(number)))
    return open_dataset(root)


load = loader_maker(FLIPPED, engine="kornia", seed=3, dtype=torch.float32, last_batch="partial")


def rows_of(batches: Iterable[Batch]) -> dict[int, tuple[torch.Tensor, ...]]:
    """Index -> image, mask, boxes, labels, keypoints."""
    rows = {}
    for b in filter(len, batches):
        columns = (b.indices.tolist(), b.images, b.masks, b.boxes, b.box_labels, b.keypoints)
        rows |= {row[0]: row[1:] for row in zip(*columns, strict=True)}
    return rows


def assert_same(actual: Iterable[Batch], expected: Iterable[Batch]) -> None:
    one, other = rows_of(actual), rows_of(expected)
    assert one.keys() == other.keys()
    for index, row in one.items():
        assert all(torch.equal(a, b) for a, b in zip(row, other[index], strict=True)), index


def store(root: Path, files: dict[str, bytes | str | dict[str, Any]]) -> Dataset:
    for name, content in files.items():
        if isinstance(content, dict):
            content = json.dumps(content)
        data = content.encode() if isinstance(content, str) else content
        (root / name).write_bytes(data)
    return open_dataset(root)


def batch_of(root: Path, files: dict[str, Any], size: tuple[int, int]) -> Batch:
    """All samples of some files, resized, in one batch and in the order of their names."""
    dataset = store(root, files)
    return load(dataset, Recipe([Resize(size)]), batch_size=len(dataset), shuffle="none").peek()


@pytest.mark.parametrize("decoder", DECODERS)
def test_equals_torchvision(dataset: Dataset, decoder: str) -> None:
    """Mask, boxes and keypoints go where torchvision moves them; unmoved they would be elsewhere."""
    scale = np.array([64, 48])
    for index, row in rows_of(load(dataset, decoder=decoder)).items():
        _, mask, boxes, labels, keypoints = row
        resized = Image.fromarray(mask_of(index)).resize((64, 48), Image.Resampling.NEAREST)
        planar = torch.from_numpy(np.array(resized))[None]
        expected = tv.center_crop(tv.hflip(planar), [40, 40])[0].long()
        assert mask.dtype == torch.int64
        assert (mask == expected).float().mean() > 0.99
        assert (mask == tv.center_crop(planar, [40, 40])[0]).float().mean() < 0.9

        stored, factor = annotations_of(index), scale / (80 - index, 60 + index)
        points = np.array(stored["keypoints"]) * factor
        points[:, 0] = 64 - points[:, 0]
        points -= (12, 4)
        inside = ((points >= 0) & (points < 40)).all(1)
        assert np.allclose(keypoints.numpy(), points[inside], atol=1e-4)
        kept = []
        for box, label in zip(stored["boxes"], stored["labels"], strict=True):
            left, top, right, bottom = np.array(box).reshape(2, 2).dot(np.diag(factor)).ravel()
            moved = np.array([64 - right - 12, top - 4, 64 - left - 12, bottom - 4]).clip(0, 40)
            if moved[2] > moved[0] and moved[3] > moved[1]:
                kept.append((moved, label))
        assert labels.tolist() == [label for _, label in kept]
        assert boxes.dtype == torch.float32
        assert np.allclose(boxes, np.array([box for box, _ in kept]).reshape(-1, 4), atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"batch_size": 9, "num_threads": 1},
        {"execution": Execution(prefetch=5)},
        pytest.param({"decoder": "dali"}, marks=DALI),
        {"engine": "albumentations", "dtype": torch.uint8},
    ],
    ids=str,
)
def test_settings_do_not_matter(dataset: Dataset, options: dict[str, Any]) -> None:
    """Targets and images are the same to the bit whatever the settings; in another epoch they are not."""
    loader = load(dataset, RANDOM, dtype=options.get("dtype", torch.float32))
    usual = list(loader)
    assert_same(load(dataset, RANDOM, **options), usual)
    with pytest.raises(AssertionError):
        assert_same(loader, usual)


def test_targets_do_not_change_images(dataset: Dataset) -> None:
    """What is read beside an image leaves the image as it is; kinds that are not asked for stay away."""
    everything, nothing, boxes = (
        load(dataset, RANDOM, images=ImageOptions(targets=targets)).peek()
        for targets in ("auto", [], ["boxes"])
    )
    assert torch.equal(everything.images, nothing.images)
    for name in ("masks", "boxes", "box_labels", "keypoints"):
        assert getattr(nothing, name) is None
        assert getattr(everything, name) is not None
    assert (boxes.masks, boxes.keypoints) == (None, None)
    assert boxes.boxes is not None


@DALI
def test_the_way_of_a_gpu(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside canvases out of DALI's graph the targets are the same."""
    expected = rows_of(load(dataset, RANDOM))
    draw_canvases_in_dali(monkeypatch)
    for index, row in rows_of(load(dataset, RANDOM, decoder="dali")).items():
        assert all(torch.equal(a, b) for a, b in zip(row[1:], expected[index][1:], strict=True))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_mosaic(dataset: Dataset, world_size: int) -> None:
    """Mixed samples have the boxes of all their parts, and the same on any number of ranks."""
    recipe = Recipe([Resize((32, 32)), Mosaic(num_classes=2)])
    expected = list(load(dataset, recipe))
    options = {"batch_size": 2, "world_size": world_size}
    ranks = [load(dataset, recipe, rank=rank, **options) for rank in range(world_size)]

    assert_same(itertools.chain(*ranks), expected)
    plain = rows_of(load(dataset, Recipe([Resize((32, 32))])))
    more = [len(row[2]) > len(plain[index][2]) for index, row in rows_of(expected).items()]
    assert sum(more) >= 3


class TestStorage:
    def test_tar_equals_folder(self, dataset: Dataset, tmp_path: Path) -> None:
        """The same files in a shard, a mask before its image among them, give the same batches."""
        root = Path(dataset._prefix)
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            for number in range(NUM_IMAGES):
                for field in ("json", "mask.png", "jpg"):
                    archive.add(root / f"{number}.{field}", f"{number}.{field}")
        assert_same(load(open_dataset(tmp_path / "a.tar")), load(dataset))

    @pytest.mark.parametrize("bits", [1, 2, 4, 8])
    def test_palettes_and_few_bits(
        self, tmp_path: Path, jpeg: Callable[..., bytes], bits: int
    ) -> None:
        """A palette counts by its numbers, and few bits are not stretched; nor are 16."""
        numbers = (np.arange(30 * 40).reshape(30, 40) % 2**bits).astype(np.uint8)
        palette = Image.frombytes("P", (40, 30), numbers.tobytes())
        palette.putpalette(list(range(255, -1, -1)) * 3)
        stream = io.BytesIO()
        palette.save(stream, "PNG", bits=bits)
        files = {"a.jpg": jpeg(30, 40), "a.seg.png": stream.getvalue(), "b.jpg": jpeg(30, 40)}
        files["b.seg.png"] = grey_png(numbers, bits)
        batch = batch_of(tmp_path, files, (30, 40))
        assert torch.equal(batch.masks, torch.from_numpy(numbers).long().expand(2, -1, -1))

    def test_sixteen_bits(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Class numbers above 255 come through."""
        mask = np.arange(30 * 40, dtype=np.uint16).reshape(30, 40) * 50
        batch = batch_of(tmp_path, {"a.jpg": jpeg(30, 40), "a.mask.png": png(mask)}, (30, 40))
        assert batch.masks[0].tolist() == mask.tolist()

    def test_numbered_masks(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Instance masks come as a list, in the order of their numbers, also where one image has none."""
        files = {f"{name}.jpg": jpeg(30, 40) for name in "ab"}
        for number in (10, 2, 0):
            files[f"a.mask.{number}.png"] = png(np.full((30, 40), number, np.uint8))
        batch = batch_of(tmp_path, files, (8, 8))
        assert [list(mask.shape) for mask in batch.masks] == [[3, 8, 8], [0, 8, 8]]
        assert batch.masks[0][:, 0, 0].tolist() == [0, 2, 10]

    def test_some_have_none(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Samples without targets beside others have none of them, and a mask of -1."""
        files = {f"{name}.jpg": jpeg(30, 40) for name in "abc"}
        files |= {
            "a.mask.png": png(np.full((30, 40), 7, np.uint8)),
            "c.json": {"boxes": [[1, 2, 3, 4]]},
        }
        batch = batch_of(tmp_path, files, (30, 40))
        assert batch.masks[:, 0, 0].tolist() == [7, -1, -1]
        assert [boxes.tolist() for boxes in batch.boxes] == [[], [], [[1, 2, 3, 4]]]
        assert (batch.box_labels, batch.keypoints) == (None, None)

    def test_other_json_does_not_count(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """What other data keeps in its json is passed over."""
        files: dict[str, Any] = {f"{name}.jpg": jpeg(30, 40) for name in "abc"}
        files |= {"a.json": {"labels": ["x"], "url": "y"}, "b.json": '"cat"', "c.json": "[1]"}
        batch = batch_of(tmp_path, files, (30, 40))
        assert (batch.boxes, batch.box_labels, batch.masks) == (None, None, None)

    def test_labels_by_either_name(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Labels of boxes may be called as in gpu_aug.apply."""
        files: dict[str, Any] = {f"{name}.jpg": jpeg(30, 40) for name in "ab"}
        files |= {"a.json": {"boxes": [[1, 2, 3, 4]], "labels": [5]}}
        files |= {"b.json": {"boxes": [[1, 2, 3, 4]], "box_labels": [6]}}
        batch = batch_of(tmp_path, files, (30, 40))
        assert [labels.tolist() for labels in batch.box_labels] == [[5], [6]]

    def test_upright_coordinates(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Of an image that EXIF turns, targets are in the coordinates of the upright image."""
        exif = Image.Exif()
        exif[0x0112] = 6  # stored 30x40, shown 40x30
        mask = np.arange(40 * 30).reshape(40, 30).astype(np.uint8)
        files = {"a.jpg": jpeg(30, 40, exif=exif), "a.mask.png": png(mask)}
        files |= {"a.json": {"boxes": [[0, 0, 30, 40]]}}
        batch = batch_of(tmp_path, files, (40, 30))
        assert batch.masks[0].tolist() == mask.tolist()
        assert batch.boxes[0].tolist() == [[0, 0, 30, 40]]


def grey_png(numbers: np.ndarray, bits: int) -> bytes:
    """A grey PNG of a few bits, written by hand: Pillow writes 1 or 8."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    height, width = numbers.shape
    places = (numbers[:, :, None] >> np.arange(bits - 1, -1, -1)) & 1
    lines = np.packbits(places.reshape(height, -1).astype(np.uint8), axis=1)
    data = zlib.compress(b"".join(b"\0" + line.tobytes() for line in lines))
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


NOISE = np.random.default_rng(0).integers(0, 256, (30, 40), np.uint8)
FINE = png(np.zeros((30, 40), np.uint8))
BAD_TARGETS = {
    "size": ({"mask.png": png(np.zeros((40, 30), np.uint8))}, "as large as .* 30x40, got 40x30"),
    "channels": (
        {"mask.png": png(np.full((30, 40, 3), (1, 2, 3), np.uint8))},
        "one channel, .* got colours in 3 ch",
    ),
    "no png": ({"mask.png": b"GIF89a"}, "the field 'mask.png': "),
    "damaged": ({"mask.png": png(NOISE)[:700]}, "the field 'mask.png': it cannot be read: "),
    "two": (
        {"mask.png": FINE, "seg.png": FINE},
        "one mask, or masks that all have numbers, got mask.png, seg.png",
    ),
    "json": ({"json": '{"boxes": [[1, 2}'}, "the field 'json': it cannot be read"),
    "cut json": (
        {"json": '{"width": 40, "bo'},
        "the field 'json': it is empty, cut off or not UTF-8",
    ),
    "empty json": ({"json": " "}, "the field 'json': it is empty, cut off or not UTF-8"),
    "nan": ({"json": '{"boxes": [[1, 2, NaN, 4]]}'}, "finite"),
    "shape": ({"json": {"boxes": [[1, 2, 3]]}}, r"boxes must be float \[N, 4\]"),
    "count": ({"json": {"boxes": [[1, 2, 3, 4]], "labels": []}}, "must be one per row of boxes"),
    "names": (
        {"json": {"boxes": [[1, 2, 3, 4]], "labels": ["a"]}},
        "labels must be a list of whole",
    ),
    "outside": ({"json": {"boxes": [[1, 2, 90, 4]]}}, "boxes must lie in the image, 30x40"),
}


class TestBadTargets:
    @pytest.mark.parametrize("decoder", DECODERS)
    @pytest.mark.parametrize("name", BAD_TARGETS)
    def test_make_the_sample_bad(
        self, tmp_path: Path, jpeg: Callable[..., bytes], name: str, decoder: str
    ) -> None:
        """Each is a bad sample of the stage "targets" with a reason; its neighbours come through."""
        fields, reason = BAD_TARGETS[name]
        files: dict[str, Any] = {f"{number}.jpg": jpeg(30, 40, seed=number) for number in range(4)}
        for number in (0, 3):
            files |= {f"{number}.mask.png": FINE, f"{number}.json": {"boxes": [[1, 2, 3, 4]]}}
        files |= {f"1.{field}": content for field, content in fields.items()}
        dataset = store(tmp_path, files)
        options = {"shuffle": "none", "decoder": decoder}
        loader = load(dataset, on_bad_sample="skip", **options)
        (batch,) = loader

        assert batch.indices.tolist() == [0, 2, 3]
        assert len(batch.boxes) == len(batch.masks) == 3
        (record,) = loader.bad_samples
        assert (record.index, record.stage) == (1, "targets")
        assert re.search(reason, record.reason)
        (replaced,) = load(dataset, on_bad_sample="replace", **options)
        assert replaced.indices[1] != 1
        assert torch.equal(replaced.images[2], batch.images[1])
        (unasked,) = load(dataset, images=ImageOptions(targets=[]), **options)
        assert len(unasked) == 4

    def test_samples_that_cannot_be_mixed(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Boxes beside none in one mosaic stop the run, and the samples are named."""
        files: dict[str, Any] = {f"{number}.jpg": jpeg(30, 40) for number in range(4)}
        files |= {f"{number}.json": {"boxes": [[1, 2, 3, 4]]} for number in range(3)}
        recipe = Recipe([Resize((16, 16)), Mosaic()])
        with pytest.raises(
            TargetsError, match=r"needs boxes of all samples .* the samples are .*jpg"
        ):
            list(load(store(tmp_path, files), recipe))


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        ({"bbox": [[1, 2, 3, 4]], "labels": [0]}, "json of a sample has 'bbox' and no 'boxes'"),
        ("[]", "json of a sample is a list"),
        ({"boxes": [[1, 2, 3, 4]]}, "have boxes without classes, which get -1"),
    ],
)
def test_boxes_that_are_told_otherwise(
    tmp_path: Path, jpeg: Callable[..., bytes], content: Any, warning: str
) -> None:
    """Boxes under another name, and boxes without classes beside others that have some, are told."""
    files: dict[str, Any] = {"a.jpg": jpeg(30, 40), "b.jpg": jpeg(30, 40), "b.json": content}
    files["a.json"] = {"boxes": [[1, 2, 3, 4]], "labels": [0]}
    recipe = Recipe([Resize((60, 80))], boxes=BoxParams())
    with pytest.warns(UserWarning, match=warning):
        list(load(store(tmp_path, files), recipe))


@pytest.mark.parametrize("targets", ["boxes", ["box"], 3, [["boxes"]]])
def test_unknown_kinds(dataset: Dataset, targets: Any) -> None:
    """A kind that is not known is refused with those that are."""
    with pytest.raises(LoaderError, match=r'allowed are "auto", or some of "masks", "boxes", "key'):
        load(dataset, images=ImageOptions(targets=targets))


def test_repr_and_explain(dataset: Dataset) -> None:
    """A printed batch names its targets, and explain() what is read."""
    loader = load(dataset)
    text = "Batch(images=float32 [4, 3, 40, 40] on cpu, with masks, with boxes, with keypoints, valid=4)"
    assert repr(next(iter(loader))) == text
    assert "targets: masks, boxes, keypoints, where samples have them" in loader.explain()
    assert "targets: none" in load(dataset, images=ImageOptions(targets=[])).explain()
