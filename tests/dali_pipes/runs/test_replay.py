"""Rows that are made once more: equal to those of the loop, with the picture after each operation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional

from dali_pipes import BadSampleError, Buckets, Clips, ImageOptions, Loader, LoaderError, MultiScale
from gpu_aug import (
    CenterCrop,
    ColorJitter,
    Gamma,
    HorizontalFlip,
    KorniaModule,
    MixUp,
    Mosaic,
    Normalize,
    OneOf,
    RandomErasing,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    Resize,
    Schedule,
    TemporalReverse,
    Views,
    apply,
)
from readers import Dataset, mix, open_dataset
from tests.support.kinds import by_opencv, noise, write_tar
from tests.support.loaders import loader_maker, write_images
from tests.support.videos import pan, write_video

NUM_IMAGES = 9
RECIPE = Recipe(
    [
        RandomResizedCrop(24),
        HorizontalFlip(),
        RandomRotation(20),
        OneOf([ColorJitter(0.4), Gamma((50, 150))]),
        Normalize(),
    ]
)
MIXED = Recipe([*RECIPE.operations, MixUp(num_classes=3), Mosaic(num_classes=3)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, jpeg: Callable[..., bytes]) -> Path:
    """Class folders with nine images of different sizes."""
    root = tmp_path_factory.mktemp("classes")
    for number in range(NUM_IMAGES):
        (root / f"class{number % 3}").mkdir(exist_ok=True)
        path = root / f"class{number % 3}" / f"{number:02d}.jpg"
        path.write_bytes(jpeg(40 + number, 90 - 7 * number, seed=number))
    return root


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return open_dataset(folder)


load = loader_maker(RECIPE, seed=3, num_threads=2, last_batch="partial")


def assert_equal_to_loop(loader: Loader, epoch: int = 0) -> None:
    """Every row of an epoch is that of its replay, and the last picture is the row in float32."""
    loader.set_epoch(epoch)
    for batch in loader:
        for row, index in enumerate(batch.indices.tolist()):
            found = loader.replay(index, epoch)
            assert torch.equal(found.row, batch.images[row])
            assert torch.equal(found.batch.labels[0], batch.labels[row])
            assert found.key == batch.keys[row]
            if found.row.dtype == torch.float32:
                assert torch.equal(found.images[-1][2], batch.images[row])


class TestEqualToTheLoop:
    @pytest.mark.parametrize(
        ("recipe", "engine"),
        [
            *((RECIPE, "fused"), (MIXED, "fused"), (MIXED, "kornia"), (MIXED, "albumentations")),
            *(
                pytest.param(RECIPE, one, marks=pytest.mark.long)
                for one in ("kornia", "albumentations")
            ),
        ],
    )
    def test_engines(self, dataset: Dataset, recipe: Recipe, engine: Any) -> None:
        """Bit for bit, also where samples are mixed with neighbours."""
        assert_equal_to_loop(load(dataset, recipe, engine=engine), epoch=1)

    def test_another_epoch_is_noticed(self, dataset: Dataset) -> None:
        """The negative control of these tests."""
        loader = load(dataset)
        [batch] = [batch for batch in loader if 2 in batch.indices]
        row = batch.indices.tolist().index(2)
        assert torch.equal(loader.replay(2, 0).row, batch.images[row])
        assert not torch.equal(loader.replay(2, 1).row, batch.images[row])

    @pytest.mark.needs_dali
    @pytest.mark.parametrize("recipe", [RECIPE, MIXED])
    def test_dali(self, dataset: Dataset, recipe: Recipe) -> None:
        """DALI decodes the same canvases for a row by itself."""
        assert_equal_to_loop(load(dataset, recipe, decoder="dali"))

    @pytest.mark.parametrize(
        "options",
        [
            {"dtype": torch.bfloat16},
            {"dtype": torch.uint8, "recipe": Recipe([RandomResizedCrop(16), HorizontalFlip()])},
            {"recipe": Recipe([HorizontalFlip(), RandomRotation(10), Resize((12, 12))])},
            {"recipe": Schedule({0: RECIPE, 1: MIXED})},
            {"recipe": lambda size: Recipe([RandomResizedCrop(size), MixUp(num_classes=3)]),
             "sizes": MultiScale([16, 24], every=4)},
            {"recipe": lambda size: Recipe([RandomResizedCrop(size), MixUp(num_classes=3)]),
             "buckets": Buckets([(16, 24), (24, 16)])},
            {"shuffle": "none", "last_batch": "pad"},
        ],
    )  # fmt: skip
    def test_kinds_of_runs(self, dataset: Dataset, options: dict[str, Any]) -> None:
        """Types, sizes that differ before an operation, schedules, several sizes, buckets."""
        assert_equal_to_loop(load(dataset, **options), epoch=1)

    def test_views(self, dataset: Dataset) -> None:
        """Each view has draws of its own."""
        loader = load(dataset, Views([RECIPE, Recipe([CenterCrop(12), ColorJitter(0.4)])]))
        batch = loader.peek()
        for view in (0, 1):
            found = loader.replay(int(batch.indices[2]), 0, view=view)
            assert torch.equal(found.row, batch.views[view][2])
            assert torch.equal(found.images[-1][2], batch.views[view][2])

    def test_clips(self, tmp_path: Path) -> None:
        """All frames of a clip, and the operations on its time."""
        for number in range(2):
            write_video(tmp_path / f"{number}.mp4", pan(20, (32, 48), seed=number))
        clips = Clips(open_dataset(tmp_path), num_frames=4, stride=2)
        loader = load(
            clips,
            Recipe([TemporalReverse(p=1), RandomResizedCrop(16), HorizontalFlip()]),
            batch_size=2,
        )
        batch = loader.peek()
        found = loader.replay(int(batch.indices[1]), 0)
        assert torch.equal(found.row, batch.images[1])
        assert torch.equal(found.images[-1][2], batch.images[1])
        assert found.header["frames"] == batch.frames[1].tolist()  # type: ignore[index]
        assert [step.stage for step in found.steps] == ["time", "decode", "augment"]

    def test_several_images(self, tmp_path: Path) -> None:
        """A stereo pair has a picture for each camera after each operation."""
        pair = [
            {"left.png": by_opencv("png", noise(3, "uint8", seed=one)), "right.png": by_opencv("png", noise(3, "uint8", seed=9 + one))}
            for one in range(4)
        ]  # fmt: skip
        data = open_dataset(write_tar(tmp_path / "a.tar", pair))
        recipe = Recipe([RandomResizedCrop(8), HorizontalFlip(), ColorJitter(0.4)])
        loader = load(
            data, recipe, images=ImageOptions(fields={"left": "left.png", "right": "right.png"})
        )
        batch = loader.peek()
        found = loader.replay(int(batch.indices[3]), 0)
        assert torch.equal(found.row, batch.images[3])
        both = torch.stack([batch["left"][3], batch["right"][3]])
        assert torch.equal(found.images[-1][2], both)

    def test_repeats(self, dataset: Dataset) -> None:
        """A mixture by weights has a sample several times, drawn anew each time."""
        mixture = mix([dataset.take([0]), dataset.take([1, 2, 3])], weights=[0.6, 0.4])
        loader = load(mixture, batch_size=len(mixture))
        batch = loader.peek()
        rows = (batch.indices == 0).nonzero()[:, 0].tolist()
        assert len(rows) > 1
        for repeat, row in enumerate(rows):
            assert torch.equal(loader.replay(0, 0, repeat=repeat).row, batch.images[row])
        with pytest.raises(
            LoaderError, match=f"epoch 0 has sample 0 {len(rows)} times; give a number from 0 to"
        ):
            loader.replay(0, 0, repeat=len(rows))


class TestSteps:
    def test_pictures_are_those_of_recipes_that_end_there(
        self, dataset: Dataset, folder: Path
    ) -> None:
        """The picture after each operation is what `apply` makes of Pillow's, with the beginning of the recipe."""
        loader = load(dataset, engine="kornia")
        found = loader.replay(4, 0)
        samples = [{"image": Image.open(folder / found.key)}]
        drawn = {"seed": 3, "epoch": 0, "indices": [4], "engine": "kornia"}
        for stop in range(2, len(RECIPE.operations) + 1):
            [expected] = apply(Recipe(RECIPE.operations[:stop]), samples, **drawn)
            picture: Any = found.steps[stop - 1].image
            assert (picture - expected["image"]).abs().max() < 1e-5 / 0.2

    def test_parameters_in_words_and_units(self, dataset: Dataset) -> None:
        """Angles in degrees, counter-clockwise as torchvision rotates; places in pixels; what was chosen."""
        recipe = Recipe(
            [CenterCrop(21), RandomRotation((30, 30)), OneOf([Gamma((120, 120), p=1)], p=1)]
        )
        found = load(dataset, recipe, dtype=torch.float32).replay(0, 0)
        cut, turn, one = found.steps
        assert (cut.params["shape"].tolist(), turn.params["matrix"].shape) == ([21, 21], (3, 3))
        assert turn.words == "turned 30.0° counter-clockwise"
        assert one.params == {"Gamma": {"gamma": 120}}
        assert one.words.startswith("Gamma: gamma 120")
        assert turn.image is not None
        turned = functional.rotate(
            found.canvas.float() / 255, 30, functional.InterpolationMode.BILINEAR
        )
        inside = (slice(None), slice(7, 14), slice(7, 14))
        assert (turn.image[inside] - turned[inside]).abs().max() < 0.01

    def test_nan_is_found_where_it_comes_from(self, dataset: Dataset) -> None:
        """The table counts what is no number, from the operation on that makes it."""

        class Root(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return (x - 0.2).sqrt()

        recipe = Recipe(
            [RandomResizedCrop(16), HorizontalFlip(), KorniaModule(Root()), Gamma((100, 100))]
        )
        found = load(dataset, recipe, engine="kornia").replay(1, 0)
        counts = [int(image.isnan().sum()) for _, _, image in found.images]
        assert counts[:2] == [0, 0]
        assert counts[2] > 0
        line = next(line for line in repr(found).splitlines() if line.startswith("KorniaModule"))
        assert f" {counts[2]} " in line

    def test_mixing_names_its_partners(self, dataset: Dataset) -> None:
        """Neighbours in the order may be mixed in; one that has no partner is not."""
        loader = load(dataset, MIXED, shuffle="none")
        found = loader.replay(1, 0)
        assert [Path(key).name for key in found.partners] == [
            Path(one.key).name for one in dataset.fetch([0, 2, 3])
        ]
        last = loader.replay(NUM_IMAGES - 1, 0)
        assert (last.partners, [step.applied for step in last.steps[-2:]]) == ([], [False, False])

    def test_table_and_files(self, dataset: Dataset, tmp_path: Path) -> None:
        """The table has a line for each operation; the files show what Normalize made as before it."""
        found = load(
            dataset, Recipe([RandomResizedCrop(24), RandomErasing(p=1), Normalize()])
        ).replay(2, 0)
        text = repr(found)
        assert "file: format jpeg" in text
        for name in ("RandomResizedCrop", "= decoded", "RandomErasing", "Normalize", "= the row"):
            assert f"\n{name}" in text
        folder = found.save(tmp_path / "new" / "folder")
        assert (folder / "replay.txt").read_text() == f"{text}\n"
        before, after = (
            np.asarray(Image.open(folder / name), np.int64)
            for name in ("01-RandomErasing.png", "02-Normalize.png")
        )
        assert np.array_equal(
            np.asarray(Image.open(folder / "00-decoded.png")), found.canvas.permute(1, 2, 0)
        )
        assert np.abs(before - after).max() <= 1
        assert after.max() > 60  # not as Normalize left it, which would be near 0


def test_state_and_statistics_stay(dataset: Dataset) -> None:
    """A loop goes on as if nothing had been."""
    usual = [batch.indices.tolist() for batch in load(dataset)]
    loader = load(dataset)
    batches = iter(loader)
    first = next(batches)
    state, audit = loader.state_dict(), loader.audit
    loader.replay(5, 7)
    assert loader.state_dict() == state
    assert (loader.audit, loader.bad_samples, loader.stats().steps) == (audit, [], 1)
    assert [first.indices.tolist(), *(batch.indices.tolist() for batch in batches)] == usual
    before = loader.stats("run").to_dict()
    loader.replay(0, 0)
    assert loader.stats("run").to_dict() == before


class TestRefusals:
    def test_arguments(self, dataset: Dataset) -> None:
        """Each says what is allowed."""
        loader, usual = load(dataset), {"index": 0, "epoch": 0}
        for text, arguments in {
            r"index=9 is not allowed; give an integer from 0 to 8": {"index": 9},
            r"index=-1 is not allowed": {"index": -1},
            r"index='a' is not allowed": {"index": "a"},
            r"view=1 is not allowed; give an integer from 0 to 0": {"view": 1},
            r"repeat=1 is not allowed: epoch 0 has sample 0 1 time; give": {"repeat": 1},
            r"epoch": {"epoch": -1},
        }.items():
            with pytest.raises(LoaderError, match=text):
                loader.replay(**{**usual, **arguments})

    def test_what_does_not_come(self, dataset: Dataset) -> None:
        """A sample that an epoch of weights leaves out."""
        mixture = mix([dataset.take([0]), dataset.take([1, 2, 3, 4, 5])], weights=[0.95, 0.05])
        loader = load(mixture, batch_size=2)
        there = {int(index) for batch in loader for index in batch.indices}
        absent = next(index for index in range(len(mixture)) if index not in there)
        with pytest.raises(LoaderError, match=f"sample {absent} does not come in epoch 0"):
            loader.replay(absent, 0)

    def test_bad_samples(self, tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
        """A bad sample has no row; beside it a good one has, mixed with its substitute as in the loop."""
        images = [jpeg(40, 40, seed=number) for number in range(4)]
        images[1] = images[1][:300]
        data = write_images(tmp_path, images, labels=[0] * 4)
        recipe = Recipe([RandomResizedCrop(16), MixUp(num_classes=2)])
        for policy in ("replace", "skip"):
            loader = load(data, recipe, on_bad_sample=policy, shuffle="none")
            with pytest.raises(BadSampleError, match=r"sample 1 \(01.jpg\) is bad"):
                loader.replay(1, 0)
            batch = loader.peek()
            assert torch.equal(loader.replay(0, 0).row, batch.images[0])

    def test_streams(self, tmp_path: Path) -> None:
        """They cannot be read at random."""
        samples = [{"jpg": by_opencv("png", noise(3, "uint8", seed=one))} for one in range(4)]
        stream = open_dataset(write_tar(tmp_path / "a.tar", samples), format="stream")
        with pytest.raises(LoaderError, match="replay needs samples that can be read at random"):
            load(stream, batch_size=2, shuffle="none").replay(0, 0)
