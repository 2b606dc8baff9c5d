"""Datasets of PyTorch, torchvision and Hugging Face through `from_torch` and `from_huggingface`."""

import io
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import datasets
import numpy as np
import pytest
import torch
import torch.utils.data
from PIL import Image
from torchvision.datasets import ImageFolder, VOCDetection
from torchvision.transforms import v2

from dali_pipes import Loader, LoaderError
from dali_pipes.integrations.hf_datasets import from_huggingface
from dali_pipes.integrations.torch_dataset import from_torch
from gpu_aug import Normalize, Recipe, Resize
from readers import BadSample, Sample, from_arrays
from tests.support.jpegs import encode, picture

RECIPE = Recipe([Resize((16, 16)), Normalize()])


def decoded(sample: Any) -> Any:
    """What OpenCV makes of a sample's image, RGB or grey; not turned upright."""
    image = cv2.imdecode(np.frombuffer(sample.image, np.uint8), cv2.IMREAD_UNCHANGED)
    return image[..., ::-1] if image.ndim == 3 else image


class Listed(torch.utils.data.Dataset[Any]):
    """Items as they are given; an exception is raised."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.items[index], Exception):
            raise self.items[index]
        return self.items[index]


def evaluate(items: list[Any], recipe: Recipe) -> Loader:
    return Loader.eval(from_torch(Listed(items)), recipe, batch_size=2, device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes of four pictures, one grey, one PNG, one that EXIF turns."""
    root = tmp_path_factory.mktemp("folder")
    for number in range(12):
        path = root / "abc"[number % 3] / f"{number:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode(picture(20, 30, number), "4:2:0"))
    Image.fromarray(picture(20, 30, 50)).save(root / "a" / "90.png")
    Image.fromarray(picture(20, 30, 51)).convert("L").save(root / "b" / "91.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(picture(20, 30, 52)).save(root / "c" / "92.jpg", exif=exif)
    return root


def test_image_folder(folder: Path) -> None:
    """The pixels and labels are torchvision's; files are handed over where that gives the same."""
    theirs = ImageFolder(str(folder))
    ours = from_torch(theirs)

    assert len(ours) == len(theirs) == 15
    assert (ours.classes, ours.column("label").tolist()) == (("a", "b", "c"), theirs.targets)
    for sample, (image, label) in zip(ours, theirs, strict=True):
        assert sample.label == label
        found = decoded(sample)
        found = np.repeat(found[..., None], 3, axis=2) if found.ndim == 2 else found
        assert np.array_equal(found, np.asarray(image))
    assert [list(ours[n].fields) for n in (0, 4, 14)] == [["jpg"], ["png"], ["ppm"]]
    assert ours[0].key == "a/00.jpg"


def test_subsets_of_an_image_folder(folder: Path) -> None:
    """`random_split` is looked through: labels, classes and files are those of the whole."""
    theirs, _ = torch.utils.data.random_split(ImageFolder(str(folder)), [5, 10])
    inner = torch.utils.data.Subset(theirs, [4, 0])
    ours = from_torch(inner)

    assert [sample.label for sample in ours] == [label for _, label in inner]  # type: ignore[attr-defined]
    assert ours.column("label").tolist() == [label for _, label in inner]  # type: ignore[attr-defined]
    assert ours.classes == ("a", "b", "c")


def test_voc_detection(tmp_path: Path) -> None:
    """Its annotation is a field, as JSON; the image is torchvision's."""
    base = tmp_path / "VOCdevkit" / "VOC2012"
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (base / name).mkdir(parents=True)
    (base / "JPEGImages" / "x.jpg").write_bytes(encode(picture(20, 30, 0), "4:2:0"))
    (base / "Annotations" / "x.xml").write_text(
        "<annotation><object><name>dog</name><bndbox><xmin>1</xmin></bndbox></object></annotation>"
    )
    (base / "ImageSets" / "Main" / "train.txt").write_text("x\n")
    ours = from_torch(VOCDetection(str(tmp_path), image_set="train"))
    target = ours[0].fields["target"]

    assert (ours[0].label, ours[0].size) == (-1, (20, 30))
    assert b'"name":"dog"' in bytes(target)


GREY = np.arange(24, dtype=np.uint8).reshape(4, 6)
COLOR = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)


