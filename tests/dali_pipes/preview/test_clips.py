"""Strips of clips: frames and views as a Loader hands them over, and frames that stand for others."""

from pathlib import Path

import numpy as np
import pytest

from dali_pipes import Loader
from dali_pipes.preview import clip_engines, clip_pictures, render_strips
from dali_pipes.preview.strips import shown_frames
from dali_pipes.video.clips import Clips
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe, SpeedJitter, Views
from readers.video import VideoFolderDataset, scan_video
from tests.dali_pipes.preview.test_images import pictures, texts
from tests.support.videos import decode_all, pan, write_video

SIZE = (64, 80)
VIEWS = Views(
    [
        Recipe([SpeedJitter(), RandomResizedCrop(48), HorizontalFlip()]),
        Recipe([SpeedJitter(), RandomResizedCrop(32)]),
    ]
)
SEED = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos of 30 frames in two classes."""
    folder = tmp_path_factory.mktemp("videos")
    for number in range(4):
        path = folder / ("cats" if number % 2 else "dogs") / f"{number}.mp4"
        path.parent.mkdir(exist_ok=True)
        write_video(path, pan(30, SIZE, seed=number))
    return folder


@pytest.fixture(scope="module")
def videos(folder: Path) -> VideoFolderDataset:
    return VideoFolderDataset(folder)


def test_clips_are_what_training_sees(folder: Path, videos: VideoFolderDataset) -> None:
    """Frames, times and every view of selected videos, as a loader of all videos has them in two epochs."""
    how = {"num_frames": 4, "stride": 2}
    chosen = [3, 1]
    clips = Clips(videos.take(chosen), **how)  # type: ignore[arg-type]

    shown = clip_pictures(clips, VIEWS, numbers=chosen, seed=SEED, epochs=(0, 5))

    assert [one.epoch for one in shown] == [0, 5, 0, 5]
    loader = Loader(Clips(videos, **how), VIEWS, batch_size=2, seed=SEED)  # type: ignore[arg-type]
    for epoch in (0, 5):
        loader.set_epoch(epoch)
        for batch in loader:
            for row, index in enumerate(batch.indices.tolist()):
                if index not in chosen:
                    continue
                one = shown[2 * chosen.index(index) + (epoch == 5)]
                assert batch.frames is not None
                assert batch.frames[row].tolist() == one.numbers.tolist()
                assert batch.keys[row].startswith(one.key)
                assert one.label in one.key
                for view, strip in zip(batch.views, one.views, strict=True):
                    expected = (255 * view[row]).round().permute(0, 2, 3, 1).numpy()
                    assert np.abs(np.stack(strip.frames) - expected).max() <= 1
                frames = np.array(decode_all(folder / one.key)[1]).astype(int)
                gaps = np.abs(frames[one.numbers] - np.stack(one.source)).mean(axis=(1, 2, 3))
                assert gaps.max() < 2  # rounding of colours
                assert any("times as fast" in text for text in one.views[0].words)
    assert not np.array_equal(shown[0].views[0].frames, shown[1].views[0].frames)


def test_held_frames_have_the_number_of_the_one_shown(tmp_path: Path) -> None:
    """Frames whose packets are destroyed show the last good one before them, and its number."""
    path = tmp_path / "a.mp4"
    write_video(path, pan(12, SIZE), gop=1)
    data, info = path.read_bytes(), scan_video(path.read_bytes())
    for frame in (4, 5, 9):
        packet = int(info.frame_packets[frame])
        offset, size = int(info.packet_offsets[packet]), int(info.packet_sizes[packet])
        data = data[:offset] + bytes(size) + data[offset + size :]
    path.write_bytes(data)
    clips = Clips(
        VideoFolderDataset(tmp_path), num_frames=12, stride=1, on_damaged_video="truncate"
    )

    [one] = clip_pictures(clips, Recipe([CenterCrop(48)]))

    assert one.numbers.tolist() == [0, 1, 2, 3, 3, 3, 6, 7, 8, 8, 10, 11]
    assert np.array_equal(one.source[4], one.source[3])
    said = texts(render_strips([one]))
    assert [text.split()[0] for text in said if text.startswith("#")] == [
        f"#{one.numbers[frame]}" for frame in shown_frames(12)
    ]


def test_engines_show_every_view(videos: VideoFolderDataset) -> None:
    """Strips of every view of each pair that runs, the frames those of the first."""
    clips = Clips(videos.take([2]), num_frames=3, stride=2)

    [one], missing = clip_engines(clips, VIEWS, numbers=[2], seed=SEED, epoch=1)

    names = [strip.name for strip in one.views]
    assert names[-2:] == ["cpu+fused, view 1 of 2", "cpu+fused, view 2 of 2"]
    assert len(names) + 2 * len(missing) == 12
    for strip in one.views[2:]:
        assert strip.words[0].startswith(("equals ", "differs from "))
    [alone] = clip_pictures(clips, VIEWS, numbers=[2], seed=SEED, epochs=[1], engine="kornia")
    for strip, same in zip(one.views, alone.views, strict=False):
        assert np.abs(np.stack(strip.frames).astype(int) - np.stack(same.frames)).max() <= 1


def test_strips_show_the_first_and_the_last_frame(videos: VideoFolderDataset) -> None:
    """At most eight frames beside each other, and every view below."""
    clips = Clips(videos.take([0]), num_frames=20, stride=1)
    [one] = clip_pictures(clips, VIEWS, numbers=[0])

    page = render_strips([one])

    assert shown_frames(3) == [0, 1, 2]
    places = shown_frames(20)
    assert (len(places), places[0], places[-1]) == (8, 0, 19)
    shown = pictures(page)
    assert len(shown) == 3 * 8
    # The first picture is the first frame, enlarged by whole pixels.
    assert np.array_equal(shown[0][::2, ::2], one.source[0])
