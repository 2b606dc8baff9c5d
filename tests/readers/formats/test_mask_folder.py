"""Folders of images and masks: torchvision's Cityscapes, Kaggle's layouts, values, and what has no partner."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torchvision.datasets import Cityscapes

from dali_pipes import Loader
from dali_pipes.samples.mask_files import read_mask, read_meaning
from dali_pipes.samples.read_field import read_field
from gpu_aug import Recipe, Resize
from gpu_aug.errors import TargetsError
from readers import open_dataset
from readers.formats.mask_folder.values import ADE20K, CITYSCAPES
from readers.prepare import pack
from readers.sample import MASK_VALUES
from tests.support.annotated import put
from tests.support.kinds import by_pillow
from tests.support.moved import assert_masks_fit, block, moved_batch
from tests.support.opening import assert_refused, open_with_warning

SIZE = (48, 64)
BOX = (8, 4, 40, 36)
BLOCK = block(SIZE, BOX)
IDS = np.where(BLOCK > 0, 26, 7).astype(np.uint8)  # a car on a road


def save(path: Path, pixels: np.ndarray, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def photo(path: Path) -> Path:
    return save(path, np.repeat(BLOCK[..., None], 3, axis=2))


def pairs(root: Path, masks: list[np.ndarray], ending: str = "png") -> Path:
    for number, mask in enumerate(masks):
        photo(root / f"images/{number}.png")
        save(root / f"masks/{number}.{ending}", mask)
    return root


def masks_of(dataset: Any) -> np.ndarray:
    """All masks of a dataset through the loader, unmoved."""
    options = {"device": "cpu", "decoder": "cpu", "shuffle": "none"}
    [batch] = Loader(dataset, Recipe([Resize(SIZE)]), batch_size=len(dataset), **options)
    return batch.masks.numpy()


def keys(dataset: Any) -> list[str]:
    return [one.key for one in dataset.fetch(range(len(dataset)))]


@pytest.fixture
def cityscapes(tmp_path: Path) -> Path:
    for city, number in (("aachen", 0), ("aachen", 1), ("bochum", 0)):
        stem = f"{city}_{number:06d}_000019"
        photo(tmp_path / f"leftImg8bit/train/{city}/{stem}_leftImg8bit.png")
        ids = IDS.copy()
        ids[number : number + 2] = number + 19
        masks = tmp_path / f"gtFine/train/{city}"
        kinds = {
            "labelIds": ids,
            "instanceIds": np.where(ids == 26, 26001, 7).astype(np.uint16),
            "color": np.repeat(ids[..., None], 4, axis=2),
        }
        for kind, pixels in kinds.items():
            save(masks / f"{stem}_gtFine_{kind}.png", pixels)
        (masks / f"{stem}_gtFine_polygons.json").write_text("{}")
    photo(tmp_path / "leftImg8bit/val/ulm/ulm_000000_000019_leftImg8bit.png")
    (tmp_path / "gtFine/val").mkdir()
    return tmp_path


def test_cityscapes_is_that_of_torchvision(cityscapes: Path) -> None:
    """Images, label ids and instance ids; train ids by torchvision's own table."""
    theirs = Cityscapes(str(cityscapes), split="train", target_type=["semantic", "instance"])
    found = {}
    for suffix in ("labelIds", "instanceIds"):
        dataset = open_dataset(cityscapes, split="train", mask_suffix=f"_gtFine_{suffix}")
        found[suffix] = dict(zip(keys(dataset), masks_of(dataset), strict=True))
    options = {"mask_suffix": "_gtFine_labelIds", "mask_values": "cityscapes"}
    of_training = masks_of(open_dataset(cityscapes, split="train", **options))
    table = {one.id: one.train_id if one.train_id >= 0 else 255 for one in Cityscapes.classes}

    assert {value: table[value] for value in range(34)} == CITYSCAPES
    assert len(theirs) == 3
    for place, path in enumerate(theirs.images):
        key = str(Path(path).relative_to(cityscapes))
        _, (semantic, instances) = theirs[place]
        assert np.array_equal(found["labelIds"][key], semantic)
        assert np.array_equal(found["instanceIds"][key], instances)
        row = list(found["labelIds"]).index(key)
        assert np.array_equal(of_training[row], np.vectorize(table.get)(np.asarray(semantic)))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"split": "train"}, r"3 of 3 images have no mask .*_gtFine_instanceIds' or"),
        ({"mask_suffix": "_gtFine_labelIds"}, "holds the splits train, validation"),
        ({"split": "val", "mask_suffix": "_gtFine_labelIds"}, "holds no pictures"),
        ({"split": "test"}, "no split 'test': its splits are train, validation"),
    ],
)
def test_cityscapes_names_what_is_there(
    cityscapes: Path, options: dict[str, Any], match: str
) -> None:
    """The kinds of masks, and the splits, are listed when none was chosen; a split without masks is refused."""
    assert_refused(match, cityscapes, **options)


