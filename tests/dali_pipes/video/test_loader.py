"""Clips in the loader: the same ones, to the bit, however batches are made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv

from dali_pipes import BadSampleError, Batch, Execution, ImageOptions, LoaderError
from dali_pipes.video.clips import Clips
from gpu_aug import (
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    RandomCrop,
    RandomResizedCrop,
    RandomShortestSize,
    Recipe,
    Resize,
)
from gpu_aug.views import Views
from readers.video import VideoFolderDataset, scan_video
from tests.support.loaders import indices_of, loader_maker
from tests.support.same_batches import images_by_index
from tests.support.videos import decode_all, pan, write_video

NUM_VIDEOS, NUM_FRAMES, T = 9, 20, 4
CROPS = Recipe(
    [RandomResizedCrop((24, 32)), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()]
)
PLAIN = Recipe([Resize(40), CenterCrop(32)])
KINDS: list[tuple[str, dict[str, Any]]] = [
    (".mp4", {"options": {"preset": "ultrafast"}}),
    (".mkv", {"codec": "mpeg4"}),
    (".avi", {"codec": "mjpeg", "pixel_format": "yuvj420p"}),
    (".mp4", {"pts": [512 * n + 256 * (n % 3 == 0) for n in range(NUM_FRAMES)]}),
    (".mov", {"rotation": 90}),
]
TURNED = "4"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes with nine videos of several kinds."""
    root = tmp_path_factory.mktemp("videos")
    for number in range(NUM_VIDEOS):
        ending, options = KINDS[number % len(KINDS)]
        place = root / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        frames = pan(NUM_FRAMES, (48, 64), seed=number)
        write_video(place / f"{number}{ending}", frames, **options)
    return root


@pytest.fixture(scope="module")
def clips(folder: Path) -> Clips:
    """Three clips of every video."""
    return clips_of(folder)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Clips:
    """The same videos, of which one has pictures that cannot be decoded and one is no video."""
    root = tmp_path_factory.mktemp("faulty")
    for path in folder.rglob("*.*"):
        data = bytearray(path.read_bytes())
        if path.stem == "2":
            info = scan_video(bytes(data))
            for offset, size in list(zip(info.packet_offsets, info.packet_sizes, strict=True))[1:]:
                data[offset : offset + size] = bytes(size)
        if path.stem == "5":
            data = bytearray(b"no video at all")
        (root / path.parent.name).mkdir(exist_ok=True)
        (root / path.parent.name / path.name).write_bytes(data)
    return clips_of(root)


def clips_of(root: Path) -> Clips:
    return Clips(VideoFolderDataset(root), num_frames=T, stride=3, clips_per_video=3)


load = loader_maker(CROPS, dtype=torch.float32, last_batch="partial", num_threads=2)


def assert_equal(actual: list[Batch], expected: list[Batch]) -> None:
    """The same samples in the same order, with the same pixels."""
    assert indices_of(actual) == indices_of(expected)
    pictures = images_by_index(expected)
    for index, clip in images_by_index(actual).items():
        assert torch.equal(clip, pictures[index])


@pytest.fixture(scope="module")
def reference(clips: Clips) -> list[Batch]:
    """One epoch."""
    return list(load(clips))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1},
        {"batch_size": 27},
        {"num_threads": 1},
        {"execution": Execution(prefetch=1)},
        {"execution": Execution(prefetch=5), "num_threads": 3},
        pytest.param(
            {"execution": Execution(helper_process=True), "batch_size": 10}, marks=pytest.mark.long
        ),
    ],
    ids=str,
)
def test_clips_do_not_depend_on_the_batch(
    clips: Clips, reference: list[Batch], options: dict[str, Any]
) -> None:
    """Batch size, threads, prefetch and a helper process change nothing, and another seed does."""
    with load(clips, **options) as loader:
        actual = list(loader)

    assert_equal(actual, reference)
    assert actual[0].images.shape[1:] == (T, 3, 24, 32)
    if "execution" not in options:
        with pytest.raises(AssertionError):
            assert_equal(list(load(clips, seed=1, **options)), reference)


def test_a_run_goes_on_from_every_step(clips: Clips, reference: list[Batch]) -> None:
    """Wherever the state was taken, the rest follows, on as many ranks as there are then."""
    loader = load(clips)
    for done, _ in zip(range(1, len(loader)), loader, strict=False):
        state = json.loads(json.dumps(loader.state_dict()))
        again, *ranks = (
            load(clips),
            *(load(clips, batch_size=2, rank=rank, world_size=2) for rank in range(2)),
        )
        for one in (again, *ranks):
            one.load_state_dict(state)
        steps = list(zip(*ranks, strict=True))

        assert_equal(list(again), reference[done:])
        assert_equal([batch for step in steps for batch in step], reference[done:])


def test_clips_are_the_frames_of_their_videos(folder: Path, clips: Clips) -> None:
    """What a batch says its frames are, they are, in a decode from the beginning by FFmpeg."""
    for batch in load(clips, PLAIN, seed=3):
        for key, frames, clip in zip(batch.keys, batch.frames, batch.images, strict=True):
            _, whole = decode_all(folder / key.partition("#")[0])
            turns = int(Path(key).name[0] in TURNED)  # counterclockwise, as players do
            turned = np.rot90(np.stack(whole), turns, axes=(1, 2))
            everything = torch.stack([_plain(torch.from_numpy(one.copy())) for one in turned])
            for frame, picture in zip(frames.tolist(), clip, strict=True):
                gaps = (everything - picture).abs().mean(dim=(1, 2, 3)) * 255
                assert gaps.argmin() == frame
                assert gaps[frame] < 3
                assert torch.cat([gaps[:frame], gaps[frame + 1 :]]).min() > 4