@pytest.mark.parametrize(
    ("item", "label", "expected"),
    [
        ((COLOR, 3), 3, COLOR),
        ((torch.from_numpy(COLOR).permute(2, 0, 1), torch.tensor(2)), 2, COLOR),
        ((Image.fromarray(COLOR), np.int32(1)), 1, COLOR),
        ((Image.fromarray(GREY), None), -1, GREY),
        (Image.fromarray(COLOR), -1, COLOR),
        ({"image": COLOR, "label": 4, "caption": "a dog"}, 4, COLOR),
        (
            (Image.fromarray(COLOR).convert("P"), 0),
            0,
            np.asarray(Image.fromarray(COLOR).convert("P").convert("RGB")),
        ),
        ((Image.fromarray(GREY > 12), 0), 0, (GREY > 12) * np.uint8(255)),
    ],
    ids=["array", "tensor", "pil", "grey", "image alone", "dictionary", "palette", "one bit"],
)
def test_kinds_of_items(item: Any, label: int, expected: Any) -> None:
    """Arrays, tensors and PIL images of all modes become the pixels that they are."""
    ours = from_torch(Listed([item, item]))

    assert ours[1].label == label
    assert np.array_equal(decoded(ours[1]), expected)
    assert ours.column("label").tolist() == [label] * 2


def test_files_paths_and_bytes(tmp_path: Path) -> None:
    """Encoded bytes stay as they are, as do PIL images that were opened and no more; a changed one does not."""
    data = encode(picture(16, 24, 0), "4:2:0")
    (tmp_path / "a.jpg").write_bytes(data)
    rotated = Image.open(tmp_path / "a.jpg")
    rotated.thumbnail((12, 12))
    opened = Image.open(tmp_path / "a.jpg")
    in_memory = Image.open(io.BytesIO(data))
    fields = [
        from_torch(Listed([(one, 1)]))[0].fields
        for one in (data, tmp_path / "a.jpg", str(tmp_path / "a.jpg"), opened, in_memory, rotated)
    ]
    opened.close()

    assert [one.get("jpg") == data for one in fields] == [True] * 5 + [False]
    assert "ppm" in fields[-1]


def test_targets() -> None:
    """Masks and boxes reach the batch."""
    mask = Image.fromarray(np.full((4, 6), 7, np.uint8))
    boxes = {
        "boxes": torch.tensor([[0.0, 1.0, 3.0, 4.0]]),
        "labels": torch.tensor([5]),
        "area": np.float32(9),
    }
    [masked] = evaluate([(COLOR, mask)], Recipe([Resize((4, 6))]))
    [boxed] = evaluate([(COLOR, boxes)], Recipe([Resize((8, 12))]))

    assert masked.masks.unique().tolist() == [7]
    assert (boxed.boxes[0].tolist(), boxed.box_labels[0].tolist()) == ([[0, 2, 6, 8]], [5])