def test_masks_follow_their_images(tmp_path: Path) -> None:
    """Kaggle's train/ and train_masks/ with GIFs of 0 and 255, which are told to be taken as 0 and 1."""
    for name in ("00_01", "01_01", "02_01"):
        photo(tmp_path / f"train/{name}.png")
        save(tmp_path / f"train_masks/{name}_mask.gif", BLOCK)
    photo(tmp_path / "test/9.png")
    dataset = open_with_warning(
        r"masks of 0 and 255 alone \(3 of 3 were looked at\)", tmp_path, mask_suffix="_mask"
    )
    batch = moved_batch(dataset)

    assert np.unique(batch.masks).tolist() == [0, 1]
    assert_masks_fit(batch.images, batch.masks)
    said = open_dataset(tmp_path, mask_suffix="_mask", mask_values="binary")
    assert said.fingerprint == dataset.fingerprint
    as_stored = open_dataset(tmp_path, mask_suffix="_mask", mask_values={})
    assert np.unique(masks_of(as_stored)).tolist() == [0, 255]


def test_ade20k(tmp_path: Path) -> None:
    """Its folders training and validation, 0 ignored and all others one less."""
    numbers = np.where(BLOCK > 0, 150, 0).astype("u1")
    for split in ("training", "validation"):
        photo(tmp_path / f"images/{split}/ADE_{split}_1.png")
        save(tmp_path / f"annotations/{split}/ADE_{split}_1.png", numbers)
    dataset = open_dataset(tmp_path, split="validation", mask_values="ade20k")

    assert keys(dataset) == ["images/validation/ADE_validation_1.png"]
    assert np.array_equal(masks_of(dataset)[0], np.where(BLOCK > 0, 149, 255))
    assert (ADE20K[1], len(ADE20K)) == (0, 151)


def test_palettes_are_indices(tmp_path: Path) -> None:
    """A PNG with a palette holds class numbers, whatever its colours, unless a table says what these mean."""
    indices = np.where(BLOCK > 0, 3, 0).astype(np.uint8)
    pairs(tmp_path, [indices])
    stored = Image.fromarray(indices, "P")
    stored.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])
    stored.save(tmp_path / "masks/0.png")
    table = {(0, 0, 0): 9, (128, 128, 0): 4}

    assert np.array_equal(masks_of(open_dataset(tmp_path))[0], indices)
    assert not np.array_equal(np.asarray(stored.convert("L")), indices)
    [of_colors] = masks_of(open_dataset(tmp_path, colors=table))
    assert np.array_equal(of_colors, np.where(BLOCK > 0, 4, 9))


GREYS = (np.arange(48 * 64) % 251).reshape(SIZE).astype(np.uint8)
COLORS = np.repeat(GREYS[..., None], 3, axis=2)
WIDE = GREYS.astype(np.uint16) * 257
KINDS_OF_FILES = [
    *((ending, stored, GREYS) for ending in ("png", "gif", "bmp", "tif", "tiff") for stored in (GREYS, COLORS)),
    *((ending, WIDE, WIDE) for ending in ("png", "tif")),
    ("png", BLOCK > 0, BLOCK > 0),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "stored", "expected"), KINDS_OF_FILES)
