"""Pictures for choosing augmentations: every cell is what a Loader hands over in the epoch that is named."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dali_pipes import Loader
from dali_pipes.decode.dali.driver import INSTALL_DALI
from dali_pipes.errors import BadSampleError, LoaderError
from dali_pipes.preview import preview_engines, preview_images
from dali_pipes.preview.page import Preview
from dali_pipes.preview.pictures import annotate
from gpu_aug import (
    HorizontalFlip,
    MixUp,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
    Schedule,
    Views,
)
from readers import open_dataset
from readers.datasets.dataset import IndexedDataset

PLAIN = Recipe([RandomResizedCrop(96), HorizontalFlip(), Normalize()])
MIXED = Recipe([RandomResizedCrop(96), MixUp()])
VIEWS = Views([PLAIN, Recipe([RandomResizedCrop(112), Normalize()])])
NUM = 11
SEED = 5


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> IndexedDataset:
    """Eleven pictures of noise in two classes."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for number in range(NUM):
        name = folder / ("cats" if number % 2 else "dogs") / f"{number}.png"
        name.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (100, 120 + number, 3), np.uint8)).save(name)
    return open_dataset(folder)


def pictures(preview: Preview) -> list[NDArray[np.int64]]:
    """All pictures of a page, in the order in which they stand on it."""
    return [
        np.asarray(cell.picture).astype(np.int64)
        for row in preview.rows
        for cell in row.cells
        if cell
    ]


def texts(preview: Preview) -> list[str]:
    """All texts of a page."""
    found = [*preview.heading]
    for row in preview.rows:
        lines = [*row.title, *(line for cell in row.cells if cell for line in cell.caption)]
        found += [line.text for line in lines]
    return found


def of_training(
    dataset: IndexedDataset, recipe: Recipe | Views | Schedule, index: int, epoch: int
) -> list[NDArray[np.int64]]:
    """What a training loop gets of a sample in an epoch, uint8 [H, W, 3] by view."""
    loader = Loader(dataset, recipe, batch_size=4, seed=SEED, last_batch="partial")
    loader.set_epoch(epoch)
    made = recipe.at(epoch) if isinstance(recipe, Schedule) else recipe
    recipes = made.recipes if isinstance(made, Views) else (made,)
    for batch in loader:
        for row in np.flatnonzero(batch.indices.numpy() == index).tolist():
            return [
                np.asarray((255 * _unnormalized(view[row], one)).round().permute(1, 2, 0)).astype(
                    int
                )
                for view, one in zip(batch.views, recipes, strict=True)
            ]
    raise AssertionError("the sample is not in the epoch")


