"""Decoded frames that windows and batches share: each group is decoded once, and nothing else depends on what is in the cache."""

import os
import random
import threading
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

import dali_pipes.video.codec
import dali_pipes.video.decode
from dali_pipes import Clips, Execution, Loader, LoaderError
from dali_pipes.errors import DecodeError
from dali_pipes.video.clips import OnDamagedVideo
from dali_pipes.video.decode import read_frames
from dali_pipes.video.frame_cache import FrameCache, SharedVideo
from gpu_aug import CenterCrop, Recipe, Resize
from readers import open_dataset
from readers.video import VideoFolderDataset, VideoInfo, scan_video
from tests.support.lerobot import TOP, WRIST, Robot
from tests.support.planes import planes
from tests.support.videos import pan, write_video

SIZE, NUM_FRAMES = (48, 64), 30
CODECS: dict[str, dict[str, Any]] = {
    "h264 open": {"options": {"x264-params": "open-gop=1:bframes=3"}},
    "h264 g=2": {"gop": 2, "options": {"bf": "0"}},
    "hevc": {"codec": "libx265", "options": {"x265-params": "log-level=none:bframes=3"}},
    "av1": {"codec": "libsvtav1", "options": {"preset": "12"}},
}
CROP = Recipe([CenterCrop(SIZE)])
WINDOWS = {TOP: [-0.2, -0.1, 0.0, 0.1], WRIST: [0.0, 0.1]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A robot of two cameras, whose keyframes are six frames apart."""
    return Robot(sizes={TOP: SIZE, WRIST: SIZE}, gop=6).write(tmp_path_factory.mktemp("robot"))


@pytest.fixture(scope="module", params=CODECS)
def video(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[bytes, VideoInfo, dict[int, bytes]]:
    """A video, what is known of it, and its frames by a decode from the beginning."""
    path = tmp_path_factory.mktemp("video") / "a.mp4"
    write_video(path, pan(NUM_FRAMES, SIZE), **{"gop": 10, **CODECS[request.param]})
    data = path.read_bytes()
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "NONE"
        truth = {number: planes(frame) for number, frame in enumerate(container.decode(video=0))}
    return data, scan_video(data), truth


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """The runs that are decoded: size of the file, first packet, packet after the last."""
    noted: list[tuple[int, int, int]] = []
    real = dali_pipes.video.decode.decode_run

    def decode_run(data: Any, info: Any, run: Any, deadline: Any) -> Any:
        noted.append((len(data), run.start, run.stop))
        return real(data, info, run, deadline)

    monkeypatch.setattr(dali_pipes.video.decode, "decode_run", decode_run)
    return noted


def load(dataset: Any, recipe: Recipe = CROP, **options: Any) -> Loader:
    """A loader that gives all samples of a dataset in order, as bytes."""
    how: dict[str, Any] = {"dtype": torch.uint8, "device": "cpu", "num_threads": 2, **options}
    cache_bytes = how.pop("cache_bytes", 1 << 24)
    how["execution"] = Execution(
        frame_cache_bytes=cache_bytes, helper_process=how.pop("helper_process", False)
    )
    return Loader.eval(dataset, recipe, **{"batch_size": 4, **how})


def images_of(loader: Loader) -> torch.Tensor:
    with loader:
        return torch.cat([batch.images.clone() for batch in loader])


@pytest.mark.parametrize("batch_size", [14, 3])
@pytest.mark.parametrize("num_threads", [1, 2, 4])
def test_each_group_is_decoded_once(
    root: Path, batch_size: int, num_threads: int, runs: list[tuple[int, int, int]]
) -> None:
    """Windows of one batch and of later ones, and both threads, share the frames; the second epoch decodes nothing."""
    robot = open_dataset(root, delta_timestamps=WINDOWS)
    with load(robot, batch_size=batch_size, num_threads=num_threads) as loader:
        first = torch.cat([batch.images.clone() for batch in loader])
        packets = [(size, n) for size, start, stop in runs for n in range(start, stop)]
        if batch_size == 14:
            assert len(packets) == len(set(packets)) == 2 * 14
        # 14 windows of 6 frames, without the frames that are held at the ends of episodes.
        frames = loader.stats("run").frames
        assert (frames.cache_hits + frames.cache_misses, frames.cache_hits > 0) == (
            69,
            True,
        )
        known = len(runs)
        assert torch.equal(torch.cat([batch.images for batch in loader]), first)
        assert len(runs) == known
        again = loader.stats().frames
        assert (again.cache_misses, "(100%)" in repr(loader.stats())) == (0, True)


@pytest.mark.parametrize(
    "options",
    [
        {"num_threads": 1},
        {"num_threads": 4},
        {"cache_bytes": 0},
        {"cache_bytes": 60_000},
        {"batch_size": 1},
        pytest.param({"helper_process": 2}, marks=pytest.mark.long),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_batches_do_not_depend_on_the_cache(
    root: Path, options: dict[str, Any], dtype: torch.dtype
) -> None:
    """Threads, helper processes, other batches and caches, as none or one for a few frames, give the same images."""
    robot = open_dataset(root, delta_timestamps=WINDOWS)
    assert torch.equal(
        images_of(load(robot, dtype=dtype, **options)), images_of(load(robot, dtype=dtype))
    )


@pytest.mark.parametrize("limit_bytes", [0, 3 * 4608, 5 * 4608, 1 << 24])
def test_frames_are_those_of_a_decode_from_the_beginning(
    video: tuple[bytes, VideoInfo, dict[int, bytes]], limit_bytes: int
) -> None:
    """Whatever was read before, the cache has the right frames, or none; and never more bytes than it may."""
    data, info, truth = video
    cache, chance, num_read = FrameCache(limit_bytes), random.Random(0), 0
    for _ in range(12):
        rows = [np.unique(chance.choices(range(NUM_FRAMES), k=3)) for _ in range(3)]
        shared = SharedVideo(cache, "a", info)
        for row in rows:
            shared.want(row)
        for row in rows:
            for frame, picture, _ in shared.read(data, row):
                assert frame in row
                assert planes(picture) == truth[frame]
                num_read += 1
            assert cache.held_bytes <= limit_bytes
    assert (num_read > 0) == (limit_bytes > 3 * 4608)


def test_used_decoders_give_the_same_frames(
    video: tuple[bytes, VideoInfo, dict[int, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decoder is used again, for other groups and the same; after an error, a new one is made."""
    data, info, truth = video
    made: list[Any] = []
    real = dali_pipes.video.codec._prepared
    monkeypatch.setattr(
        dali_pipes.video.codec, "_prepared", lambda *given: made.append(real(*given)) or made[-1]
    )
    dali_pipes.video.codec._kept_decoders().clear()
    chance = random.Random(1)
    packet = int(info.frame_packets[12])
    offset, size = int(info.packet_offsets[packet]), int(info.packet_sizes[packet])
    broken = data[:offset] + bytes(size) + data[offset + size :]
    for number in range(20):
        frames = np.unique(chance.choices(range(NUM_FRAMES), k=3))
        if number == 10:
            with pytest.raises(DecodeError):
                dict(read_frames(broken, info, np.array([12])))
        found = {frame: planes(picture) for frame, picture in read_frames(data, info, frames)}
        assert found == {frame: truth[frame] for frame in frames.tolist()}
    assert len(made) < 20


def overwritten(path: Path, info: VideoInfo, frame: int) -> None:
    """Put zeros in the place of a frame's packet; the index of the videos does not notice."""
    before, data = path.stat(), bytearray(path.read_bytes())
    packet = int(info.frame_packets[frame])
    offset, size = int(info.packet_offsets[packet]), int(info.packet_sizes[packet])
    data[offset : offset + size] = bytes(size)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def verdicts(loader: Loader) -> tuple[Any, ...]:
    """The samples that are good, with their frames and images, and the reasons of the others."""
    rows = [
        (index, frames, images)
        for batch in loader
        for index, frames, images in zip(
            batch.indices.tolist(), batch.frames.tolist(), batch.images.tolist(), strict=True
        )
    ]
    reasons = {(record.index, record.reason) for record in loader.bad_samples}
    return rows, sorted(reasons)


@pytest.mark.parametrize("codec", ["h264 open", "hevc", "av1"])
@pytest.mark.parametrize("on_damaged_video", ["raise", "truncate"])
def test_verdicts_do_not_depend_on_the_cache(
    tmp_path: Path, codec: str, on_damaged_video: OnDamagedVideo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a damaged video the same clips are bad, for the same reasons, with a cold and a warm cache, and with none."""
    monkeypatch.setenv(
        "GPU_AUG_COPIED_BYTES", "0"
    )  # short files are mapped, too, and have a version
    path = write_video(tmp_path / "a.mp4", pan(NUM_FRAMES, SIZE), **{"gop": 10, **CODECS[codec]})
    clips = Clips(
        VideoFolderDataset(tmp_path),
        num_frames=4,
        stride=1,
        sampling="uniform",
        clips_per_video=9,
        on_damaged_video=on_damaged_video,
    )
    overwritten(path, scan_video(path.read_bytes()), 14)
    how: dict[str, Any] = {"on_bad_sample": "skip", "max_bad_samples": 9}
    with load(clips, cache_bytes=0, batch_size=1, **how) as loader:
        expected = verdicts(loader)
    assert expected[1]
    for batch_size in (1, 4, 9):
        with load(clips, batch_size=batch_size, **how) as loader:
            assert verdicts(loader) == expected
            assert verdicts(loader) == expected
            assert loader.stats().frames.cache_hits > 0


def test_changed_file_is_decoded_again(tmp_path: Path) -> None:
    """Frames of a file that changed or was deleted since they were decoded are not shown."""
    robot = Robot(sizes={TOP: SIZE}, files=((0, 1, 2),))
    path = robot.write(tmp_path) / f"videos/{TOP}/chunk-000/file-000.mp4"
    info = scan_video(path.read_bytes())
    with load(open_dataset(tmp_path), on_bad_sample="skip", max_bad_samples=14) as loader:
        assert [index for batch in loader for index in batch.indices.tolist()] == [*range(14)]
        overwritten(path, info, 4)
        assert not {4, 5} & {index for batch in loader for index in batch.indices.tolist()}
        path.unlink()
        assert sum(len(batch) for batch in loader) == 0


def test_threads_never_decode_a_group_twice(
    video: tuple[bytes, VideoInfo, dict[int, bytes]], runs: list[tuple[int, int, int]]
) -> None:
    """Of threads that want the same frames at once, one decodes a group, and the others get its frames."""
    data, info, truth = video
    shared, frames = SharedVideo(FrameCache(), "a", info), np.arange(NUM_FRAMES)
    shared.want(frames)
    found: list[dict[int, bytes]] = []
    begin = threading.Barrier(4)

    def read() -> None:
        begin.wait()
        found.append({frame: planes(picture) for frame, picture, _ in shared.read(data, frames)})

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [truth] * 4
    starts = [start for _, start, _ in runs]
    assert len(starts) == len(set(starts)) == len(info.keyframes)


@pytest.mark.parametrize("number", [-1, 0.5, True])
def test_limits_that_are_none_are_refused(number: Any) -> None:
    """The limit is a count of bytes; 0 keeps nothing."""
    with pytest.raises(LoaderError, match="frame_cache_bytes"):
        Execution(frame_cache_bytes=number)


def test_resized_windows_come_from_the_cache(root: Path) -> None:
    """A recipe that resizes gets the same frames from the cache."""
    robot, small = open_dataset(root, delta_timestamps=WINDOWS), Recipe([Resize((16, 24))])
    assert torch.equal(images_of(load(robot, small)), images_of(load(robot, small, cache_bytes=0)))
