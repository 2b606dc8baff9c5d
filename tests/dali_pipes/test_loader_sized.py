"""Loaders of several sizes and of recipes by epoch: the same whatever decodes and augments, and refused by name."""

import io
import itertools
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image

from dali_pipes import (
    Batch,
    Buckets,
    Clips,
    Execution,
    ImageOptions,
    Loader,
    LoaderError,
    Monitoring,
    MultiScale,
)
from dali_pipes.runs.audit_compare import compare_audits
from gpu_aug import (
    BoxParams,
    CenterCrop,
    HorizontalFlip,
    MixUp,
    Mosaic,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
    Schedule,
)
from gpu_aug.views import Views
from readers import Dataset, SelectionError, mix, open_dataset
from readers.image import sizes as image_sizes_module
from readers.image.sizes import image_sizes
from tests.support.adapters import MemoryDataset, write_tar
from tests.support.loaders import (
    assert_same_images,
    draw_canvases_in_dali,
    images_by_index,
    indices_of,
    loader_maker,
    rows_of,
)
from tests.support.same_batches import assert_same
from tests.support.tars import write_samples
from tests.support.videos import pan, write_video

SHAPES = [(30, 30), (24, 40), (40, 24)]
NUM_IMAGES = 18
SIZES = [(16, 16), (12, 20), (20, 12)]
BUCKETS = Buckets(SIZES)
DALI = pytest.mark.needs_dali


def plain(size: tuple[int, int]) -> Recipe:
    return Recipe([RandomResizedCrop(size), HorizontalFlip(), Normalize()])


