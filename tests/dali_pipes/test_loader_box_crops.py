"""A Loader with crops that look at boxes: the same draws as `apply`, and boxes that are read before the images are decoded."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Batch, Buckets, ImageOptions, LoaderError
from gpu_aug import (
    AtLeastOneBBoxRandomCrop,
    BBoxSafeRandomCrop,
    BoxParams,
    HorizontalFlip,
    Mosaic,
    Operation,
    RandomCropNearBBox,
    RandomIoUCrop,
    RandomSizedBBoxSafeCrop,
    RandomZoomOut,
    Recipe,
    Resize,
    Views,
    apply,
)
from readers import Dataset, open_dataset
from tests.support.loaders import loader_maker, write_images

NUM = 10
CROPS = [
    RandomIoUCrop(),
    RandomSizedBBoxSafeCrop((24, 24)),
    BBoxSafeRandomCrop(),
    AtLeastOneBBoxRandomCrop((30, 30)),
    RandomCropNearBBox(0.4),
]
SSD = Recipe([RandomZoomOut(fill=0.5), RandomIoUCrop(), Resize((24, 24)), HorizontalFlip()])
load = loader_maker(SSD, engine="fused", seed=3, dtype=torch.float32, last_batch="partial")


def boxes_of(number: int) -> list[list[float]]:
    """Two boxes, one, or none."""
    return [[5, 6, 30 + number, 40], [20, 10, 60, 50.5]][: number % 3]


def picture(number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (60 + number, 80 - number, 3), np.uint8)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Pictures of several sizes in a lossless format, with a json beside each."""
    root = tmp_path_factory.mktemp("boxes")
    for number in range(NUM):
        put(root, number, {"boxes": boxes_of(number), "labels": list(range(number % 3))})
    return open_dataset(root)


def put(root: Path, number: int, content: Any) -> None:
    with io.BytesIO() as stream:
        Image.fromarray(picture(number)).save(stream, "PNG")
        (root / f"{number}.png").write_bytes(stream.getvalue())
    text = content if isinstance(content, str) else json.dumps(content)
    (root / f"{number}.json").write_text(text)


def rows_of(batches: Any) -> dict[int, tuple[torch.Tensor, torch.Tensor]]:
    """Index -> image and boxes."""
    return {
        row[0]: row[1:]
        for b in batches
        for row in zip(b.indices.tolist(), b.images, b.boxes, strict=True)
    }


def same(one: dict, other: dict) -> bool:
    """Whether the rows of two loops are equal to the bit."""
    return one.keys() == other.keys() and all(
        torch.equal(a, b) for index in one for a, b in zip(one[index], other[index], strict=True)
    )


@pytest.mark.parametrize("engine", ["fused", "kornia", "albumentations"])
@pytest.mark.parametrize(
    "recipe", [SSD, *(Recipe([crop, Resize((24, 24))]) for crop in CROPS)], ids=repr
)
def test_a_loader_draws_as_apply(dataset: Dataset, recipe: Recipe, engine: str) -> None:
    """Pixels and boxes of a shuffled epoch are those of `apply` with the same indices; another seed gives others."""
    samples = [{"image": picture(number), "boxes": boxes_of(number)} for number in range(NUM)]
    made = apply(recipe, samples, engine=engine, seed=3, indices=range(NUM))
    expected = {number: (one["image"], one["boxes"]) for number, one in enumerate(made)}

    assert same(rows_of(load(dataset, recipe, engine=engine)), expected)
    assert not same(rows_of(load(dataset, recipe, engine=engine, seed=4)), expected)


@pytest.mark.parametrize(
    "steps",
    [[RandomZoomOut(), RandomIoUCrop()], [Resize((40, 40)), Mosaic(), BBoxSafeRandomCrop()]],
)
def test_a_run_goes_on_with_another_batch_size_and_ranks(dataset: Dataset, steps: list) -> None:
    """Interrupted after a step of 4, it goes on with 2 ranks of 2, and nothing differs from the whole run."""
    recipe = Recipe([*steps, Resize((24, 24))])
    whole = rows_of(load(dataset, recipe))
    begun = load(dataset, recipe)
    first: Batch = next(iter(begun))
    rest: list[Batch] = []
    for rank in range(2):
        loader = load(dataset, recipe, batch_size=2, rank=rank, world_size=2)
        loader.load_state_dict(begun.state_dict())
        rest += [batch for batch in loader if len(batch.indices)]

    assert same(rows_of([first, *rest]), whole)


def test_boxes_with_a_format_of_their_own(tmp_path: Path, dataset: Dataset) -> None:
    """A json that names its format gives the draws of one in the recipe's."""
    for number in range(NUM):
        corners = np.array(boxes_of(number)).reshape(-1, 4)
        boxes = np.concatenate([corners[:, :2], corners[:, 2:] - corners[:, :2]], 1).tolist()
        put(tmp_path, number, {"boxes": boxes, "labels": [0] * len(boxes), "box_format": "xywh"})

    assert same(rows_of(load(open_dataset(tmp_path))), rows_of(load(dataset)))


