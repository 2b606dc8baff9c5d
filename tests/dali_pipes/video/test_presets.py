"""Recipes for videos as they are published, and the mean over clips and views of a video."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import gpu_aug
from dali_pipes import Batch, LoaderError
from dali_pipes.video.clips import Clips
from dali_pipes.video.scores import VideoScores, ViewMean
from gpu_aug import MixUp, Normalize, Recipe, Resize
from gpu_aug.ops.operation import Operation
from readers.video import VideoFolderDataset
from tests.support.loaders import loader_maker
from tests.support.small import make_small
from tests.support.videos import pan, write_video

MEAN, STD = (0.45,) * 3, (0.225,) * 3


def of_pixels(imported: Recipe) -> tuple[Operation, ...]:
    """The operations of an import, with masks resampled as ours are."""
    return tuple(
        replace(step, mask_interpolation="nearest") if hasattr(step, "mask_interpolation") else step
        for step in imported.operations
    )


class TestPresets:
    """Against the pipelines of torchvision's and SlowFast's references."""

    @pytest.mark.parametrize(
        ("preset", "theirs", "num_decoding"),
        [
            (
                "video_train",  # references/video_classification, with SlowFast's numbers
                [
                    v2.RandomShortestSize(list(range(256, 321)), antialias=True),
                    v2.RandomCrop(224),
                    v2.RandomHorizontalFlip(0.5),
                ],
                2,
            ),
            ("video_eval", [v2.Resize(256, antialias=True), v2.CenterCrop(256)], 2),
        ],
        ids=["training", "evaluation"],
    )
    def test_operations(self, preset: Any, theirs: list[Any], num_decoding: int) -> None:
        """Shorter side, crop and flip; the shorter side and the middle of it."""
        numbers = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]

        ours, imported = (
            Recipe.preset(preset),
            Recipe.from_torchvision(v2.Compose([*theirs, *numbers])),
        )

        assert (ours.operations, len(ours.decode_operations)) == (of_pixels(imported), num_decoding)

    def test_size(self) -> None:
        """Size and shorter side are arguments."""
        assert Recipe.preset("video_train", size=112, shorter=(128, 128)).size == (112, 112)

    @pytest.mark.parametrize("size", [(40, 70), (70, 40), (40, 40)], ids=["wide", "tall", "square"])
    def test_three_crops(self, size: tuple[int, int]) -> None:
        """Left, middle and right, or top, middle and bottom: uniform_crop of SlowFast, sliced by hand."""
        clip = torch.from_numpy(pan(2, size)).permute(0, 3, 1, 2)
        short = v2.functional.resize(clip, [32], antialias=True)
        height, width = short.shape[2:]
        middle = round((height - 32) / 2), round((width - 32) / 2)
        corners = [(0, 0), middle, (height - 32, width - 32)]
        expected = [
            (short[..., top : top + 32, left : left + 32] / 255 - 0.45) / 0.225
            for top, left in corners
        ]

        [results] = gpu_aug.apply(Recipe.preset("video_test", size=32), [{"image": clip}], seed=0)

        for result, crop in zip(results, expected, strict=True):
            # Ours is rounded to 8 bits once, as torchvision's, which may fall on the other side.
            assert (result["image"] - crop).abs().max() < 1.01 / 255 / 0.225
        if size[0] != size[1]:
            assert (results[0]["image"] - expected[1]).abs().max() > 20 / 255 / 0.225


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    """Four clips of each of three videos of two classes."""
    root = tmp_path_factory.mktemp("videos")
    for seed, name in enumerate(("a/0.mp4", "a/1.mp4", "b/2.mp4")):
        (root / name).parent.mkdir(exist_ok=True)
        write_video(root / name, pan(30 + 7 * seed, (32, 48), seed=seed))
    dataset = VideoFolderDataset(root)
    return Clips(dataset, num_frames=3, stride=2, sampling="uniform", clips_per_video=4)


TINY = Recipe([Resize((8, 8))])
load = loader_maker(Recipe.preset("video_test", size=16), dtype=torch.float32)


def batches(clips: Clips, **options: Any) -> list[Batch]:
    with load(clips, last_batch="pad", **{"batch_size": 5, **options}) as loader:
        return list(loader)


def model(view: torch.Tensor) -> torch.Tensor:
    """Scores of three classes: what the channels are like."""
    return 3 * view.mean(dim=(1, 3, 4)) + view[:, 0, :, 3, 3]


def joined(found: list[Batch], **options: Any) -> ViewMean:
    mean = ViewMean(num_clips=4, **options)
    for batch in found:
        mean.add(batch, [model(view) for view in batch.views])
    return mean


class TestViewMean:
    """Scores of clips become those of videos."""

    @pytest.mark.parametrize("average", ["softmax", "logits"])
    def test_mean_over_clips_and_views(self, clips: Clips, average: Any) -> None:
        """Twelve of each video, added up one by one with NumPy."""
        total: dict[str, list[np.ndarray]] = {}
        for batch in batches(clips, batch_size=1, shuffle="none"):
            for view in batch.views:
                [score] = model(view).double().numpy()
                score = np.exp(score) / np.exp(score).sum() if average == "softmax" else score
                total.setdefault(batch.keys[0].partition("#")[0], []).append(score)

        found = batches(clips)
        scores = joined(found, average=average).scores()
        twice = joined([*found, *found], average=average).scores()

        assert torch.equal(twice.scores, scores.scores)  # clips that come twice count once
        assert scores.videos == sorted(total) == ["a/0.mp4", "a/1.mp4", "b/2.mp4"]
        assert {len(each) for each in total.values()} == {12}
        expected = np.stack([np.mean(each, axis=0) for each in total.values()])
        np.testing.assert_allclose(scores.scores, expected, rtol=1e-6)
        assert scores.labels.tolist() == [0, 0, 1]
        right = expected.argmax(axis=1) == [0, 0, 1]
        assert scores.accuracy() == pytest.approx(right.mean())

    def test_ranks_and_orders_do_not_matter(self, clips: Clips) -> None:
        """Clips of a video on two ranks, some of them twice to fill up a batch, count once."""
        expected = joined(batches(clips, shuffle="none")).scores()
        ranks = [batches(clips, rank=r, world_size=2, seed=4) for r in range(2)]
        assert not all(batch.valid.all() for rank in ranks for batch in rank)
        first, second = (joined(rank) for rank in ranks)
        assert first.missing()

        for _ in range(2):  # the second time changes nothing
            first.merge(second)

            assert first.missing() == {}
            torch.testing.assert_close(first.scores().scores, expected.scores, rtol=0, atol=1e-12)

    def test_videos_with_too_few_clips(self, clips: Clips) -> None:
        """The loss of a batch is noticed."""
        mean = joined(batches(clips, shuffle="none")[:2])

        assert (mean.missing(), len(mean)) == ({"b/2.mp4": 2}, 3)
        with pytest.raises(LoaderError, match="num_clips is not known"):
            ViewMean().missing()

    def test_what_cannot_be_told_apart(self, clips: Clips) -> None:
        """Sums that have some clips in common cannot be added."""
        found = batches(clips, batch_size=2, shuffle="none")
        one, other = joined(found[:1]), joined(found[:2])

        one.merge(other)
        assert torch.equal(one.scores().scores, other.scores().scores)
        early, late = joined(batches(clips, batch_size=3, shuffle="none")[:1]), joined(found[1:2])
        with pytest.raises(LoaderError, match=r"video a/0\.mp4: both have its clips \[2\]"):
            early.merge(late)

    def test_scores_that_do_not_fit(self, clips: Clips, jpeg: Any) -> None:
        """Another number of rows, no views, images, nothing at all."""
        [batch, *_] = batches(clips)
        mean = ViewMean()

        with pytest.raises(LoaderError, match="no scores were added yet"):
            mean.scores()
        with load(make_small(jpeg, 4), TINY) as loader:
            images = next(iter(loader))
        for given, scores, says in (
            (batch, torch.zeros(4, 3), r"scores must be \[5, C\].* got \[\[4, 3\]\]"),
            (batch, [], r"got \[\]"),
            (images, torch.zeros(4, 3), "the batch has images, not clips"),
        ):
            with pytest.raises(LoaderError, match=says):
                mean.add(given, scores)
        for options, says in (
            ({"average": "max"}, "average='max' is not known"),
            ({"num_clips": 0}, "num_clips=0 is not allowed"),
        ):
            with pytest.raises(LoaderError, match=says):
                ViewMean(**options)

    def test_accuracy_of_several_classes(self) -> None:
        """The label is looked for among the highest scores; of equal ones the first class counts."""
        scores = torch.tensor([[1.0, 3, 2, 0], [5, 5, 5, 5], [0, 1, 2, 3], [9, 0, 0, 0]])
        labels = torch.tensor([2, 1, 0, -1])
        found = VideoScores(["a", "b", "c", "d"], torch.arange(4), scores.double(), labels)

        assert [found.accuracy(top_k) * 3 for top_k in (1, 2, 3, 4)] == pytest.approx([0, 2, 2, 3])
        assert found.accuracy() == found.accuracy(top_k=1)
        for wrong in (0, 5, True):
            with pytest.raises(LoaderError, match=f"top_k={wrong} is not allowed; give .* 1 to 4"):
                found.accuracy(wrong)

    def test_labels_beyond_the_scores(self) -> None:
        """Scores of fewer classes than the data has tell of no accuracy."""
        found = VideoScores(["a"], torch.arange(1), torch.zeros(1, 3).double(), torch.tensor([3]))

        with pytest.raises(LoaderError, match="the label 3, but there are scores of 3 classes"):
            found.accuracy()

    def test_mixed_labels_have_no_accuracy(self, clips: Clips) -> None:
        """Soft labels are nobody's class."""
        mean = ViewMean()
        with load(clips, Recipe([Resize((8, 8)), MixUp(num_classes=2), Normalize()])) as loader:
            mean.add(batch := next(iter(loader)), model(batch.images))

        assert math.isnan(mean.scores().accuracy())