def test_kinds_of_files(
    tmp_path: Path, ending: str, stored: np.ndarray, expected: np.ndarray
) -> None:
    """Grey levels come back from every kind of file without loss, of one bit, 8, 16 and as three equal channels."""
    root = pairs(tmp_path, [stored], ending)
    assert np.array_equal(masks_of(open_dataset(root))[0], expected)


def test_colours_need_their_meaning(tmp_path: Path) -> None:
    """They are refused with some of them, and become classes by a table, with others ignored or refused."""
    colored = np.zeros((*SIZE, 3), np.uint8)
    colored[4:36, 8:40] = (128, 0, 64)
    colored[0] = (192, 0, 0)
    root = pairs(tmp_path, [colored])
    assert_refused(r"holds colours such as \(128, 0, 64\), \(192, 0, 0\)", root)
    table = {(0, 0, 0): 0, (128, 0, 64): 5}
    with pytest.raises(
        Exception, match="has the values #c00000, which have no class in mask_values= or colors="
    ):
        masks_of(open_dataset(root, colors=table))
    [mask] = masks_of(open_dataset(root, colors=table, ignore=255))
    expected = np.where(BLOCK > 0, 5, 0)
    expected[0] = 255

    assert np.array_equal(mask, expected)


def test_values_that_are_not_listed(tmp_path: Path) -> None:
    """They make a bad sample, or become the class to ignore."""
    root = pairs(tmp_path, [np.where(BLOCK > 0, 38, 75).astype(np.uint8)])
    with pytest.raises(Exception, match="has the values 75, which have no class"):
        masks_of(open_dataset(root, mask_values={38: 1}))
    ignored = open_dataset(root, mask_values={38: 1}, ignore=255)
    assert np.unique(masks_of(ignored)).tolist() == [1, 255]


def test_partners(tmp_path: Path) -> None:
    """What has none is counted and named, or left out if asked for; two of one name are refused."""
    root = pairs(tmp_path, [IDS, IDS, IDS])
    photo(root / "images/lonely.png")
    put(root, {"masks/._0.png": b"of macOS"})
    (root / "masks/1.png").rename(root / "masks/one.png")
    counts = r"2 of 4 images have no mask \(1.png, lonely.png\) and 1 of 3 masks have no image \(one.png\)"
    assert_refused(counts + ": unpaired='leave out'", root)
    dataset = open_with_warning(
        "2 images without a mask and 1 mask without an image", root, unpaired="leave out"
    )
    assert keys(dataset) == ["images/0.png", "images/2.png"]
    save(root / "images/0.bmp", BLOCK)
    assert_refused(r"0.bmp and 0.png have the same name", root)
    (root / "images/0.bmp").unlink()
    (root / "masks/0.png").unlink()  # the folders are no classes because the first mask is missing
    assert_refused(r"3 of 4 images have no mask \(0.png, 1.png", root)


def test_one_folder_for_both(tmp_path: Path) -> None:
    """Masks beside their images are told apart by their suffix."""
    photo(tmp_path / "a/x.png")
    save(tmp_path / "a/x_mask.png", IDS)
    options: dict[str, Any] = {"format": "mask-folder", "images": ".", "masks": "."}
    assert_refused("lie in one folder: say mask_suffix=", tmp_path, **options)
    dataset = open_dataset(tmp_path, **options, mask_suffix="_mask")

    assert keys(dataset) == ["a/x.png"]
    assert np.array_equal(masks_of(dataset)[0], IDS)