def pictures(jpeg: Callable[..., bytes]) -> list[bytes]:
    return [jpeg(*SHAPES[number % 3], seed=number) for number in range(NUM_IMAGES)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Dataset:
    """A shard of six images of each of three shapes, whose index knows their sizes."""
    return open_dataset(write_tar(tmp_path_factory.mktemp("tar") / "a.tar", pictures(jpeg)))


usual_loader = loader_maker(seed=3, last_batch="partial", num_threads=2)


def load(dataset: Dataset, recipe: Any = plain, **options: Any) -> Loader:
    if callable(recipe) and "sizes" not in options:
        options = {"buckets": BUCKETS, **options}
    return usual_loader(dataset, recipe, **options)


def assert_sizes_are_those_of_the_files(batches: Iterable[Batch]) -> None:
    """A step has images of one shape, which is that of the bucket of each of its files."""
    for batch in batches:
        sizes = {SIZES[index % 3] for index in batch.indices.tolist()}
        assert sizes == {tuple(batch.images.shape[2:])}


class TestBuckets:
    def test_every_image_has_its_size(self, dataset: Dataset) -> None:
        """Sizes are as the headers say, and an epoch has all images."""
        batches = list(load(dataset))
        assert len(batches) == len(load(dataset)) == 6
        assert_sizes_are_those_of_the_files(batches)
        assert sorted(indices_of(batches)) == list(range(NUM_IMAGES))

    def test_pixels_are_those_of_the_recipe_alone(self, dataset: Dataset) -> None:
        """A sample in a bucket is what a loader of the bucket's recipe makes of it."""
        alone = [images_by_index(load(dataset, plain(size))) for size in SIZES]
        for index, image in rows_of(load(dataset)):
            assert torch.equal(image, alone[index % 3][index])

    @pytest.mark.parametrize(
        "options",
        [
            {"num_threads": 1, "execution": Execution(prefetch=1)},
            {"batch_size": BUCKETS.batch_sizes(pixels=5 * 256)},
            pytest.param({"decoder": "dali"}, marks=DALI),
        ],
        ids=str,
    )
    def test_settings_do_not_matter(self, dataset: Dataset, options: dict[str, Any]) -> None:
        """Two epochs are the same to the bit whatever makes them."""
        with load(dataset) as usual, load(dataset, **options) as other:
            for _ in range(2):
                assert_same_images(other, usual)

    @pytest.mark.parametrize("engine", ["kornia", "albumentations"])
    def test_engines_give_the_same_samples(self, dataset: Dataset, engine: str) -> None:
        """Another engine gives the same steps, and the same images within a grey value."""
        for one, two in zip(load(dataset), load(dataset, engine=engine), strict=True):
            assert torch.equal(one.indices, two.indices)
            assert (one.images - two.images).abs().max() * 0.23 * 255 < 1.04

    @DALI
    def test_canvases_from_the_graph(
        self, jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The way a GPU takes has one pipeline of DALI's for all sizes, beside which our threads render PNGs."""
        data = MemoryDataset(pictures(jpeg), NUM_IMAGES)
        for number in (4, 5):
            file = io.BytesIO()
            Image.open(io.BytesIO(data.pictures[number])).save(file, "png")
            data.pictures[number] = file.getvalue()
        expected = images_by_index(load(data))
        draw_canvases_in_dali(monkeypatch)
        actual = images_by_index(load(data, decoder="dali"))
        for index, image in expected.items():
            gap = (actual[index] - image).abs() * 0.23 * 255  # grey values, as Normalize stretches
            assert gap[:, 3:-3, 3:-3].max() <= 1.04
            other = expected[(index + 3) % NUM_IMAGES]  # of the same shape
            assert (actual[index] - other).abs().max() * 0.23 * 255 > 8

    def test_upright_sizes(self, tmp_path: Path) -> None:
        """What counts is the shape after EXIF orientation, here read from the headers of files."""
        image = Image.fromarray(np.zeros((24, 40, 3), np.uint8))
        exif = Image.Exif()
        exif[274] = 6  # turned by a quarter
        image.save(tmp_path / "a.jpg")
        image.save(tmp_path / "b.jpg", exif=exif)
        batches = list(load(open_dataset(tmp_path)))
        assert {batch.keys[0]: tuple(batch.images.shape[2:]) for batch in batches} == {
            "a.jpg": (12, 20),
            "b.jpg": (20, 12),
        }

    def test_many_sizes_compile_nothing(self, dataset: Dataset) -> None:
        """The functions of the fused engine are compiled for types, and sizes are none."""
        from gpu_aug.engines.fused.cpu.passes import run_plain

        list(load(dataset))
        before = len(run_plain.signatures)  # type: ignore[attr-defined]
        several = Buckets([(height, 90 - height) for height in range(20, 70, 3)])
        assert len(list(load(dataset, buckets=several))) >= 3
        assert before == len(run_plain.signatures) >= 1  # type: ignore[attr-defined]

    def test_views(self, dataset: Dataset) -> None:
        """Several views of a sample, of which the first has the size."""
        both = load(dataset, lambda size: Views([plain(size), Recipe([RandomResizedCrop(8)])]))
        batches = list(both)
        assert {batch.views[1].shape[2:] for batch in batches} == {(8, 8)}
        assert_same_images(batches, load(dataset))

    @pytest.mark.parametrize("mixing", [MixUp(num_classes=7), Mosaic(num_classes=7)], ids=str)
    def test_partners_are_of_one_bucket(self, jpeg: Callable[..., bytes], mixing: Any) -> None:
        """Mixed images are the same on any number of ranks and with any batch, and so are their labels."""
        data = MemoryDataset(pictures(jpeg), 31)
        mixed = lambda size: Recipe([RandomResizedCrop(size), mixing])  # noqa: E731
        alone = list(load(data, mixed, batch_size=31))
        ranks = [load(data, mixed, batch_size=2, rank=rank, world_size=3) for rank in range(3)]
        batches = list(itertools.chain(*ranks))
        assert_same_images(batches, alone)
        labels, expected = (
            {
                i: label.tolist()
                for b in x
                for i, label in zip(b.indices.tolist(), b.labels, strict=True)
            }
            for x in (batches, alone)
        )
        assert labels == expected
        assert any(max(label) < 1 for label in labels.values())

    def test_substitutes_are_of_the_same_bucket(self, jpeg: Callable[..., bytes]) -> None:
        """A bad sample is replaced by one of its shape."""
        bad = {1, 4, 7, 10, 2, 5, 8}
        data = MemoryDataset(pictures(jpeg), NUM_IMAGES)
        data.pictures = [
            one[: len(one) // 2] if number in bad else one
            for number, one in enumerate(data.pictures)
        ]
        loader = load(data, on_bad_sample="replace", batch_size=3)
        batches = list(loader)
        assert_sizes_are_those_of_the_files(batches)
        seen = indices_of(batches)
        assert len(seen) == NUM_IMAGES
        assert not bad.intersection(seen)
        assert bad == {record.index for record in loader.bad_samples}

    def test_evaluation(self, dataset: Dataset) -> None:
        """Every sample once, bucket by bucket in the order of the data, on any number of ranks."""
        recipe = lambda size: Recipe([Resize(size)])  # noqa: E731
        usual: dict[str, Any] = {"buckets": BUCKETS, "device": "cpu"}
        alone = Loader.eval(dataset, recipe, batch_size=4, **usual)
        assert indices_of(alone) == sorted(range(NUM_IMAGES), key=lambda index: (index % 3, index))
        pads = [
            Loader.eval(
                dataset, recipe, batch_size=2, last_batch="pad", rank=rank, world_size=2, **usual
            )
            for rank in range(2)
        ]
        got = [batch.indices[batch.valid] for pad in pads for batch in pad]
        assert sorted(torch.cat(got).tolist()) == list(range(NUM_IMAGES))
        image = Image.open(io.BytesIO(dataset.fetch([1])[0].fields["jpg"]))  # type: ignore[union-attr]
        expected = tv.resize(tv.pil_to_tensor(image), [12, 20], antialias=True)
        assert (images_by_index(alone)[1] * 255 - expected).abs().max() <= 1.01

    def test_subsets_and_plain_mixtures(self, dataset: Dataset) -> None:
        """Selections have buckets of their own, and so have datasets one behind the other."""
        part = dataset.where("width > 30")  # type: ignore[attr-defined]
        assert {tuple(batch.images.shape[2:]) for batch in load(part)} == {(12, 20)}
        both = mix([dataset, part])
        assert sorted(indices_of(load(both))) == list(range(len(both)))

    def test_says_what_it_does(self, dataset: Dataset) -> None:
        """explain() names buckets and batches, what is left out, and one recipe for all of them."""
        loader = load(dataset, batch_size=4, last_batch="drop")
        text = loader.explain()
        assert "buckets: 16x16: 6 samples, 4 a step; 12x20: 6 samples, 4 a step" in text
        assert "3 steps, rank 0 of 1, last batch: drop, which leaves 6 out" in text
        assert re.search(r"recipe for 16x16 .*, here the first size:\ndecode stage:", text)
        assert len(loader) == len(list(loader)) == 3
        state = loader.state_dict()
        assert state["buckets"] == [6, 6, 6]
        assert len(json.dumps(state).encode()) < 2048

    def test_small_buckets_are_told_of(self, dataset: Dataset) -> None:
        """Under "drop" a bucket that never fills a step is named."""
        data = dataset.take([0, 3, 6, 9, 1, 4])  # type: ignore[attr-defined]
        with pytest.warns(
            UserWarning, match=r'never come under .*"drop": 12x20 \(2 samples\); use'
        ):
            assert len(load(data, last_batch="drop")) == 1

    @DALI
    def test_iterators_of_dali_refuse(self, dataset: Dataset) -> None:
        """An iterator of DALI's tells a reader's size and batch, and buckets have several."""
        from dali_pipes.integrations.dali import DALIGenericIterator

        with pytest.raises(LoaderError, match="this loader has buckets"):
            DALIGenericIterator(load(dataset), ["data", "label"])

    def test_audits(self, dataset: Dataset, tmp_path: Path) -> None:
        """An audit tells that a resumed run saw the same, and another one did not."""

        def audited(name: str, state: Any = None, **options: Any) -> Path:
            """The audit of two epochs, or of what is left of them."""
            loader = load(dataset, monitoring=Monitoring(audit=tmp_path / name), **options)
            if state:
                loader.load_state_dict(state)
            for _ in range(2):
                list(loader)
            return tmp_path / name

        alone = audited("alone.jsonl")
        first = load(dataset, monitoring=Monitoring(audit=tmp_path / "resumed.jsonl"), batch_size=2)
        loop = iter(first)
        list(itertools.islice(loop, 4))
        state = first.state_dict()
        next(loop)  # lost: the state is older
        same = compare_audits(alone, audited("resumed.jsonl", state, batch_size=3))
        assert same.same
        assert sum(stop - start for start, stop in same.epochs[0].compared) == 18
        lines = compare_audits(alone, audited("dropped.jsonl", last_batch="drop")).lines()
        assert any(line.endswith('which is what last_batch="drop" leaves out') for line in lines)
        assert lines[-1] == "same samples in the same order"
        assert not compare_audits(alone, audited("other.jsonl", seed=4)).same


class TestSizes:
    def test_another_size_every_so_often(self, dataset: Dataset) -> None:
        """All ranks and batch sizes have the size of a position, and the images of its recipe."""
        scales = MultiScale([8, (8, 12), 16], every=4)
        alone = [images_by_index(load(dataset, plain(size))) for size in scales.sizes]
        order = indices_of(load(dataset, plain((8, 8))))
        expected = {index: scales.at(3, 0, position) for position, index in enumerate(order)}
        assert len(set(expected.values())) == 3
        for rank, batch_size in ((0, 2), (1, 2), (0, 1), (1, 1)):
            loader = load(dataset, sizes=scales, batch_size=batch_size, rank=rank, world_size=2)
            for index, image in rows_of(loader):
                assert torch.equal(image, alone[expected[index]][index])

    def test_refused(self, dataset: Dataset) -> None:
        """A step would have two sizes; or nothing is drawn."""
        with pytest.raises(LoaderError, match=r"every 10 samples, which is no multiple of .* of 4"):
            load(dataset, sizes=MultiScale([8, 16], every=10))
        with pytest.raises(LoaderError, match=r"sizes= is not for Loader\.eval"):
            Loader.eval(
                dataset,
                lambda size: Recipe([Resize(size)]),
                batch_size=4,
                sizes=MultiScale([8], every=4),
            )
        for sizes, every in (([], 4), ([8, 8], 4), ([8], 0), ([8], True), (["8"], 4)):
            with pytest.raises(SelectionError, match="MultiScale"):
                MultiScale(sizes, every=every)


class TestSchedule:
    def test_each_epoch_has_its_recipe(self, dataset: Dataset) -> None:
        """Epochs are those of a loader of their recipe alone, also of other sizes."""
        recipes = {0: plain((8, 8)), 2: plain((12, 8)), 3: Recipe([RandomResizedCrop(8)])}
        loader = load(dataset, Schedule(recipes))
        for epoch, recipe in ((0, 0), (1, 0), (2, 2), (3, 3), (4, 3)):
            alone = load(dataset, recipes[recipe])
            alone.set_epoch(epoch)
            assert loader.peek().images.shape[2:] == alone.peek().images.shape[2:]
            assert_same_images(loader, alone)
        assert "recipe from epoch 2 on:\ndecode stage: RandomResizedCrop(size=(12, 8))" in (
            loader.explain()
        )

    @pytest.mark.parametrize("decoder", ["cpu", pytest.param("dali", marks=DALI)])
    def test_clips(self, tmp_path: Path, decoder: str) -> None:
        """Clips of another size from an epoch on are those of a loader of that recipe alone."""
        for number in range(3):
            write_video(tmp_path / f"{number}.mp4", pan(6, (24, 32)))
        clips = Clips(open_dataset(tmp_path), num_frames=2, stride=1)
        recipes = {0: Recipe([RandomResizedCrop(16)]), 1: Recipe([RandomResizedCrop((12, 20))])}
        loader = load(clips, Schedule(recipes), batch_size=2, decoder=decoder, engine="kornia")
        for epoch, recipe in recipes.items():
            alone = load(clips, recipe, batch_size=3, engine="kornia")
            alone.set_epoch(epoch)
            batches = list(loader)
            assert sorted(indices_of(batches)) == [0, 1, 2]
            assert_same_images(batches, alone)

    def test_labels_have_one_form(self, dataset: Dataset) -> None:
        """Once a recipe mixes, labels are shares of classes in all epochs."""
        data = MemoryDataset([one.fields["jpg"] for one in dataset.fetch(range(4))], 9)  # type: ignore[union-attr, misc]
        schedule = Schedule(
            {0: Recipe([Resize((8, 8)), MixUp(num_classes=7)]), 1: Recipe([Resize((8, 8))])}
        )
        loader = load(data, schedule)
        mixed, after = list(loader), list(loader)
        shares, classes = (torch.cat([b.labels for b in batches]) for batches in (mixed, after))
        assert shares.shape == classes.shape == (9, 7)
        assert classes.argmax(1).tolist() == [index % 7 for index in indices_of(after)]
        assert classes.max(1).values.eq(1).all()
        assert shares.max(1).values.lt(1).any()

    @pytest.mark.long
    def test_helper_process(self, jpeg: Callable[..., bytes]) -> None:
        """A helper process makes the same images and labels, of all sizes and in all epochs."""

        def recipes(size: tuple[int, int]) -> Schedule:
            mixed = Recipe([RandomResizedCrop(size), MixUp(num_classes=7)])
            return Schedule({0: Recipe([RandomResizedCrop(size)]), 1: mixed})

        data = MemoryDataset(pictures(jpeg), NUM_IMAGES)
        batch_size = BUCKETS.batch_sizes(pixels=5 * 256)
        usual = load(data, recipes, batch_size=batch_size)
        with load(
            data, recipes, batch_size=batch_size, execution=Execution(helper_process=True)
        ) as other:
            for _ in range(2):
                assert_same(list(other), list(usual))

    def test_one_recipe_is_a_schedule(self, dataset: Dataset) -> None:
        """A schedule of one recipe is that recipe, so a state of either fits."""
        alone, loader = load(dataset, plain((8, 8))), load(dataset, Schedule({0: plain((8, 8))}))
        loader.load_state_dict(alone.state_dict())
        assert alone.state_dict() == loader.state_dict()

    def test_refused(self, dataset: Dataset) -> None:
        """What makes no batches of one form."""
        two = Schedule({0: plain((8, 8)), 5: Recipe([CenterCrop(8)])})
        with pytest.raises(LoaderError, match=r"a Schedule is not for Loader\.eval"):
            Loader.eval(dataset, two, batch_size=4)
        boxes = Recipe([CenterCrop(8)], boxes=BoxParams(min_area=3))
        with pytest.raises(LoaderError, match="different things of boxes, keypoints or masks"):
            load(dataset, Schedule({0: plain((8, 8)), 1: boxes}))
        classes = [Recipe([CenterCrop(8), MixUp(num_classes=count)]) for count in (7, 8)]
        with pytest.raises(LoaderError, match="have 7 and 8 classes"):
            load(dataset, Schedule(dict(enumerate(classes))))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"recipe": plain, "buckets": None},
            "recipe is a function of the size, and no sizes are given",
        ),
        ({"recipe": plain((16, 16)), "buckets": BUCKETS}, "must be a function of the size"),
        ({"recipe": lambda _: plain((16, 16))}, r"size \(12, 20\) makes images of \(16, 16\)"),
        (
            {"recipe": lambda size: [size]},
            r"recipe\(\(16, 16\)\) is not a Recipe, got ",
        ),
        ({"buckets": SIZES}, r"buckets=.* is not allowed; give Buckets\("),
        ({"sizes": SIZES}, r"sizes=.* is not allowed; give MultiScale\("),
        ({"buckets": BUCKETS, "sizes": MultiScale([8], every=4)}, "leave one of them out"),
        ({"batch_size": {(16, 16): 4}}, r"batch_size has none for \(12, 20\)"),
        ({"recipe": plain((8, 8)), "batch_size": {(8, 8): 4}}, "there are no buckets"),
        ({"shuffle": "block"}, 'not possible with shuffle="block"'),
        ({"batch_size": 7, "last_batch": "drop"}, "no full batch: 18 samples in 3 buckets"),
    ],
)
def test_refused(dataset: Dataset, options: dict[str, Any], said: str) -> None:
    """Arguments that do not go together are refused, and the text says what does."""
    with pytest.raises(LoaderError, match=said):
        load(dataset, **options)


