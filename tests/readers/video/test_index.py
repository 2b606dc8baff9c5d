"""An index of videos is built once, fits what it was built of, and tells what a scan tells."""

import os
import pickle
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import readers.video.index as index_module
from bench.cli import main
from bench.cli.options import ExecutionOptions, SourceOptions
from bench.cli.prepare import index as print_index
from dali_pipes import Clips, Loader
from gpu_aug import CenterCrop, Recipe
from readers import SourceError, mix, open_dataset
from readers.prepare.inspection.kind import holds_videos
from readers.storage.side_file import DamagedFileError
from readers.video import (
    FrameFolderDataset,
    VideoError,
    VideoFolderDataset,
    VideoIndex,
    VideoInfo,
    scan_video,
)
from readers.video.store import Store, StoreWriter
from tests.support.damage import flip, overwrite
from tests.support.forks import forks
from tests.support.videos import pan, write_video

CODECS = ("libx264", "mpeg4", "libvpx")


@pytest.fixture
def videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three videos, a text that is called one, and one that is cut off."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "videos"
    root.mkdir()
    for number, codec in enumerate(CODECS):
        ending = "webm" if codec == "libvpx" else "mp4"
        path = root / f"{number}.{ending}"
        write_video(path, pan(6 + number, (32, 48)), codec=codec, audio=number == 0)
    (root / "3.mp4").write_text("no video")
    (root / "4.mp4").write_bytes((root / "1.mp4").read_bytes()[:-600])
    return root


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of everything that is looked through while the test runs."""
    seen: list[int] = []

    def scan(data: Any) -> VideoInfo:
        seen.append(len(data))
        return scan_video(data)

    monkeypatch.setattr(index_module, "scan_video", scan)
    return seen


def same(first: VideoInfo | VideoError, second: VideoInfo | VideoError) -> bool:
    if isinstance(first, VideoError) or isinstance(second, VideoError):
        return str(first) == str(second)
    ours, theirs = (
        {name: info.__dict__[name] for name in info.__dataclass_fields__}
        for info in (first, second)
    )
    return all(np.array_equal(ours[name], theirs[name]) for name in ours)


def scanned(path: Path) -> VideoInfo | VideoError:
    try:
        return scan_video(path.read_bytes())
    except VideoError as error:
        return error


def test_index_tells_what_a_scan_tells(videos: Path) -> None:
    """Every field of every video, built and opened again; a bad video has its reason."""
    dataset = VideoFolderDataset(videos)
    expected = [scanned(path) for path in sorted(videos.iterdir())]
    for _ in range(2):
        index = VideoIndex.open(dataset)

        assert len(index) == 5
        assert all(same(index[at], expected[at]) for at in range(5))
        assert not same(index[0], expected[1])
        assert index.num_frames.tolist() == [6, 7, 8, 0, 0]
        assert index.sizes.tolist() == [[32, 48]] * 3 + [[0, 0]] * 2
        assert np.isnan(index.segment_seconds).all()
    assert isinstance(expected[3], VideoError)
    assert index.path == videos.with_name("videos.gpuaug-videos")


def test_built_once(videos: Path, scans: list[int]) -> None:
    """What was built is used by whoever comes next; progress goes from nothing to all."""
    told: list[tuple[int, int]] = []
    first = VideoIndex.open(
        VideoFolderDataset(videos), progress=lambda done, total: told.append((done, total))
    )
    again = VideoIndex.open(open_dataset(videos), progress=lambda *_: pytest.fail("built again"))

    assert (len(scans), told) == (5, [(done, 5) for done in range(6)])
    assert again.num_frames.tolist() == first.num_frames.tolist()


def test_built_anew_when_it_does_not_fit(videos: Path, scans: list[int]) -> None:
    """Another video, or one of the same size with other bytes at its beginning, is another index."""
    before = VideoIndex.open(VideoFolderDataset(videos)).num_frames.tolist()
    write_video(videos / "5.mp4", pan(4, (32, 48)))
    more = VideoIndex.open(VideoFolderDataset(videos))

    assert (len(more), len(scans)) == (6, 11)
    assert more.num_frames.tolist() != before
    overwrite(videos / "0.mp4", 0, b"\0\0\0\0zzzz")
    other = VideoIndex.open(VideoFolderDataset(videos))

    assert (len(scans), other.num_frames[0]) == (17, 0)


@pytest.mark.parametrize("place", ["head", "rows", "end"])
def test_damaged_file_is_built_anew(videos: Path, scans: list[int], place: str) -> None:
    """A bit that fell over, and a file that was cut off, are noticed when it is opened."""
    file = VideoIndex.open(VideoFolderDataset(videos)).path
    if place == "end":
        os.truncate(file, file.stat().st_size - 1)
    else:
        flip(file, {"head": 20, "rows": -500}[place], 1)
    index = VideoIndex.open(VideoFolderDataset(videos))

    assert len(scans) == 10
    assert same(index[0], scanned(videos / "0.mp4"))


def test_damaged_block_is_looked_up_in_the_video(videos: Path, scans: list[int]) -> None:
    """Blocks are checked when they are used; what is damaged comes from the video again."""
    file = VideoIndex.open(VideoFolderDataset(videos)).path
    flip(file, int(Store(file, VideoFolderDataset(videos).fingerprint).rows["block"][1]) + 9, 1)
    index = VideoIndex.open(VideoFolderDataset(videos))

    assert same(index[1], scanned(videos / "1.mp4"))
    assert len(scans) == 6
    with pytest.raises(DamagedFileError):
        index.store.video(1)


def test_clips_of_one_file_are_looked_through_once(videos: Path, scans: list[int]) -> None:
    """A list that names a file three times scans it once, and has the seconds of each clip."""
    lines = "0.mp4 0 1 7\n1.mp4\n0.mp4 0.5 2\n0.mp4\n"
    (videos / "clips.txt").write_text(lines)
    index = VideoIndex.open(open_dataset(videos / "clips.txt"))

    assert (len(scans), index.num_frames.tolist()) == (2, [6, 7, 6, 6])
    expected = [[0, 1], [np.nan] * 2, [0.5, 2], [np.nan] * 2]
    np.testing.assert_array_equal(index.segment_seconds, expected)
    assert index.path.name == "clips.txt.gpuaug-videos"
    assert same(index[2], index[0])


def test_selection_uses_the_index_of_the_whole(videos: Path, scans: list[int]) -> None:
    """Half of the videos build the index of all; a few build their own, where there is none."""
    dataset = VideoFolderDataset(videos)
    few = VideoIndex.open(dataset.take([2, 0]))
    assert len(scans) == 2
    most = VideoIndex.open(dataset.take([2, 1, 0]).take([0, 2]))
    assert len(scans) == 7
    again = VideoIndex.open(dataset.take([1, 2]))

    assert (len(scans), few.num_frames.tolist(), most.num_frames.tolist()) == (7, [8, 6], [8, 6])
    assert again.num_frames.tolist() == [7, 8]
    assert same(again[0], scanned(videos / "1.mp4"))


def test_cache_folder(videos: Path, tmp_path: Path) -> None:
    """Where nothing can be written beside the videos it lies in GPU_AUG_CACHE."""
    (videos.parent / "videos.gpuaug-videos.part").mkdir()  # no file can be made there
    index = VideoIndex.open(VideoFolderDataset(videos))

    assert index.path.parent == tmp_path / "cache"
    assert VideoIndex.open(VideoFolderDataset(videos)).path == index.path


def test_pickled(videos: Path) -> None:
    """Another process has the same index, and builds it where the file is not."""
    index = VideoIndex.open(VideoFolderDataset(videos))
    index.num_frames  # noqa: B018  # with whatever is kept
    again = pickle.loads(pickle.dumps(index))
    elsewhere = pickle.loads(pickle.dumps(index))
    assert same(again[1], index[1])
    index.path.unlink()

    assert again.num_frames.tolist() == index.num_frames.tolist()
    assert same(elsewhere[2], scanned(videos / "2.webm"))


PROCESS = """
from readers.video import VideoFolderDataset, VideoIndex