def test_the_mask_has_the_size_of_the_upright_image(tmp_path: Path) -> None:
    """Of an image that is stored lying the mask stands; any other size is a bad sample."""
    exif = Image.Exif()
    exif[274] = 6
    upright = np.rot90(BLOCK, -1)
    save(tmp_path / "images/0.jpg", BLOCK, exif=exif, quality=95)
    save(tmp_path / "masks/0.png", np.ascontiguousarray(upright > 0))
    assert_masks_fit(*[(b := moved_batch(open_dataset(tmp_path))).images, b.masks])
    save(tmp_path / "masks/0.png", IDS)

    with pytest.raises(Exception, match="must be as large as the upright image, 64x48, got 48x64"):
        moved_batch(open_dataset(tmp_path))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mask_values": "voc"}, "'voc' is not known: give one of binary, ade20k, cityscapes"),
        ({"mask_values": {0: 1}, "colors": {(0, 0, 0): 1}}, "are both given"),
        ({"ignore": 255}, "give one of these"),
        ({"mask_values": {0.5: 1}}, "whole numbers of 32 bits, got 0.5"),
        ({"colors": {(0, 0): 1}}, r"as keys, got \(0, 0\)"),
        ({"colors": {}}, "is empty"),
        ({"unpaired": "skip"}, "must be one of 'refuse', 'leave out'"),
        ({"images": "images"}, "give both"),
        ({"images": "images", "masks": "../masks"}, "has no folder ../masks"),
        ({"images": "pictures", "masks": "masks"}, "has no folder pictures"),
    ],
)
def test_options_that_are_wrong(tmp_path: Path, options: dict[str, Any], match: str) -> None:
    """One sentence each."""
    assert_refused(match, pairs(tmp_path, [IDS]), **options)


def test_jpeg_masks_are_refused(tmp_path: Path) -> None:
    """Also where the folder was named."""
    root = pairs(tmp_path, [IDS], "jpg")
    assert_refused(r"0.jpg cannot hold a mask, .* changes values at edges", root)


def test_folders_that_are_not_these(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Without folders of known names they are asked for; class folders stay class folders."""
    put(tmp_path, {"cat/a.jpg": jpeg(8, 9), "dog/b.jpg": jpeg(8, 9)})
    assert open_dataset(tmp_path).class_names == ("cat", "dog")
    assert_refused(
        "no folders images/ and masks/: say images= and masks=", tmp_path, format="mask-folder"
    )


EMPTY = Image.new("L", (64, 48))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (by_pillow("PNG", Image.new("RGB", (64, 48), (1, 2, 3))), "got colours in 3 channels"),
        (by_pillow("PNG", Image.new("RGBA", (64, 48), (1, 1, 1, 9))), "not be transparent"),
        (by_pillow("JPEG", EMPTY), "png or gif or bmp or tiff, got jpeg"),
        (by_pillow("TIFF", Image.new("F", (64, 48))), "mode F"),
        (by_pillow("TIFF", EMPTY, save_all=True, append_images=[EMPTY]), "one picture, got 2"),
        (by_pillow("PNG", EMPTY)[:60], "cannot be read"),
        (b"nothing", "not an image"),
    ],
)
def test_files_that_are_no_masks(data: bytes, match: str) -> None:
    """Each is refused with its reason."""
    with pytest.raises(TargetsError, match=f"the field 'mask.png': .*{match}"):
        read_field({"mask.png": data}, "mask.png", lambda data: read_mask(data, SIZE))


@pytest.mark.parametrize("meaning", [b"{", b"[]", b'{"values": [[1]]}', b'{"values": []}'])
def test_meanings_that_cannot_be_read(meaning: bytes) -> None:
    """A field of that name which somebody else wrote."""
    with pytest.raises(TargetsError, match=f"the field '{MASK_VALUES}': it cannot be read"):
        read_field({MASK_VALUES: meaning}, MASK_VALUES, read_meaning)


@pytest.mark.filterwarnings("ignore:.*masks of 0 and 255 alone")
def test_packed(tmp_path: Path) -> None:
    """In shards the masks keep their files and their meaning."""
    root = pairs(tmp_path / "data", [BLOCK] * 3, "gif")
    pack(str(root), tmp_path / "shards")
    masks = masks_of(open_dataset(tmp_path / "shards"))

    assert np.array_equal(masks, masks_of(open_dataset(root)))
    assert np.unique(masks).tolist() == [0, 1]