def _plain(picture: torch.Tensor) -> torch.Tensor:
    return tv.center_crop(tv.resize(picture.permute(2, 0, 1), 40), 32) / 255


def test_views_of_clips(clips: Clips, reference: list[Batch]) -> None:
    """Each view has all frames; the first is that of a loader without others."""
    views = Views([CROPS, Recipe([RandomResizedCrop((16, 20)), Normalize()])])
    actual = list(load(clips, views))

    assert_equal(actual, reference)
    assert actual[0].views[1].shape == (4, T, 3, 16, 20)


@pytest.mark.parametrize(
    ("dtype", "channels_last", "helper_process"),
    [
        (torch.uint8, True, False),
        (torch.uint8, False, False),
        pytest.param(torch.uint8, False, True, marks=pytest.mark.long),
        (torch.bfloat16, True, False),
        (torch.bfloat16, False, False),
    ],
    ids=str,
)
def test_types_and_layouts(
    clips: Clips, dtype: torch.dtype, channels_last: bool, helper_process: bool
) -> None:
    """Every type holds the numbers of float32, rounded; the layout is as asked for."""
    execution = Execution(channels_last=channels_last, helper_process=helper_process)
    exact = next(iter(load(clips, PLAIN, shuffle="none"))).images
    with load(clips, PLAIN, execution=execution, dtype=dtype, shuffle="none") as loader:
        actual = next(iter(loader)).images

    expected = (exact * 255).round() if dtype == torch.uint8 else exact
    assert actual.dtype == dtype
    assert torch.equal(actual, expected.to(dtype))
    assert actual.flatten(0, 1).is_contiguous(
        memory_format=torch.channels_last if channels_last else torch.contiguous_format
    )


@pytest.mark.parametrize("helper_process", [False, pytest.param(True, marks=pytest.mark.long)])
def test_bad_clips_are_skipped(
    clips: Clips, faulty: Clips, reference: list[Batch], helper_process: bool
) -> None:
    """Clips of videos that cannot be read or decoded are left out, said, and nothing else changes."""
    with load(
        faulty, on_bad_sample="skip", execution=Execution(helper_process=helper_process)
    ) as loader:
        actual = images_by_index(list(loader))
        bad = {record.index: record.stage for record in loader.bad_samples}
    expected = images_by_index(reference)
    names = [entry.key for entry in clips.fetch(range(len(clips)))]

    assert {names[index][7] for index in bad} == {"2", "5"}
    assert (set(bad.values()), set(actual)) == ({"header", "decode"}, set(expected) - set(bad))
    assert all(torch.equal(clip, expected[index]) for index, clip in actual.items())


def test_bad_clips_are_replaced(faulty: Clips, reference: list[Batch]) -> None:
    """Substitutes are sound clips with the frames of their own, and the same ones for any batch size."""
    loaders = [load(faulty, on_bad_sample="replace", batch_size=size) for size in (4, 9)]
    first, second = (list(loader) for loader in loaders)

    assert_equal(second, first)
    assert len(indices_of(first)) == len(faulty)
    assert {record.index for record in loaders[0].bad_samples}.isdisjoint(indices_of(first))
    expected = images_by_index(reference)
    for batch in first:
        indices = batch.indices.numpy()
        assert torch.equal(
            batch.frames, torch.from_numpy(faulty.frames(0, 0, indices, 0 * indices))
        )
        for index, clip in zip(indices.tolist(), batch.images, strict=True):
            assert torch.equal(clip, expected[index])


def test_a_bad_clip_ends_the_run(faulty: Clips) -> None:
    """The error names the video and what is wrong with it."""
    with pytest.raises(BadSampleError, match=r"class[01]/[25]\.[a-z0-9]+#[0-2]"):
        list(load(faulty, on_bad_sample="raise"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": ImageOptions(targets=["boxes"])}, "not supported for clips"),
        ({"execution": Execution(decode="fast")}, "cannot be decoded at a smaller size"),
    ],
)
def test_what_clips_do_not_have_is_refused(
    clips: Clips, options: dict[str, Any], said: str
) -> None:
    """Targets by name and decoding at a smaller size are answered in words."""
    with pytest.raises(LoaderError, match=said):
        load(clips, **options)


@pytest.mark.parametrize("targets", ["auto", []])
def test_targets_of_clips_are_passed_over(tmp_path: Path, targets: Any) -> None:
    """Boxes that lie beside a video are not those of its frames, and nothing is taken of them."""
    write_video(tmp_path / "a.mp4", pan(8, (48, 64)))
    (tmp_path / "a.json").write_text('{"boxes": [[1, 2, 3, 4]]}')
    loader = load(clips_of(tmp_path), images=ImageOptions(targets=targets))
    [batch] = loader

    assert batch.boxes is None
    assert "targets: none" in loader.explain()
    assert "frames: decoded by FFmpeg on the CPU" in loader.explain()


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        (range(256, 321), "RandomShortestSize(min_size=256..320)"),
        ((256, 288, 320, 352, 384), "RandomShortestSize(min_size=(256, 288, 320, 352, 384))"),
        ((24, 25), "RandomShortestSize(min_size=(24, 25))"),
    ],
    ids=["range", "steps", "two"],
)
def test_lengths_are_told_briefly(clips: Clips, lengths: Any, said: str) -> None:
    """Many lengths that follow each other are told as the first and the last; pairs and steps one by one."""
    recipe = Recipe([RandomShortestSize(tuple(lengths)), RandomCrop((24, 25)), Normalize()])
    text = load(clips, recipe=recipe).explain()

    assert f"decode stage: {said}, RandomCrop(size=(24, 25)) -> uint8" in text
    assert said in repr(recipe)