GATHER = """
import json, sys
import torch, torch.distributed
from dali_pipes.batch import Batch
from dali_pipes.video.scores import ViewMean

rank, store = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
mean = ViewMean(num_clips=2, average="logits")
clip = torch.tensor([rank, 2 + 2 * rank])
batch = Batch(torch.zeros(2, 1, 3, 2, 2), torch.tensor([0, 1 + rank]), clip, ["", ""],
              torch.tensor([True, True]), videos=["shared", f"own {rank}"],
              video_numbers=torch.tensor([0, 1 + rank]))
mean.add(batch, torch.tensor([[1.0 + rank, 0.0, 5.0], [0.0, 0.0, rank]]))
mean.gather()
found = mean.scores()
print(json.dumps([found.videos, found.scores.tolist(), found.labels.tolist(), mean.missing()]))
torch.distributed.destroy_process_group()
"""


@pytest.mark.long
def test_ranks_gather(tmp_path: Path) -> None:
    """Two processes of torch.distributed both know all videos afterwards."""
    store = tmp_path / "store"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", GATHER, str(rank), str(store)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        for rank in range(2)
    ]
    said = [json.loads(rank.communicate(timeout=180)[0].splitlines()[-1]) for rank in ranks]

    expected = [
        ["own 0", "own 1", "shared"],
        [[0, 0, 0], [0, 0, 1], [1.5, 0, 5]],
        [1, 2, 0],
        {"own 0": 1, "own 1": 1},
    ]
    assert said == [expected] * 2
