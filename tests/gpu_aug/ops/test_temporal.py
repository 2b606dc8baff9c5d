"""Operations on the time of clips: the same frames from any engine, drawn once for each clip."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gpu_aug
from dali_pipes import Batch, Loader, LoaderError
from dali_pipes.video.clips import Clips
from gpu_aug import (
    ColorJitter,
    CutMix,
    FrameDrop,
    GaussianBlur,
    GaussianNoise,
    HorizontalFlip,
    MixUp,
    Normalize,
    RandomAffine,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    SpeedJitter,
    TargetsError,
    TemporalReverse,
    Views,
)
from gpu_aug.files.schema import load_recipe
from gpu_aug.frame_times import decoded_order, drawn_speed, frame_order
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.temporal import SPEED_UNIT
from readers import Dataset
from readers.video import VideoFolderDataset
from tests.support.engines import ENGINES
from tests.support.laws import draw
from tests.support.small import make_small
from tests.support.videos import pan, write_video

TINY = Resize((8, 8))
EVERY = [TemporalReverse(0.3), FrameDrop(0.25, 0.7), SpeedJitter((0.5, 3.0))]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> VideoFolderDataset:
    """Four videos of 30 to 60 frames."""
    root = tmp_path_factory.mktemp("videos")
    for seed in range(4):
        write_video(root / f"{seed}.mp4", pan(30 + 10 * seed, (32, 48), seed=seed))
    return VideoFolderDataset(root)


def batch_of(dataset: Dataset, *operations: Operation, **options: Any) -> Batch:
    recipe = Recipe([*operations, TINY])
    usual: dict[str, Any] = {"batch_size": 4, "dtype": torch.float32, "device": "cpu"}
    with Loader(dataset, recipe, **{**usual, "shuffle": "none", **options}) as loader:
        return next(iter(loader))


def drawn(recipe: Recipe, num: int, epoch: int = 0) -> Any:
    return recipe.draw(3, epoch, np.arange(num), np.full((num, 2), 32))


def test_reverse_turns_frames_and_pixels(videos: VideoFolderDataset) -> None:
    """With p=1 frames and pixels come the other way round."""
    clips = Clips(videos, num_frames=5, stride=3)
    forward = batch_of(clips, TemporalReverse(0))

    backward = batch_of(clips, TemporalReverse(1))

    for name in ("frames", "seconds", "images"):
        assert torch.equal(getattr(backward, name), getattr(forward, name).flip(1)), name
    assert not torch.equal(backward.images, forward.images)


def test_reverse_turns_a_share_of_the_clips() -> None:
    """Each clip is played backwards as a whole, with chance p."""
    recipe = Recipe([TemporalReverse(0.3), TINY])

    first = frame_order(recipe, drawn(recipe, 4000), 6)[:, 0]

    assert np.unique(first).tolist() == [0, 5]
    assert abs((first == 5).mean() - 0.3) < 0.03


def test_lost_frames_repeat_the_one_before() -> None:
    """Of a thousand clips, frame by frame; the first is never lost, others by chance."""
    recipe = Recipe([FrameDrop(0.3, p=1.0), TINY])

    order = frame_order(recipe, drawn(recipe, 1000), 20)

    lost = order[:, 1:] != np.arange(1, 20)
    assert (order[:, 0] == 0).all()
    for clip, gone in zip(order, lost, strict=True):
        last = 0
        for place, missing in enumerate(gone, start=1):
            last = last if missing else place
            assert clip[place] == last
    assert (abs(lost.mean(axis=0) - 0.3) < 0.08).all()
    assert abs(lost.mean() - 0.3) < 0.015
    # Independent from frame to frame: a pair is lost as often as the law says.
    assert abs((lost[:, 1:] & lost[:, :-1]).mean() - 0.09) < 0.015


def test_drop_leaves_clips_with_a_closed_gate() -> None:
    """Clips whose gate is closed keep all frames; others lose some."""
    recipe = Recipe([FrameDrop(0.5, p=0.25), TINY])

    kept = (frame_order(recipe, drawn(recipe, 4000), 30) == np.arange(30)).all(axis=1)

    assert abs(kept.mean() - 0.75) < 0.03


@pytest.mark.parametrize(
    ("given", "speed", "like"),
    [
        ({"stride": 2}, 2.0, {"stride": 4}),
        ({"stride": 4}, 0.25, {"stride": 1}),
        ({"fps": 5}, 0.5, {"fps": 10}),
        ({"fps": 10}, 2.0, {"fps": 5}),
    ],
    ids=["stride 2 x 2", "stride 4 / 4", "fps 5 / 2", "fps 10 x 2"],
)
def test_a_fixed_speed_is_another_stride(
    videos: VideoFolderDataset,
    given: Mapping[str, Any],
    speed: float,
    like: Mapping[str, Any],
) -> None:
    """The same random clips as with that stride, or with so many frames a second."""
    jittered = batch_of(Clips(videos, num_frames=4, **given), SpeedJitter((speed, speed)))

    plain = batch_of(Clips(videos, num_frames=4, **like), SpeedJitter((1, 1)))

    assert torch.equal(jittered.frames, plain.frames)
    assert torch.equal(jittered.images, plain.images)


def test_speed_is_uniform() -> None:
    """Uniform between the ends, and one factor for the whole clip."""
    speed = draw(SpeedJitter((0.5, 2.0)), (8, 8))["speed"] / SPEED_UNIT

    assert 0.5 <= speed.min() < 0.51
    assert 1.99 < speed.max() <= 2
    quarters = np.histogram(speed, bins=4, range=(0.5, 2))[0] / len(speed)
    assert (abs(quarters - 0.25) < 0.05).all()


def test_places_between_frames_are_rounded_down(videos: VideoFolderDataset) -> None:
    """Stride 1 at 1.5 times the speed: 0, 1, 3, 4, 6 after the first one."""
    batch = batch_of(Clips(videos, num_frames=5, stride=1), SpeedJitter((1.5, 1.5)))

    assert (batch.frames - batch.frames[:, :1]).tolist() == [[0, 1, 3, 4, 6]] * 4


def test_two_speeds_multiply() -> None:
    """Twice as fast, and twice again."""
    recipe = Recipe([SpeedJitter((2, 2)), TINY, SpeedJitter((2, 2))])

    assert (drawn_speed(recipe, drawn(recipe, 3)) == 4 * SPEED_UNIT).all()


def test_decoded_clips_hold_their_last_frame() -> None:
    """They have no other frames: the nearest earlier one is taken."""
    fast, slow = (Recipe([SpeedJitter((speed, speed)), TINY]) for speed in (1.5, 0.5))

    assert decoded_order(fast, drawn(fast, 1), 6).tolist() == [[0, 1, 3, 4, 5, 5]]
    assert decoded_order(slow, drawn(slow, 1), 6).tolist() == [[0, 0, 1, 1, 2, 2]]


def test_frames_are_pinned() -> None:
    """A run that is resumed with a later version goes on with the same frames."""
    recipe = Recipe([*EVERY, RandomResizedCrop(8)])

    draws = recipe.draw(7, 2, np.array([0, 5, 2**40]), np.full((3, 2), 32))

    assert drawn_speed(recipe, draws).tolist() == GOLDEN_SPEED
    assert frame_order(recipe, draws, 6).tolist() == GOLDEN_ORDER


def test_batches_and_resumption_do_not_matter(videos: VideoFolderDataset) -> None:
    """A clip has its frames in a batch of four, alone, and on any rank."""
    clips = Clips(videos, num_frames=6, stride=2, clips_per_video=3)

    def found(**options: Any) -> dict[str, list[int]]:
        recipe = Recipe([*EVERY, TINY])
        with Loader(clips, recipe, device="cpu", last_batch="partial", **options) as loader:
            return {k: f for b in loader for k, f in zip(b.keys, b.frames.tolist(), strict=True)}

    expected = found(batch_size=4)

    assert len(expected) == 12
    assert found(batch_size=1) == expected
    ranks = [found(batch_size=2, rank=rank, world_size=2) for rank in range(2)]
    assert ranks[0] | ranks[1] == expected
    assert found(batch_size=4, seed=1) != expected
    for engine in ENGINES:
        assert found(batch_size=5, engine=engine) == expected


def test_other_operations_draw_as_before() -> None:
    """Behind all others, an operation on time changes no draw of theirs; nor where they are carried out."""
    others = [RandomResizedCrop(8), HorizontalFlip(), ColorJitter(0.4)]
    plain, timed = Recipe(others), Recipe([*others, *EVERY])

    first, second = drawn(plain, 5), drawn(timed, 5)

    assert np.array_equal(first.crops.start, second.crops.start)
    for ours, theirs in zip(first.params, second.params, strict=True):
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    assert len(second.temporal) == 3


@pytest.mark.parametrize("place", range(4))
def test_stages_do_not_see_operations_on_time(place: int) -> None:
    """Wherever they stand, the crop is still done while decoding and the rest by the engine."""
    others: list[Operation] = [RandomResizedCrop(8), HorizontalFlip(), Normalize()]
    plain = Recipe(others)

    timed = Recipe([*others[:place], *EVERY, *others[place:]])

    stages = ("decode_operations", "batch_leaves", "decode_size", "size", "num_single_leaves")
    assert {n: getattr(timed, n) for n in stages} == {n: getattr(plain, n) for n in stages}
    assert (timed.size, timed.num_single_leaves) == ((8, 8), 0)
    assert timed.temporal_operations == tuple(EVERY)
    assert timed.fingerprint != plain.fingerprint


def test_rows_move_with_their_draws() -> None:
    """Parts of a batch, substitutes and frames keep what was drawn for their clip."""
    recipe = Recipe([*EVERY, TINY])
    draws = drawn(recipe, 6)
    order = frame_order(recipe, draws, 9)
    other = recipe.draw(3, 0, np.array([77]), np.full((1, 2), 32))
    replaced = np.concatenate([order[:4], frame_order(recipe, other, 9), order[5:]])

    for changed, expected in (
        (draws.rows(2, 5), order[2:5]),
        (draws.repeat(2), order.repeat(2, axis=0)),
        (draws.replaced(4, other), replaced),
    ):
        np.testing.assert_array_equal(frame_order(recipe, changed, 9), expected)


def test_views_have_the_same_frames(videos: VideoFolderDataset) -> None:
    """Two crops of one clip; recipes that differ in time are refused."""
    clips = Clips(videos, num_frames=5, stride=2)
    same = Views([Recipe([TemporalReverse(), TINY]), Recipe([TINY, TemporalReverse()])])
    with Loader(clips, same, batch_size=4, dtype=torch.float32, device="cpu") as loader:
        batch = next(iter(loader))
    apart = gpu_aug.apply(same, [{"image": np.stack(pan(5, (9, 9)))}] * 8, seed=0)

    assert torch.equal(*batch.views)
    assert all(torch.equal(first["image"], second["image"]) for first, second in apart)
    assert len({first["image"].numpy().tobytes() for first, _ in apart}) == 2
    with pytest.raises(RecipeError, match="views must all have the same operations on the time"):
        Views([Recipe([TemporalReverse(), TINY]), Recipe([TINY])])


GOLDEN_SPEED = [72269, 84003, 82482]
GOLDEN_ORDER = [[5, 5, 5, 2, 1, 0], [0, 1, 2, 3, 4, 5], [5, 4, 3, 3, 3, 0]]


def test_frames_are_moved_like_an_index() -> None:
    """The result is that of the moved frames, for every engine and each clip of a sample."""
    clip = pan(7, (20, 30))
    timed, plain = Recipe([*EVERY, Resize((9, 9))]), Recipe([Resize((9, 9))])
    draws = timed.draw(1, 0, np.arange(4), np.full((4, 2), [20, 30]))
    for engine in ENGINES:
        ours = gpu_aug.apply(
            timed, [{"image": clip, "images": [clip[:3]]}] * 4, engine=engine, seed=1
        )
        for row, sample in enumerate(ours):
            for result, length in ((sample["image"], 7), (sample["images"][0], 3)):
                [order] = decoded_order(timed, draws.rows(row, row + 1), length)
                [moved] = gpu_aug.apply(plain, [{"image": clip[order]}], engine=engine, seed=0)
                assert torch.equal(result, moved["image"])
        assert len({sample["image"].numpy().tobytes() for sample in ours}) > 1


def test_an_image_without_time_is_refused() -> None:
    """One image has no time."""
    image = pan(1, (9, 9))[0]

    with pytest.raises(TargetsError, match=r"sample 0: image must be a clip, \[T, \.\.\.\]"):
        gpu_aug.apply(Recipe([FrameDrop(), TINY]), [{"image": image}], seed=0)


RICH = {
    "colour": [RandomResizedCrop(24), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1)],
    "noise": [Resize((24, 24)), GaussianBlur(5, (0.1, 2.0)), GaussianNoise()],
    "warp": [
        Resize((24, 24)),
        RandomAffine(20, (0.2, 0.2), (0.8, 1.2)),
        RandomErasing(0.9),
        Normalize(),
    ],
    "policy": [RandomResizedCrop(24), gpu_aug.RandAugment(), Normalize()],
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RICH)
def test_all_frames_of_a_clip_are_treated_alike(name: str, engine: Any) -> None:
    """Of equal frames come equal frames, to the bit; samples of their own are each drawn anew."""
    still = pan(1, (40, 50))[0]
    recipe = Recipe(RICH[name])

    results = gpu_aug.apply(recipe, [{"image": np.stack([still] * 5)}] * 3, engine=engine, seed=0)

    for result in results:
        assert all(torch.equal(frame, result["image"][0]) for frame in result["image"])
    apart = gpu_aug.apply(recipe, [{"image": still}] * 5, engine=engine, seed=0)
    assert not all(torch.equal(one["image"], apart[0]["image"]) for one in apart)


@pytest.mark.parametrize("mixing", [MixUp(num_classes=2), CutMix(num_classes=2)], ids=repr)
@pytest.mark.parametrize("engine", ENGINES)
def test_all_frames_of_mixed_clips_are_treated_alike(mixing: Operation, engine: Any) -> None:
    """Two clips that stand still stay so; mixed image by image, their frames differ."""
    stills = [pan(1, (24, 24), seed=seed)[0] for seed in range(2)]
    recipe = Recipe([Resize((24, 24)), mixing])
    clips = [{"image": np.stack([still] * 4), "label": n} for n, still in enumerate(stills)]

    results = gpu_aug.apply(recipe, clips, engine=engine, seed=0)

    for result in results:
        assert all(torch.equal(frame, result["image"][0]) for frame in result["image"])
        assert 0 < result["label"].max() < 1
    images = [{"image": still, "label": n % 2} for n, still in enumerate(stills * 4)]
    apart = gpu_aug.apply(recipe, images, engine=engine, seed=0)
    assert not torch.equal(apart[0]["image"], apart[2]["image"])


def test_recipes_survive_files(tmp_path: Path) -> None:
    """The short form gives the recipe with its fingerprint; a field changes it."""
    recipe = Recipe([*EVERY, TINY])
    recipe.save(tmp_path / "recipe.yaml")
    assert Recipe.load(tmp_path / "recipe.yaml") == recipe
    (tmp_path / "short.yaml").write_text(
        "version: 1\noperations: [TemporalReverse: 0.3, FrameDrop: {dropout_prob: 0.25, p: 0.7},\n"
        "  SpeedJitter: [0.5, 3], Resize: [8, 8]]\n"
    )
    short = load_recipe(tmp_path / "short.yaml")
    assert (short, short.fingerprint) == (recipe, recipe.fingerprint)
    assert Recipe([FrameDrop(), TINY]).fingerprint != Recipe([FrameDrop(0.2), TINY]).fingerprint


def test_recipe_and_loader_explain_them(videos: VideoFolderDataset) -> None:
    """By the recipe and by the loader."""
    recipe = Recipe([HorizontalFlip(), TemporalReverse(0.3), TINY])
    clips = Clips(videos, num_frames=5, stride=2)

    assert "before decoding, which frames: TemporalReverse(p=0.3)" in recipe.explain()
    with Loader(clips, recipe, batch_size=2, device="cpu") as loader:
        said = loader.explain()
    assert "clips: 5 frames each, chosen with TemporalReverse(p=0.3)" in said
    assert said.count("TemporalReverse") == 1


def test_exports_refuse_them() -> None:
    """Neither library moves frames."""
    recipe = Recipe([TemporalReverse(), HorizontalFlip()])

    for export in (recipe.to_albumentations, recipe.to_kornia):
        with pytest.raises(RecipeError, match="Recipe > TemporalReverse: "):
            export()


def test_images_in_the_loader_are_refused(jpeg: Any) -> None:
    """The error says what to give it instead."""
    recipe = Recipe([TemporalReverse(), TINY])

    with pytest.raises(LoaderError, match=r"TemporalReverse moves .* give the loader Clips"):
        Loader(make_small(jpeg, 3), recipe, batch_size=1, device="cpu")