def test_labels_that_are_vectors() -> None:
    """Of one length they are stacked."""
    ours = from_torch(
        Listed([(COLOR, torch.tensor([1.0, 0, 1])), (COLOR, torch.tensor([0.0, 1, 0]))])
    )
    [batch] = Loader.eval(ours, Recipe([Resize((4, 6))]), batch_size=2, device="cpu")

    assert (ours.label_shape, batch.labels.tolist()) == ((3,), [[1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "item",
    [
        (COLOR, "dog"),
        {"image": COLOR, "label": "dog"},
        Sample(0, "k", {"jpg": b""}, "dog"),  # type: ignore[arg-type]
    ],
    ids=["tuple", "dictionary", "sample"],
)
def test_labels_that_are_text(item: Any) -> None:
    """They are numbered by the classes that the dataset or the call names, else refused."""
    named = Listed([item])
    named.classes = ["cat", "dog"]  # type: ignore[attr-defined]

    assert [from_torch(named)[0].label, from_torch(named).column("label").tolist()] == [1, [1]]
    assert from_torch(Listed([item]), classes=("dog",))[0].label == 0
    with pytest.raises(LoaderError, match=r"its label 'dog' is text: .*classes="):
        from_torch(Listed([item]))
    with pytest.raises(LoaderError, match="its label 'dog' is none of the classes cat: "):
        from_torch(Listed([item]), classes=("cat",))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ((torch.zeros(3, 8, 8), 0), r"its image is Tensor of float32 \[3, 8, 8\].*transform=None"),
        ((1, 2, 3), r"returns tuple of .*\(image, label\)"),
        ({"pixels": COLOR}, "dictionary of pixels: call the image 'image'"),
        (("no file.jpg"), None),
        ((COLOR, 1.5), "label 1.5 is not a whole number"),
        ((Image.fromarray(GREY.astype(np.int32)), 0), "the mode I, more than 8 bits"),
        ((COLOR, object()), "its target is an object of"),
        ((b"abc", 0), "not an image"),
    ],
    ids=["float", "three", "dictionary", "file", "label", "deep", "target", "bytes"],
)
def test_items_that_are_no_samples(item: Any, message: str | None) -> None:
    """The first one is an error that says what would do; a missing file is only that sample's."""
    if message is None:
        [bad] = from_torch(Listed([item])).fetch([0])
        assert isinstance(bad, BadSample)
        return
    with pytest.raises(LoaderError, match=message) as error:
        from_torch(Listed([item]))
    assert len(str(error.value)) < 300


def test_exceptions_are_bad_samples() -> None:
    """The neighbours are sound, and a Loader goes on without it."""
    ours = from_torch(Listed([(COLOR, 0), ValueError("no"), (COLOR, 1), (COLOR, 2)]))
    loader = Loader.eval(ours, RECIPE, batch_size=4, device="cpu", on_bad_sample="skip")
    [batch] = loader

    assert batch.labels.tolist() == [0, 1, 2]
    assert [record.reason for record in loader.bad_samples] == ["ValueError: no"]


@pytest.mark.parametrize("num_threads", [1, 4])
def test_threads(num_threads: int) -> None:
    """Never two at once with one thread, some with four; the order is kept."""
    at_once, most, lock = 0, 0, threading.Lock()

    class Slow(Listed):
        def __getitem__(self, index: int) -> Any:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.01)
            with lock:
                at_once -= 1
            return COLOR, index

    ours = from_torch(Slow([0] * 12), num_threads=num_threads)

    assert [sample.label for sample in ours] == list(range(12))  # type: ignore[union-attr]
    assert (most > 1) == (num_threads > 1)


def test_random_transforms_are_warned_about(folder: Path) -> None:
    """By their name, or since the first sample is another one the second time; others are not."""
    with pytest.warns(
        UserWarning, match="changes its samples at random itself .transform: Compose"
    ):
        from_torch(ImageFolder(str(folder), v2.Compose([v2.RandomResizedCrop(8)])))

    class Noisy(Listed):
        def __getitem__(self, index: int) -> Any:
            return np.random.default_rng().integers(0, 256, (4, 6, 3), np.uint8), 0

    with pytest.warns(UserWarning, match="Noisy changes its samples at random"):
        noisy = from_torch(Noisy([0] * 3))
    assert noisy.fingerprint == noisy.fingerprint
    assert from_torch(ImageFolder(str(folder), v2.Resize((8, 8))))[0].size == (8, 8)


def test_the_fingerprint() -> None:
    """Declared, or of what is probed; another process finds the same."""
    items: list[Any] = [(COLOR, n) for n in range(4)]
    base = from_torch(Listed(items))

    assert base.fingerprint == pickle.loads(pickle.dumps(base)).fingerprint
    assert base.fingerprint != from_torch(Listed([*items[:3], (COLOR, 9)])).fingerprint
    assert base.fingerprint != from_torch(Listed(items), classes=list("abcd")).fingerprint
    assert (
        from_torch(Listed(items), fingerprint="v1").fingerprint
        == from_torch(Listed(list(reversed(items))), fingerprint="v1").fingerprint
    )