def run(folder):
    built = []
    index = VideoIndex.open(VideoFolderDataset(folder), progress=lambda done, _: built.append(done))
    return f"{len(built)} {index.num_frames.tolist()}"
"""


def test_many_processes_build_it_once(videos: Path) -> None:
    """Of four that open it at once, one builds, and all have the same."""
    with forks(PROCESS) as processes:
        for _ in range(4):
            processes.start(videos)
        answers = processes.answers()

    assert sorted(built for built, *_ in answers) == ["0", "0", "0", "6"]
    assert {" ".join(rest) for _, *rest in answers} == {"[6, 7, 8, 0, 0]"}


def fake_info(number: int, num_frames: int) -> VideoInfo:
    steps = np.arange(num_frames, dtype=np.int64)
    return VideoInfo(
        *("mov", "h264", "h264", "avc1", b"extra"),
        *(240 + number % 7, 320, 0, "yuv420p", 2, False, Fraction(1, 25), 1, False, ""),
        packet_pts=steps + number,
        packet_offsets=steps * 1000,
        packet_sizes=np.full(num_frames, 999, np.int32),
        keyframes=steps[::12],
    )


def test_long_index_is_mapped(tmp_path: Path) -> None:
    """Of 4,000 videos what is in memory is their rows; packets are views into the file."""
    path, count, num_frames = tmp_path / "a", 4_000, 30
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    writer = StoreWriter(descriptor, count)
    for number in reversed(range(count)):
        writer.add(number, fake_info(number, num_frames), 1)
    writer.finish("f" * 32)
    os.close(descriptor)
    store = Store(path, "f" * 32)
    found = store.video(2_345)

    assert len(pickle.dumps(store.rows)) < path.stat().st_size / 4
    assert same(found, fake_info(2_345, num_frames))
    for table in (found.packet_pts, found.packet_offsets, found.packet_sizes, found.keyframes):
        assert not table.flags.owndata
        assert not table.flags.writeable
    assert store.rows["num_frames"].sum() == count * num_frames
    with pytest.raises(DamagedFileError, match="other data"):
        Store(path, "e" * 32)


def test_rewritten_frame_folder(tmp_path: Path, jpeg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of other sizes under the same names are noticed by the first one; a folder without any is a bad video."""
    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "frames" / "x"
    for height in (24, 30):
        for name in ("a", "b", "c"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            for number in (1, 2):
                (folder / name / f"img_{number:05d}.jpg").write_bytes(jpeg(height, 36))
        (folder / "d").mkdir(exist_ok=True)
        dataset = open_dataset(tmp_path / "frames")
        few, index = VideoIndex.open(dataset.take([2])), VideoIndex.open(dataset)

        assert few.sizes.tolist() == [[height, 36]]
        assert (index.sizes.tolist(), index.num_frames.tolist()) == (
            [[height, 36]] * 3 + [[0, 0]],
            [2, 2, 2, 0],
        )
        assert same(index[1], dataset.info(1))
        assert str(index[3]) == "its folder holds no pictures"


def test_errors_of_the_dataset_are_its_own(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks off while videos are read is not told as a path that cannot be written."""
    dataset = VideoFolderDataset(videos)
    path = VideoIndex.open(dataset).path
    read = VideoFolderDataset.fetch

    def fetch(*_: Any) -> Any:
        monkeypatch.setattr(VideoFolderDataset, "fetch", read)  # it breaks off once
        raise ConnectionResetError("the peer went away")

    for _ in range(2):  # with an index that is to be probed, and without
        monkeypatch.setattr(VideoFolderDataset, "fetch", fetch)
        with pytest.raises(ConnectionResetError, match="the peer went away"):
            VideoIndex.open(dataset)
        path.unlink(missing_ok=True)


def test_video_that_could_not_be_read_is_looked_up_again(videos: Path, scans: list[int]) -> None:
    """A file that was away while the index was built is there when it is; a bad one is not scanned again."""
    away = videos.with_name("away")
    dataset = VideoFolderDataset(videos)
    sizes = dataset.fingerprint  # of all five
    (videos / "1.mp4").rename(away)
    index = VideoIndex.open(dataset)
    missing = index[1]
    away.rename(videos / "1.mp4")

    assert len(sizes) == 32
    assert isinstance(missing, VideoError)
    assert "No such file" in str(missing)
    assert same(index[1], scanned(videos / "1.mp4"))
    assert len(scans) == 5
    assert isinstance(index[3], VideoError)
    assert len(scans) == 5


def test_samples_without_a_video(tmp_path: Path, jpeg: Any) -> None:
    """A dataset of images has an index in which everything is bad, and says what there is instead."""
    (tmp_path / "a.jpg").write_bytes(jpeg(24, 36))
    index = VideoIndex.open(open_dataset(tmp_path))

    assert str(index[0]) == "it has no field with a video, only jpg"


def test_columns_of_images_are_no_videos(
    tmp_path: Path, jpeg: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the column is called; those of videos are."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    video = write_video(tmp_path / "v.mp4", pan(6, (32, 48))).read_bytes()
    for name, data, expected in (
        ("image", jpeg(24, 36), False),
        ("anything", jpeg(24, 36), False),
        ("anything", video, True),
        ("video", video, True),
    ):
        parquet.write_table(pyarrow.table({name: [data]}), tmp_path / "a.parquet")
        assert holds_videos(open_dataset(tmp_path / "a.parquet")) == expected
        print_index(
            str(tmp_path / "a.parquet"), source=SourceOptions(), execution=ExecutionOptions()
        )
        assert ("1 of 1 can be read" in capsys.readouterr().out) == expected


def test_command_tells_what_there_is(videos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers of videos and frames, codecs, sizes, sound, and the bad ones with their reasons."""
    print_index(str(videos), source=SourceOptions(), execution=ExecutionOptions())
    told = capsys.readouterr().out

    for text in (
        *("3 of 5 can be read", "frames", "21", "h264 (1), mpeg4 (1), vp8 (1)", "48x32 (3)"),
        *("25 at the median, 25 to 25", "bad: 3.mp4: FFmpeg: Invalid data", "gpuaug-videos"),
    ):
        assert text in told
    assert "bad: 4.mp4:" in told


def test_peculiar_videos_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is turned, interlaced, of variable rate, or has several streams is said by explain and by the commands."""
    frames = pan(8, (48, 64))
    folder = tmp_path / "data"
    folder.mkdir()
    write_video(folder / "plain.mp4", frames)
    write_video(folder / "interlaced.mp4", frames, options={"x264-params": "tff=1"})
    write_video(folder / "turned.mp4", frames, rotation=90)
    write_video(folder / "variable.mp4", frames, pts=[512 * n * n for n in range(8)])
    with av.open(str(folder / "plain.mp4")) as read, av.open(str(folder / "two.mkv"), "w") as write:
        streams = [write.add_stream_from_template(read.streams.video[0]) for _ in range(2)]
        for packet in read.demux(video=0):
            for stream in streams if packet.size else []:
                packet.stream = stream
                write.mux(packet)
    clips = Clips(open_dataset(folder), num_frames=2, stride=1)
    recipe = Recipe([CenterCrop(32)])
    explained = Loader(clips, recipe, batch_size=1, device="cpu").explain()
    mixed = mix([clips.take([0, 1]), clips])
    print_index(str(folder), source=SourceOptions(), execution=ExecutionOptions())
    indexed = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["inspect", str(folder)])
    inspected = capsys.readouterr().out

    for name in ("interlaced", "turned", "variable rate", "several streams"):
        assert f"videos: {name}: 1: " in explained
        assert re.search(rf"{name} +1: ", indexed)
        assert re.search(rf"{name} +1: ", inspected)
    assert "all stream 0" in inspected
    assert "slow" not in explained
    assert "videos: turned: 2: " in Loader(mixed, recipe, batch_size=1, device="cpu").explain()


@pytest.mark.parametrize("fps", ["x", None, 0, -1, float("nan"), float("inf"), 1e-9])
def test_rates_that_cannot_be(tmp_path: Path, fps: object) -> None:
    """What is no positive number is refused in words."""
    with pytest.raises(
        SourceError, match="fps must be a positive number of frames per second, got"
    ):
        FrameFolderDataset(tmp_path, fps=fps)  # type: ignore[arg-type]


def test_index_of_the_folder_above_lies_beside_it(
    videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``..`` is another name of the folder; its index does not lie in it."""
    (videos / "notes").mkdir()
    monkeypatch.chdir(videos / "notes")

    assert VideoIndex.open(open_dataset("..")).path == videos.with_name("videos.gpuaug-videos")