def test_bad_boxes_make_a_bad_sample(tmp_path: Path) -> None:
    """Its neighbours are as they were, and the record says what is wrong."""
    for number in range(NUM):
        content = '{"boxes": [[1, 2}' if number == 4 else {"boxes": boxes_of(number)}
        put(tmp_path, number, content)
    loader = load(open_dataset(tmp_path), on_bad_sample="skip")
    found = rows_of(loader)
    (record,) = loader.bad_samples
    samples = [{"image": picture(number), "boxes": boxes_of(number)} for number in range(NUM)]
    expected = apply(SSD, samples, seed=3, indices=range(NUM))

    assert (record.index, record.stage) == (4, "targets")
    assert found.keys() == {*range(NUM)} - {4}
    assert all(torch.equal(image, expected[index]["image"]) for index, (image, _) in found.items())


def test_samples_without_boxes_among_others(tmp_path: Path) -> None:
    """A sample whose fields have no boxes is one with 0 boxes."""
    recipe = Recipe([RandomIoUCrop(), Resize((24, 24))])
    for number in range(4):
        put(tmp_path, number, {"boxes": boxes_of(number)} if number else {"url": "a"})
    found = rows_of(load(open_dataset(tmp_path), recipe))
    [expected] = apply(Recipe([Resize((24, 24))]), [{"image": picture(0), "boxes": []}])

    assert torch.equal(found[0][0], expected["image"])


def test_data_without_boxes_warns(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """The warning names the crop; a folder of plain images takes the way without Python objects."""
    plain = write_images(tmp_path, [jpeg(30, 40, seed=number) for number in range(4)])
    recipe = Recipe([AtLeastOneBBoxRandomCrop(20), HorizontalFlip()])
    with pytest.warns(UserWarning, match="AtLeastOneBBoxRandomCrop looks at boxes, but the data"):
        loader = load(plain, recipe)

    assert next(iter(loader)).images.shape == (4, 3, 20, 20)


@pytest.mark.parametrize("crop", CROPS, ids=repr)
def test_views_and_buckets(dataset: Dataset, crop: Operation) -> None:
    """Each view, and each size of buckets, draws with the boxes of its samples."""
    recipe = Recipe([crop, Resize((24, 24))])
    views = next(iter(load(dataset, Views([recipe, recipe]), shuffle="none", batch_size=NUM)))
    samples = [{"image": picture(number), "boxes": boxes_of(number)} for number in range(NUM)]
    expected = apply(Views([recipe, recipe]), samples, seed=3, indices=range(NUM))
    sized = load(
        dataset,
        lambda size: Recipe([crop, Resize(size)]),
        buckets=Buckets([(24, 24), (16, 32)]),
        batch_size=4,
    )

    for view in range(2):
        assert torch.equal(views.views[view], torch.stack([one[view]["image"] for one in expected]))
    assert sum(len(batch.indices) for batch in sized) == NUM


OTHER_FORM = Recipe([BBoxSafeRandomCrop(), Resize((24, 24))], boxes=BoxParams("cxcywh"))


@pytest.mark.parametrize(
    ("recipe", "options", "said"),
    [
        (SSD, {"images": ImageOptions(targets=["masks"])}, r"RandomIoUCrop looks at boxes, and targets=\['masks'\]"),
        (SSD, {"images": ImageOptions(targets=[])}, 'add "boxes"'),
        (Views([SSD, OTHER_FORM]), {}, "its own boxes= has another format"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(
    dataset: Dataset, recipe: Any, options: dict[str, Any], said: str
) -> None:
    """A loader that does not read the boxes is refused when it is made."""
    with pytest.raises(LoaderError, match=said):
        load(dataset, recipe, **options)


@pytest.mark.parametrize(
    "params",
    [BoxParams("xyxyxyxy"), BoxParams(boxes_from_masks=True), BoxParams(flip_pairs=[(0, 1)])],
    ids=["oriented", "from masks", "exchanged labels"],
)
def test_draws_do_not_depend_on_what_becomes_of_boxes(tmp_path: Path, params: BoxParams) -> None:
    """The crop is that of plain boxes, whatever form the boxes of a batch have."""
    pictures = []
    for number in range(3):
        left, top, right, bottom = 5 + number, 6, 30, 40
        corners = [left, top, right, top, right, bottom, left, bottom]
        put(tmp_path, number, {"boxes": [corners], "box_format": "xyxyxyxy", "labels": [0]})
        if not params.is_oriented:
            put(tmp_path, number, {"boxes": [[left, top, right, bottom]], "labels": [0]})
        mask = np.zeros(picture(number).shape[:2], np.uint8)
        mask[top:bottom, left:right] = 1
        Image.fromarray(mask).save(tmp_path / f"{number}.mask.0.png")
        pictures.append({"image": picture(number), "boxes": [[left, top, right, bottom]]})
    operations = [HorizontalFlip(1.0), RandomSizedBBoxSafeCrop((24, 24))]

    got = rows_of(load(open_dataset(tmp_path), Recipe(operations, boxes=params)))

    wanted = apply(Recipe(operations), pictures, engine="fused", seed=3, indices=range(3))
    unseen = [one | {"boxes": []} for one in pictures]
    other = apply(Recipe(operations), unseen, engine="fused", seed=3, indices=range(3))
    for number in range(3):
        assert torch.equal(got[number][0], wanted[number]["image"])
        assert not torch.equal(got[number][0], other[number]["image"])
