"""Several views of every sample: each by its own recipe, from one read and one decode."""

import io
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image

from dali_pipes import Batch, Execution, LoaderError, StateMismatchError
from dali_pipes.decode import opencv
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.jpeg.status import GOOD
from gpu_aug import CenterCrop, HorizontalFlip, MixUp, Normalize, RandomResizedCrop, Recipe, Resize
from gpu_aug.views import Views
from readers import Dataset
from tests.support.loaders import draw_canvases_in_dali, loader_maker, write_images

NUM_IMAGES = 11
LARGE = Recipe([RandomResizedCrop(32, scale=(0.3, 1.0)), HorizontalFlip(), Normalize()])
SMALL = Recipe([RandomResizedCrop(16, scale=(0.05, 0.3)), Normalize()])
WHOLE = Recipe([HorizontalFlip(), RandomResizedCrop(20)])  # decoded whole, of several sizes
MULTI_CROP = Views([LARGE, LARGE, SMALL, WHOLE])
PARTS = Views([SMALL, SMALL])  # together not the whole image
DALI = pytest.mark.needs_dali
DECODERS = ["cpu", pytest.param("dali", marks=DALI)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """Eleven images of different sizes; the fourth is cut short."""
    images = [jpeg(60 + number, 90 - number, seed=number) for number in range(NUM_IMAGES)]
    images[3] = images[3][: len(images[3]) // 2]
    return write_images(tmp_path_factory.mktemp("views"), images)


load = loader_maker(
    engine="kornia", seed=3, dtype=torch.float32, last_batch="partial", on_bad_sample="replace"
)


def views_of(batches: Iterable[Batch]) -> list[torch.Tensor]:
    return [torch.cat(views) for views in zip(*(b.views for b in batches), strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"num_threads": 3, "execution": Execution(prefetch=5)},
        pytest.param({"decoder": "dali", "batch_size": 3}, marks=DALI),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("views", "sizes"), [(MULTI_CROP, (32, 32, 16, 20)), (PARTS, (16, 16))], ids=["all", "parts"]
)
def test_settings_do_not_matter(
    dataset: Dataset, options: dict[str, Any], views: Views, sizes: tuple[int, ...]
) -> None:
    """Every view is the same to the bit whatever the settings; another seed's is not."""
    usual, other, seed = (
        views_of(load(dataset, views, **more)) for more in ({}, options, {"seed": 4})
    )
    assert [list(view.shape[1:]) for view in usual] == [[3, n, n] for n in sizes]
    for one, two, three in zip(usual, other, seed, strict=True):
        assert torch.equal(one, two)
        assert not torch.equal(one, three)


def test_a_recipe_is_one_view(dataset: Dataset) -> None:
    """The first view is what the recipe alone gives; an equal second recipe draws for itself."""
    for one, many in zip(load(dataset, LARGE), load(dataset, MULTI_CROP), strict=True):
        assert one.views == (one.images,)
        assert many.images is many.views[0]
        assert torch.equal(one.images, many.images)
        assert not torch.equal(many.views[0], many.views[1])
        assert one.keys == many.keys


@pytest.mark.parametrize("decoder", DECODERS)
def test_views_are_torchvisions(dataset: Dataset, decoder: str) -> None:
    """Views of different parts of an image are torchvision's cuts of the whole picture, to the bit."""
    corner = Recipe([CenterCrop(30), Resize((20, 20))])
    views = Views([corner, Recipe([Resize(40), CenterCrop((40, 24))])])
    options = {"decoder": decoder, "dtype": torch.uint8, "on_bad_sample": "skip"}
    for batch in load(dataset, views, **options):
        for row, index in enumerate(batch.indices.tolist()):
            with Image.open(io.BytesIO(dataset.fetch([index])[0].image)) as opened:
                picture = torch.from_numpy(np.array(opened)).permute(2, 0, 1)
            first = tv.resize(tv.center_crop(picture, [30, 30]), [20, 20], antialias=True)
            second = tv.center_crop(tv.resize(picture, 40, antialias=True), [40, 24])
            assert torch.equal(batch.views[0][row], first)
            assert torch.equal(batch.views[1][row], second)


def test_read_and_decoded_once(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many views there are, each sample is read once and decoded once."""
    calls = {"decode": 0, "fetch": 0}
    decode, locate, render = opencv.decode, type(dataset).locate, JpegRenderer.render

    def count_rows(*arguments: Any) -> Any:
        statuses = render(*arguments)
        calls["decode"] += int((statuses == GOOD).sum())
        return statuses

    def count_decode(*arguments: Any) -> Any:
        calls["decode"] += 1
        return decode(*arguments)

    def count_located(self: Dataset, indices: Any, reads: Any) -> Any:
        calls["fetch"] += len(indices)
        return locate(self, indices, reads)

    monkeypatch.setattr(opencv, "decode", count_decode)
    monkeypatch.setattr(JpegRenderer, "render", count_rows)
    monkeypatch.setattr(type(dataset), "locate", count_located)
    list(load(dataset, MULTI_CROP, on_bad_sample="skip"))
    assert calls == {"decode": NUM_IMAGES, "fetch": NUM_IMAGES}


@DALI
def test_dali_decodes_once(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """DALI gets one part of each image that holds all crops; our decoder gets the bad sample alone."""
    decode, count = opencv.decode, []
    monkeypatch.setattr(opencv, "decode", lambda *given: count.append(1) or decode(*given))
    batches = list(load(dataset, MULTI_CROP, decoder="dali", on_bad_sample="skip"))

    assert sum(map(len, batches)) == NUM_IMAGES - 1
    assert len(count) <= 1


@DALI
@pytest.mark.parametrize(
    "recipes",
    [[Recipe(LARGE.operations[:2])] * 2 + [WHOLE], [Recipe(SMALL.operations[:1])]],
    ids=["all", "parts"],
)
def test_canvases_from_the_graph(
    dataset: Dataset, recipes: list[Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way a GPU takes, all views out of one graph, gives the same views within its tolerance."""
    views = Views([*recipes, Recipe(SMALL.operations[:1])])
    expected = views_of(load(dataset, views))
    draw_canvases_in_dali(monkeypatch)
    actual = views_of(load(dataset, views, decoder="dali"))

    for one, other in zip(actual, expected, strict=True):
        gap = (one - other).abs() * 255
        assert gap[..., 3:-3, 3:-3].max() <= 1.01
        assert gap.max() <= 40  # noise, along a sharp border
        assert (one - other.roll(1, 0)).abs()[..., 3:-3, 3:-3].max() * 255 > 40


def test_state_belongs_to_the_views(dataset: Dataset) -> None:
    """A run of views goes on where it was; a state of other views, or of one recipe, is refused."""
    whole = views_of(load(dataset, MULTI_CROP))
    first = load(dataset, MULTI_CROP, batch_size=3)
    had = [next(iter(first))]
    resumed = load(dataset, MULTI_CROP)
    resumed.load_state_dict(first.state_dict())
    for actual, expected in zip(views_of([*had, *resumed]), whole, strict=True):
        assert torch.equal(actual, expected)
    for other in (LARGE, Views([LARGE, SMALL])):
        with pytest.raises(StateMismatchError, match="another run: recipe is"):
            load(dataset, other).load_state_dict(first.state_dict())


def test_says_what_it_has(dataset: Dataset) -> None:
    """A printed batch shows all shapes, explain() all stages, and uint8 is refused for any Normalize."""
    loader = load(dataset, Views([WHOLE, SMALL]))
    shapes = "[4, 3, 20, 20] and [4, 3, 16, 16]"
    assert repr(loader.peek()) == f"Batch(images=float32 {shapes} on cpu, valid=4)"
    text = loader.explain()
    assert text.count("decode stage") == text.count("batch stage") == 2
    assert "views: 2 of each sample, which is read and decoded once" in text
    with pytest.raises(LoaderError, match="leave Normalize out"):
        load(dataset, Views([WHOLE, SMALL]), dtype=torch.uint8)


def test_labels_are_those_of_the_first_view(dataset: Dataset) -> None:
    """A later view that mixes samples is refused: its labels would be others."""
    mixed = Recipe([RandomResizedCrop(16), MixUp()])
    with pytest.warns(UserWarning, match="mixes samples with their labels"):
        load(dataset, Views([mixed, SMALL]))
    with pytest.raises(LoaderError, match="a view after the first mixes samples"):
        load(dataset, Views([SMALL, mixed]))