def test_fingerprints_are_pinned() -> None:
    """States of runs hold them: a later version must find the same."""
    image = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)

    assert (
        from_torch(Listed([(image, 0), (image, 1)])).fingerprint
        == "c1beb3de05acff41102d72bffa77dffd"
    )
    assert (
        from_torch(Listed([(image, 0)]), fingerprint="v1").fingerprint
        == "46918791416943302670074bd1f30ebc"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.utils.data.DataLoader(Listed([1])), r"from_torch\(loader\.dataset\)"),
        (torch.utils.data.ChainDataset([]), 'only be read forward: .*format="stream"'),
        (3, "the int 3 is no map-style dataset"),
    ],
    ids=["DataLoader", "IterableDataset", "number"],
)
def test_what_from_torch_refuses(value: Any, message: str) -> None:
    """With the way that there is instead."""
    with pytest.raises(LoaderError, match=message):
        from_torch(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("photos", "the path 'photos' is not a dataset: open it"),
        (Path("photos"), "open it"),
        (["a.jpg", "b.jpg"], r"open_dataset\(list_of_paths\) for files"),
        (
            (COLOR[None], [0]),
            r"tuple of ndarray of uint8 \[1, 4, 6, 3\], list of 1 entries is not.*from_arrays",
        ),
        (
            torch.zeros(5, 3, 8, 8),
            r"Tensor of float32 \[5, 3, 8, 8\] is not a dataset: give readers\.from_arrays",
        ),
        (
            Listed([1, 2]),
            r"Listed of 2 entries is not a dataset: .*from_torch\(dataset\).*CustomDataset",
        ),
        (
            torch.utils.data.DataLoader(Listed([1])),
            r"from_torch\(dataset\).*give the dataset that the DataLoader reads",
        ),
        (
            torch.utils.data.Subset(from_arrays(COLOR[None], [0]), [0]),
            r"Subset of 1 entries is not a dataset: give subset\.dataset\.take\(subset\.indices\)",
        ),
        (datasets.Dataset.from_dict({"x": [1]}), "from_huggingface"),
        (datasets.DatasetDict(), "from_huggingface.*of one split"),
        ([(COLOR, 1)], "from_torch.pairs."),
        (None, "None is not a dataset: give what readers.open_dataset"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_loader_says_of_other_things(value: Any, message: str) -> None:
    """One sentence: what it is, by type and size, and what to call."""
    with pytest.raises(LoaderError, match=message) as error:
        Loader(value, RECIPE, batch_size=1)
    assert len(str(error.value)) < 330


def test_huggingface(tmp_path: Path) -> None:
    """The rows, in the order that select and shuffle made; what is not wholly in files says what to do."""
    rows = {
        "image": [encode(picture(16, 24, n), "4:2:0") for n in range(6)],
        "label": list(range(6)),
    }
    datasets.Dataset.from_dict(rows).to_parquet(tmp_path / "x.parquet")
    table = datasets.Dataset.from_parquet(
        str(tmp_path / "x.parquet"), cache_dir=str(tmp_path / "cache")
    )
    for chosen in (table, table.select([4, 2, 2]), table.shuffle(seed=1)):
        ours = from_huggingface(chosen)
        assert [sample.label for sample in ours] == chosen["label"][:]
        assert isinstance(ours[0], Sample)
        assert bytes(ours[0].image or b"") == chosen[0]["image"]
    with pytest.raises(
        LoaderError, match=r"a part of 6 rows in its files, 3 of them.*save_to_disk"
    ):
        from_huggingface(table.select(range(3)))
    with pytest.raises(LoaderError, match="lies in memory"):
        from_huggingface(datasets.Dataset.from_dict(rows))
    with pytest.raises(LoaderError, match=r"is no datasets\.Dataset"):
        from_huggingface([1])
    with pytest.raises(LoaderError, match="several splits"):
        from_huggingface(datasets.DatasetDict({"train": table}))
    assert [sample.label for sample in from_torch(datasets.Dataset.from_dict(rows))] == list(
        range(6)
    )