def _unnormalized(image: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    for leaf in recipe.leaves:
        if isinstance(leaf, Normalize):
            image = image * torch.tensor(leaf.std)[:, None, None]
            image = image + torch.tensor(leaf.mean)[:, None, None]
    return image.clamp(0, 1)


@pytest.mark.parametrize("recipe", [PLAIN, MIXED, VIEWS], ids=["plain", "mixed", "views"])
def test_cells_are_what_training_sees(dataset: IndexedDataset, recipe: Recipe | Views) -> None:
    """Pixel for pixel, in the order of training with this seed, partners included; other epochs differ."""
    page = preview_images(dataset, recipe, [7, 2], seed=SEED, epochs=[0, 3])

    shown = pictures(page)
    num_views = len(recipe) if isinstance(recipe, Views) else 1
    per_sample = 1 + 2 * num_views
    assert len(shown) == 2 * per_sample
    for place, index in enumerate((7, 2)):
        [_, *cells] = shown[place * per_sample : (place + 1) * per_sample]
        for column, epoch in enumerate((0, 3)):
            expected = of_training(dataset, recipe, index, epoch)
            for view, picture in enumerate(expected):
                assert np.abs(cells[2 * view + column] - picture).max() <= 1  # rounding of halves
                assert np.abs(cells[2 * view + 1 - column] - picture).mean() > 5


def test_captions_tell_key_class_epoch_and_draws(dataset: IndexedDataset) -> None:
    """What stands below the pictures, and above all of them."""
    page = preview_images(dataset, PLAIN, [7], seed=SEED, epochs=[3])

    said = texts(page)
    assert said[0] == "engine fused on cpu, decoder cpu; seed 5; epochs 3"
    sample = dataset.fetch([7])[0]
    assert sample.key in said
    assert dataset.class_names[sample.label] in said  # type: ignore[union-attr, index]
    assert "epoch 3, 96 x 96 px" in said
    size = [[100, 120 + int(Path(sample.key).stem)]]
    [start] = PLAIN.draw(SEED, 3, np.array([7]), np.array(size)).crops.start.tolist()
    assert f"top {start[0]}, left {start[1]}, " in " ".join(said)


def test_schedule_shows_the_recipe_of_the_epoch(dataset: IndexedDataset) -> None:
    """Epochs before and after the change; the sizes say which recipe it was."""
    schedule = Schedule({0: Recipe([Resize((96, 88))]), 4: Recipe([Resize((120, 100))])})
    page = preview_images(dataset, schedule, [0], epochs=[3, 4])

    assert [one.shape[:2] for one in pictures(page)[1:]] == [(96, 88), (120, 100)]


def test_small_images_are_enlarged_by_whole_pixels(tmp_path: Path) -> None:
    """A picture of 32 x 32 is five times as large, its pixels squares; the words have its own size."""
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    (tmp_path / "a").mkdir()
    Image.fromarray(pixels).save(tmp_path / "a" / "0.png")
    page = preview_images(open_dataset(tmp_path), Recipe([Resize((32, 32))]), [0], epochs=[0])

    for shown in pictures(page):
        assert np.array_equal(shown, pixels.repeat(5, axis=0).repeat(5, axis=1))
    assert "32 x 32 px" in texts(page)


def test_engines_show_every_view_of_every_pair(dataset: IndexedDataset) -> None:
    """A row for each view of each pair, with its distance from the first pair, whose pictures are the loader's."""
    from dali_pipes import available_decoders
    from dali_pipes.preview.chosen_batches import DECODERS, ENGINES

    preview = preview_engines(dataset, VIEWS, [7], seed=SEED, epoch=2)

    missing = available_decoders()
    num_pairs = len(ENGINES) * sum(not missing[decoder] for decoder in DECODERS)
    shown = pictures(preview)
    assert len(shown) == 1 + 2 * num_pairs
    expected = of_training(dataset, VIEWS, 7, 2)
    for pair in range(num_pairs):
        for view, picture in enumerate(expected):
            assert np.abs(shown[1 + 2 * pair + view] - picture).max() <= 1
    said = texts(preview)
    compared = [text for text in said if text.startswith(("differs from", "equals"))]
    assert len(compared) == 2 * num_pairs - 2


def test_pairs_that_cannot_run_are_named(
    dataset: IndexedDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without DALI its pairs are missing, with the reason, and the first of the others is compared with."""
    monkeypatch.setattr(
        "dali_pipes.arguments.choose._is_importable", lambda name: name != "nvidia.dali"
    )
    preview = preview_engines(dataset, PLAIN, [0])

    assert preview.missing == {
        f"gpu-aug/dali+{engine}": INSTALL_DALI for engine in ("kornia", "albumentations", "fused")
    }
    assert len(pictures(preview)) == 4
    assert "cpu+kornia" in " ".join(texts(preview))


def test_targets_are_drawn_where_they_are(tmp_path: Path) -> None:
    """A box around a gray picture moves with it, on small pictures as well, and its class is named."""
    import json

    for name, side, times in (("a", 100, 1), ("b", 40, 4)):
        folder = tmp_path / name / "gray"
        folder.mkdir(parents=True)
        Image.new("RGB", (side, side), (128, 128, 128)).save(folder / "a.png")
        box = [side // 10, side // 5, 2 * side // 5, 3 * side // 5]
        (folder / "a.json").write_text(json.dumps({"boxes": [box], "labels": [1]}))
        page = preview_images(
            open_dataset(folder.parent),
            Recipe([Resize((side, side)), HorizontalFlip(p=1.0)]),
            [0],
            epochs=[0],
        )
        found = []
        for cell in pictures(page):
            rows, columns = np.nonzero(np.ptp(cell, axis=2))  # coloured, not gray
            found.append([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        mirrored = [side - box[2], box[1], side - box[0], box[3]]
        assert (np.array(found) == times * np.array([box, mirrored])).all()
        assert "class 1" in texts(page)


def test_damaged_samples_are_refused_and_damaged_partners_replaced(tmp_path: Path) -> None:
    """One sentence for a sample that was asked for; a partner that is bad is replaced, as in training."""
    (tmp_path / "a").mkdir()
    for number in range(4):
        path = tmp_path / "a" / f"{number}.png"
        Image.new("RGB", (64, 64), (60 * number, 90, 90)).save(path)
    (tmp_path / "a" / "1.png").write_bytes(path.read_bytes()[:-40])
    dataset = open_dataset(tmp_path)

    with pytest.raises(BadSampleError, match=r"sample 1 \(a/1\.png\) is bad"):
        preview_images(dataset, MIXED, [1], epochs=[0])
    for index in (0, 2, 3):  # one of them has it for a partner
        assert len(pictures(preview_images(dataset, MIXED, [index], epochs=[0]))) == 2


def test_nothing_to_draw(dataset: IndexedDataset) -> None:
    """No samples, or no epochs."""
    with pytest.raises(LoaderError, match="needs samples and epochs, got 0 and 4"):
        preview_images(dataset, PLAIN, [])
    with pytest.raises(LoaderError, match="needs samples, got none"):
        preview_engines(dataset, PLAIN, [])


def test_members_of_masks_differ_and_ignored_pixels_are_gray() -> None:
    """Neighbouring numbers get other hues; 255 is what losses leave out."""
    picture = np.zeros((1, 4, 3), np.uint8)
    tinted = annotate(picture, masks=[np.array([[0, 1, 2, 255]])])[0].tolist()

    assert tinted[0] == [0, 0, 0]
    assert tinted[1] != tinted[2]
    assert len(set(tinted[3])) == 1