def test_refused_datasets(dataset: Dataset, tmp_path: Path) -> None:
    """Datasets that say themselves how often a sample comes have no buckets, and clips have none."""
    weighted = mix([dataset, dataset], weights=[0.7, 0.3])
    with pytest.raises(LoaderError, match=r"not possible with Mixture, .* mix\(\) without"):
        load(weighted)
    clips = Clips(
        open_dataset(write_video(tmp_path / "a.mp4", pan(4, (24, 32))).parent),
        num_frames=2,
        stride=1,
    )
    with pytest.raises(LoaderError, match="buckets= is for images, and samples are clips"):
        load(clips)


class TestImageSizes:
    def test_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jpeg: Callable[..., bytes]
    ) -> None:
        """Sizes that were read from many headers are kept, and read again where the file is damaged."""
        monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path))
        monkeypatch.setattr(image_sizes_module, "_STORED_FROM", 10)
        data = MemoryDataset(pictures(jpeg), 40, bad=[7])
        expected = [[0, 0] if n == 7 else list(SHAPES[n % NUM_IMAGES % 3]) for n in range(40)]
        told: list[tuple[int, int]] = []
        assert image_sizes(data, progress=lambda *done: told.append(done)).tolist() == expected
        assert told[-1] == (40, 40)
        [kept] = (tmp_path / "sizes").iterdir()
        with monkeypatch.context() as patched:
            patched.setattr(data, "fetch", None)  # nothing is read
            assert image_sizes(data).tolist() == expected
        for damage in (b"", b"no array", kept.read_bytes()[:-8]):
            kept.write_bytes(damage)
            assert image_sizes(data).tolist() == expected
        assert kept.stat().st_size > 320
        kept.unlink()
        monkeypatch.setattr(image_sizes_module, "_WARNED_FROM", 40)
        with pytest.warns(UserWarning, match="sizes of 40 images, so their headers are read once"):
            image_sizes(data)
        monkeypatch.setenv("GPU_AUG_CACHE", "/dev/null/nowhere")
        assert image_sizes(data).tolist() == expected

    def test_of_another_field(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """Where the loader is told which field is the image, its size counts, and not that of the index."""
        samples = {
            str(n): {"left.jpg": jpeg(30, 30, seed=n), "right.jpg": jpeg(*SHAPES[n % 3], seed=n)}
            for n in range(6)
        }
        data_of_two = open_dataset(write_samples(tmp_path / "a.tar", samples))
        assert {tuple(batch.images.shape[2:]) for batch in load(data_of_two)} == {SIZES[0]}
        assert_sizes_are_those_of_the_files(
            load(data_of_two, images=ImageOptions(fields="right.jpg"))
        )

    def test_columns_are_asked(self, dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
        """An index that knows sizes is enough."""
        monkeypatch.setattr(dataset, "fetch", None)
        assert image_sizes(dataset).tolist() == [list(SHAPES[number % 3]) for number in range(18)]
