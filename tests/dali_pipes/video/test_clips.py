"""Clips: which frames they are made of, from any batch, rank, selection and machine."""

import errno
import io
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from dali_pipes import BadSampleError, Batch, LoaderError, StateMismatchError
from dali_pipes.video.clips import Clips
from dali_pipes.video.sampling import (
    ByStride,
    ByTime,
    choose_frames,
    clip_start,
    frame_offsets,
    read_rate,
)
from dali_pipes.video.scores import ViewMean
from dali_pipes.video.source import clip_seconds
from gpu_aug import Recipe, Resize
from gpu_aug.ops.temporal import SPEED_UNIT
from readers import BadSample, Dataset, Sample, SelectionError, open_dataset
from readers.datasets.mixture import mix
from readers.video import (
    ClipListDataset,
    FrameFolderDataset,
    VideoError,
    VideoFolderDataset,
    VideoIndex,
)
from readers.video.info import Segment, cut
from tests.support.loaders import loader_maker
from tests.support.small import make_small
from tests.support.tars import write_samples
from tests.support.videos import pan, write_frames, write_video

SIZE = (32, 48)
TINY = Recipe([Resize((8, 8))])
LENGTHS = {"a/long.mp4": 40, "a/short.mp4": 5, "b/long.mp4": 33, "b/uneven.mp4": 18}
UNEVEN = np.cumsum([0, *([300, 900, 512] * 6)])[:18]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> VideoFolderDataset:
    """Four videos of two classes; one has frames that are shown 300, 900 and 512 / 12800 s in turn."""
    root = tmp_path_factory.mktemp("videos")
    for seed, (name, length) in enumerate(LENGTHS.items()):
        (root / name).parent.mkdir(exist_ok=True)
        pts = UNEVEN.tolist() if "uneven" in name else None
        write_video(root / name, pan(length, SIZE, seed=seed), pts=pts)
    return VideoFolderDataset(root)


@pytest.fixture
def clip_list(videos: VideoFolderDataset, tmp_path: Path) -> Iterator[Any]:
    """Makes lists of clips of these videos, at 25 frames a second."""
    written: list[Path] = []

    def make(*lines: str) -> ClipListDataset:
        path = tmp_path / f"{len(written)}.txt"
        for name in LENGTHS:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            [number] = [n for n in range(4) if videos.fetch([n])[0].key == name]
            (tmp_path / name).write_bytes(bytes(videos.fetch([number])[0].fields["mp4"]))
        path.write_text("\n".join(lines))
        written.append(path)
        return ClipListDataset(path)

    return make


def frames_of(clips: Clips, seed: int = 0, epoch: int = 0) -> list[list[int]]:
    indices = np.arange(len(clips))
    return clips.frames(seed, epoch, indices, np.zeros_like(indices)).tolist()


def chosen_of(dataset: Dataset, num_frames: int, /, **options: Any) -> list[list[int]]:
    """The frames of all clips of a dataset of videos in epoch 0."""
    return frames_of(Clips(dataset, num_frames=num_frames, **options))


load = loader_maker(
    TINY, batch_size=3, dtype=torch.float32, decoder="auto", num_threads=None, last_batch="partial"
)


def batches(*given: Any, **options: Any) -> list[Batch]:
    with load(*given, **options) as loader:
        return list(loader)


def chosen(found: Sequence[Batch]) -> dict[str, list[int]]:
    """The frames of each clip, by its key."""
    return {
        key: frames
        for batch in found
        for key, frames in zip(batch.keys, batch.frames.tolist(), strict=True)
    }


def clip_at(rate: Any, segment: Segment, num_frames: int, start: Any, padding: Any) -> Any:
    """Frames of a clip; `start` is the position where it begins, or is called with the last one at which it fits."""
    offsets = frame_offsets(rate, segment, num_frames, SPEED_UNIT)
    begin = start(rate.length(segment) - 1 - offsets[-1]) if callable(start) else start
    return choose_frames(rate, segment, [begin + offset for offset in offsets], padding)


def random_start(word: int) -> Any:
    return lambda room: clip_start("random", room, 0, 1, word)


def uniform_start(number: int, count: int) -> Any:
    return lambda room: clip_start("uniform", room, number, count, 0)


def segment_of(count: int) -> Segment:
    """Frames 1/25 s apart."""
    return Segment(0, np.arange(count), count, Fraction(1, 25))


class _IndicesError(Exception):
    """Carries what a sampler of torchcodec would decode."""


class _Decoder:
    """Has the length of a video, as far as the samplers of torchcodec ask."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def get_frames_at(self, indices: list[int]) -> None:
        raise _IndicesError([int(index) for index in indices])


class TestByStride:
    """Every so manyth frame."""

    @pytest.mark.parametrize("stride", [1, 3])
    @pytest.mark.parametrize("count", [2, 3, 10])
    @pytest.mark.parametrize("length", [22, 23, 100, 301])
    def test_uniform_clips_are_those_of_torchcodec(
        self, length: int, count: int, stride: int
    ) -> None:
        """Its linspace over all starts, rounded down."""
        samplers = pytest.importorskip("torchcodec.samplers", exc_type=(ImportError, RuntimeError))
        with pytest.raises(_IndicesError) as caught:
            samplers.clips_at_regular_indices(
                _Decoder(length),
                num_clips=count,
                num_frames_per_clip=8,
                num_indices_between_frames=stride,
            )
        theirs = np.array(caught.value.args[0]).reshape(count, 8)

        ours = [
            clip_at(ByStride(stride), segment_of(length), 8, uniform_start(number, count), "edge")
            for number in range(count)
        ]

        assert np.array_equal(ours, theirs)

    def test_random_clips_begin_wherever_they_fit(self) -> None:
        """At each of 0 to 9 equally often; the largest word reaches the last one, and no further."""
        words = np.linspace(0, 2**32 - 1, 5000).astype(np.int64).tolist()
        starts = [
            int(clip_at(ByStride(2), segment_of(16), 4, start, "edge")[0])
            for start in map(random_start, words)
        ]

        assert np.unique(starts, return_counts=True)[1].tolist() == [500] * 10
        assert (starts[0], starts[-1]) == (0, 9)

    @pytest.mark.parametrize(
        ("given", "start", "padding", "expected"),
        [
            # Eight frames, and a clip that goes 13 frames far.
            ((8, 5, 3), random_start(2**31), "edge", [0, 3, 6, 7, 7]),
            ((8, 5, 3), random_start(2**31), "loop", [0, 3, 6, 1, 4]),
            ((8, 5, 3), random_start(2**31), "repeat", [0, 1, 3, 4, 6]),
            # As with use_offset of SlowFast: half of the room, rounded down.
            ((17, 4, 2), uniform_start(0, 1), "edge", [5, 7, 9, 11]),
            # As SlowFast does: torch.linspace from the first to the last place, clamped to the video.
            (
                (20, 32, 2),
                0,
                "edge",
                torch.linspace(0, 31 * 2, 32).clamp(0, 20 - 1).long().tolist(),
            ),
        ],
        ids=["edge", "loop", "repeat", "middle", "slowfast"],
    )
    def test_clips_that_have_one_place(
        self, given: Any, start: Any, padding: Any, expected: list[int]
    ) -> None:
        """Short videos are padded, and one uniform clip lies in the middle."""
        length, num_frames, stride = given
        chosen = clip_at(ByStride(stride), segment_of(length), num_frames, start, padding)
        assert chosen.tolist() == expected


class TestByTime:
    """The frame that is shown at a moment."""

    TENTH = Fraction(1, 10)

    @pytest.mark.parametrize(
        ("start", "padding", "expected"),
        [
            (Fraction(0), "edge", [0, 1, 1, 1, 3]),  # 0, 0.25, 0.5, 0.75, 1 s
            (Fraction(2, 10), "edge", [1, 1, 1, 2, 3]),  # 0.2, 0.45, 0.7, 0.95, 1.2 s
            (Fraction(8, 10), "edge", [1, 3, 3, 3, 3]),  # 0.8, 1.05, 1.3, then beyond
            (Fraction(8, 10), "loop", [1, 3, 3, 0, 1]),  # the same, then 0.05 and 0.3 s
            (Fraction(8, 10), "repeat", [1, 1, 2, 2, 3]),
        ],
    )
    def test_uneven_frames(self, start: Fraction, padding: Any, expected: list[int]) -> None:
        """Four frames that begin at 0, 0.2, 0.9 and 1 s and end at 1.5 s, at 4 a second."""
        pts, fps = np.array([50, 52, 59, 60]), Fraction(4)
        segment = Segment(0, pts, 65, self.TENTH)
        begin = int(start / self.TENTH * ByTime(fps).unit(segment))

        chosen = clip_at(ByTime(fps), segment, 5, begin, padding)

        assert chosen.tolist() == expected

    def test_moments_on_frames_are_exact(self) -> None:
        """Moments 1001 / 30000 s apart meet frames so far apart; multiplied in float64 some miss theirs."""
        base, fps, num = Fraction(1, 30000), Fraction(30000, 1001), 20_000
        pts = np.arange(num) * 1001
        segment = Segment(0, pts, num * 1001, base)

        ours = clip_at(ByTime(fps), segment, num, 0, "edge")

        assert np.array_equal(ours, np.arange(num))
        floats = np.searchsorted(pts * (1 / 30000), np.arange(num) / (30000 / 1001), "right") - 1
        assert not np.array_equal(floats, np.arange(num))

    @pytest.mark.parametrize("fps", [Fraction(30000, 1001), Fraction(2997, 100), Fraction(15, 2)])
    def test_rates_are_fractions(self, fps: Fraction) -> None:
        """A float is taken as the fraction that it stands for."""
        assert read_rate(None, float(fps)) == ByTime(fps)

    def test_random_clips_fit(self) -> None:
        """The last moment lies before the end, as in clips_at_random_timestamps of torchcodec, but no sooner."""
        rate = ByTime(Fraction(10))
        first, last = (
            clip_at(rate, segment_of(50), 5, start, "edge").tolist()
            for start in map(random_start, (0, 2**32 - 1))
        )

        assert first == [0, 2, 5, 7, 10]
        assert last == [39, 42, 44, 47, 49]  # at 1.6 s, less a hair

    @pytest.mark.parametrize("fps", [Fraction(30000, 1001), Fraction(10)], ids=["ntsc", "ten"])
    def test_a_file_of_variable_rate(self, videos: VideoFolderDataset, fps: Fraction) -> None:
        """Against time stamps that PyAV decodes, compared one by one as fractions."""
        uneven = videos.take([3])
        file = io.BytesIO(bytes(uneven.fetch([0])[0].fields["mp4"]))
        with av.open(file) as container:
            stream = container.streams.video[0]
            shown = [frame.pts * stream.time_base for frame in container.decode(stream)]
        moments = [Fraction(n) / fps for n in range(12)]
        expected = [
            max(place for place, begin in enumerate(shown) if begin - shown[0] <= moment)
            for moment in moments
        ]

        assert chosen_of(uneven, 12, fps=float(fps), sampling="first") == [expected]
        assert chosen_of(uneven, 12, stride=1, sampling="first") != [expected]


class TestSampling:
    """How clips are taken from each video."""

    @pytest.mark.parametrize("rate", [{"stride": 1}, {"fps": 25}], ids=["stride", "fps"])
    def test_all_covers_every_frame(self, videos: VideoFolderDataset, rate: dict[str, Any]) -> None:
        """40, 5, 33 frames: clips of 8 follow each other, the last one holds the last frame."""
        clips = Clips(videos.take(3), num_frames=8, sampling="all", **rate)

        assert [entry.key for entry in clips.fetch([0, 4, 5, 6, 10])] == [
            *("a/long.mp4#0", "a/long.mp4#4", "a/short.mp4#0", "b/long.mp4#0", "b/long.mp4#4")
        ]
        frames = frames_of(clips)
        assert np.ravel(frames[:5]).tolist() == list(range(40))
        assert frames[5] == [0, 1, 2, 3, 4, 4, 4, 4]
        assert np.ravel(frames[6:]).tolist() == [*range(33), *([32] * 7)]

    def test_all_with_a_stride_covers_the_time(self, videos: VideoFolderDataset) -> None:
        """33 frames, every third, four at a time: three clips of 12 frames each."""
        assert chosen_of(videos.take([2]), 4, stride=3, sampling="all", padding="loop") == [
            *([0, 3, 6, 9], [12, 15, 18, 21], [24, 27, 30, 0])
        ]

    def test_random_clips_are_drawn_anew(self, videos: VideoFolderDataset) -> None:
        """Others in every epoch, for every seed, and for each clip of a video; the first one stays."""
        clips = Clips(videos.take([0]), num_frames=4, stride=2, clips_per_video=3)

        drawn = [frames_of(clips), frames_of(clips, epoch=1), frames_of(clips, seed=1)]

        starts = [frames[0] for clip in drawn for frames in clip]
        assert len(set(starts)) >= 7
        assert all(np.diff(frames).tolist() == [2, 2, 2] for clip in drawn for frames in clip)
        first = Clips(videos.take([0]), num_frames=4, stride=2, sampling="first")
        assert frames_of(first) == frames_of(first, epoch=1) == [[0, 2, 4, 6]]

    def test_draws_are_pinned(self, videos: VideoFolderDataset) -> None:
        """A run that is resumed with a later version goes on with the same frames."""
        clips = Clips(videos, num_frames=3, stride=2, clips_per_video=2)
        by_time = Clips(videos, num_frames=3, fps=10)

        assert [frames[0] for frames in frames_of(clips, seed=5, epoch=2)] == [
            *(5, 34, 0, 0, 1, 15, 2, 8)
        ]
        assert by_time.frames(0, 0, np.arange(4), np.zeros(4, np.int64)).dtype == np.int64
        assert frames_of(by_time, seed=5, epoch=2) == [
            *([5, 7, 10], [0, 2, 4], [1, 3, 6], [11, 13, 16])
        ]


class _Retold:
    """A dataset whose samples say other seconds, under the same fingerprint."""

    def __init__(self, whole: Dataset, clip: bytes) -> None:
        self._whole, self._clip = whole, clip
        self.fingerprint, self.class_names = whole.fingerprint, whole.class_names

    def __len__(self) -> int:
        return len(self._whole)

    def fetch(self, indices: Any) -> list[Any]:
        found = self._whole.fetch(indices)
        return [replace(one, fields={**one.fields, "clip": self._clip}) for one in found]


class TestSegments:
    """Seconds of a video that a list names."""

    def test_frames_come_from_inside(self, clip_list: Any) -> None:
        """From 0.4 to 0.8 s there are the frames 10 to 19; a tenth of a second is one exactly."""
        listed = clip_list("a/long.mp4 0.4 0.8 0", "b/long.mp4 0.1 0.3 1")

        found = {
            frame
            for epoch in range(60)
            for frame in frames_of(Clips(listed, num_frames=3, stride=2), epoch=epoch)[0]
        }

        assert found == set(range(10, 20))
        inside = clip_list("a/long.mp4 0.41 0.51")  # frame 10 began before, and 13 begins after
        moment = clip_list("a/long.mp4 0.41 0.43")  # between two frames the first of them is shown
        last = clip_list(*(f"a/long.mp4 0.{k} 0.{k + 2}" for k in range(7))).take([6])
        for dataset, num_frames, options, expected in (
            (
                *(listed, 5, {"stride": 1, "sampling": "all"}),
                [[*range(10, 15)], [*range(15, 20)], [3, 4, 5, 6, 7]],
            ),
            (
                *(listed, 5, {"fps": 12.5, "sampling": "first", "padding": "loop"}),
                [[10, 12, 14, 16, 18], [3, 5, 7, 4, 6]],
            ),
            (inside, 4, {"stride": 1, "padding": "loop"}, [[11, 12, 11, 12]]),
            (moment, 2, {"stride": 1, "sampling": "first"}, [[10, 10]]),
            (moment, 2, {"fps": 50}, [[10, 10]]),
            (last, 3, {"stride": 1, "sampling": "first"}, [[15, 16, 17]]),
        ):
            assert chosen_of(dataset, num_frames, **options) == expected

    @pytest.mark.parametrize(
        ("seconds", "frames", "stop"),
        [
            ((0.40001, 0.48001), [11, 12], 6145),  # from 5120.128 to 6144.128 ticks of 1 / 12800 s
            ((0.39999, 0.399995), [9], 5120),  # frame 10 begins at 5120
        ],
        ids=["two", "none begins"],
    )
    def test_edges_between_ticks(
        self, videos: VideoFolderDataset, seconds: Any, frames: list[int], stop: int
    ) -> None:
        """A frame that begins a part of a tick before the start or the end is before it."""
        info = Clips(videos, num_frames=1, stride=1).info(0)
        segment = cut(info, seconds)

        assert list(range(segment.first, segment.first + len(segment.pts))) == frames
        assert segment.pts.tolist() == [512 * frame for frame in frames]
        assert segment.stop - segment.pts[0] == stop - 512 * frames[0]

    @pytest.mark.parametrize(
        "fields",
        [
            {"clip": b'{"start_seconds": 0.4, "end_seconds": 0.8}'},
            {"start_seconds": b"0.4", "end_seconds": b"0.8"},
        ],
        ids=["clip", "two"],
    )
    def test_fields_of_any_dataset_name_the_seconds(
        self, clip_list: Any, tmp_path: Path, fields: dict[str, bytes]
    ) -> None:
        """Shards have the frames of the list that names the same seconds; a sample without them all of its own."""
        listed = Clips(clip_list("a/long.mp4 0.4 0.8", "a/long.mp4"), num_frames=3, stride=2)
        video = (tmp_path / "a/long.mp4").read_bytes()
        shard = write_samples(
            tmp_path / "a.tar", {"a": {"mp4": video, **fields}, "b": {"mp4": video}}
        )
        clips = Clips(open_dataset(shard), num_frames=3, stride=2)

        epochs = range(9)
        assert [frames_of(clips, epoch=n) for n in epochs] == [
            frames_of(listed, epoch=n) for n in epochs
        ]
        assert {type(sample) for sample in clips.fetch([0, 1])} == {Sample}
        some = open_dataset(shard).take([0])
        assert chosen_of(some, 3, stride=2, sampling="first") == [[10, 12, 14]]

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            ({"clip": b'{"start_seconds": 2, "end_seconds": 1}'}, "0 <= start < end, got 2 and 1"),
            ({"clip": b'{"start_seconds": 2, "end_se'}, "its field clip is no JSON object"),
            ({"start_seconds": b"1"}, "start and end must be seconds, got 1 and None"),
            ({"clip": b'{"start_seconds": 9, "end_seconds": 10}'}, "its clip begins at 9 s, but"),
            ({"clip": b"[0.5, 0.25]"}, ""),  # of something else that is called so
            ({"start_seconds": b"null", "end_seconds": b"NaN"}, "got null and NaN"),
            ({"start_seconds": b"NaN", "end_seconds": b"NaN"}, ""),
        ],
    )
    def test_fields_that_are_no_seconds(
        self, videos: VideoFolderDataset, tmp_path: Path, fields: dict[str, bytes], reason: str
    ) -> None:
        """A bad sample says what is wrong; the whole video is taken where nothing is said."""
        video = bytes(videos.fetch([0])[0].fields["mp4"])
        shard = write_samples(tmp_path / "a.tar", {"a": {"mp4": video, **fields}})

        [entry] = Clips(open_dataset(shard), num_frames=3, stride=2).fetch([0])

        if reason:
            assert reason in entry.reason
        else:
            assert isinstance(entry, Sample)

    def test_seconds_that_change_under_the_index(
        self, videos: VideoFolderDataset, tmp_path: Path
    ) -> None:
        """The frames are chosen by the index; a sample that says something else since is bad."""
        video = bytes(videos.fetch([0])[0].fields["mp4"])
        shard = tmp_path / "a.tar"
        told = b'{"start_seconds": 0.4, "end_seconds": 0.8}'
        write_samples(shard, {"a": {"mp4": video, "clip": told}})
        dataset = open_dataset(shard)
        clips, other = (Clips(dataset, num_frames=3, stride=2, sampling="first") for _ in range(2))
        other.dataset = _Retold(dataset, told.replace(b"0.4", b"0.2"))

        before = frames_of(clips)
        [bad] = other.fetch([0])
        anew = Clips(other.dataset, num_frames=3, stride=2, sampling="first")

        assert "its clip is of the seconds (0.2, 0.8), but was of (0.4, 0.8) when" in bad.reason
        assert (before, frames_of(anew)) == ([[10, 12, 14]], [[5, 7, 9]])
        assert anew.fingerprint != clips.fingerprint

    def test_a_clip_behind_the_end_is_bad(self, clip_list: Any) -> None:
        """The video lasts 0.2 s; its neighbour is not taken along."""
        clips = Clips(clip_list("a/short.mp4 0.2 1", "a/long.mp4 1 9"), num_frames=2, stride=1)

        bad, good = clips.fetch([0, 1])

        assert (bad.reason, good.key) == (
            "its clip begins at 0.2 s, but the video lasts 0.2 s",
            "a/long.mp4@1.0-9.0#0",
        )
        with pytest.raises(BadSampleError, match=r"its clip begins at 0\.2 s"):
            batches(clips)


class TestAsDataset:
    """What datasets can do, clips can."""

    def test_samples_and_columns(self, videos: VideoFolderDataset) -> None:
        """Labels are those of the videos, sizes those of their frames; videos are read once a batch."""
        clips = Clips(videos, num_frames=2, stride=1, sampling="uniform", clips_per_video=2)

        entries = [(entry.index, entry.label) for entry in clips.fetch([0, 3, 4, 7])]
        assert entries == [(0, 0), (3, 0), (4, 1), (7, 1)]
        columns = {name: clips.column(name).tolist() for name in ("label", "height", "width")}
        assert columns == {
            "label": [0, 0, 0, 0, 1, 1, 1, 1],
            "height": [SIZE[0]] * 8,
            "width": [SIZE[1]] * 8,
        }
        assert (len(clips), clips.class_names, clips.block_size) == (
            *(8, ("a", "b")),
            2 * videos.block_size,
        )
        with pytest.raises(IndexError, match="0 <= index < 8"):
            clips.fetch([8])

    @pytest.mark.parametrize("select", ["where", "take", "split", "balanced", "mix"])
    def test_selected_clips_are_the_same(self, videos: VideoFolderDataset, select: str) -> None:
        """A selection of clips goes through the loader, with the frames that these clips have."""
        clips = Clips(videos, num_frames=3, stride=2, sampling="uniform", clips_per_video=3)
        everything = chosen(batches(clips))
        part: Any = {
            "where": lambda: clips.where("label == 'b'"),
            "take": lambda: clips.take([7, 2, 2]).take([1, 0]),
            "split": lambda: clips.split(0.5, 0.5)[1],
            "balanced": clips.balanced,
            "mix": lambda: mix([clips.take([0, 11]), clips.take([5])], [1, 1], names=["x", "y"]),
        }[select]()

        found = batches(part)

        keys = [key.removeprefix("x/").removeprefix("y/") for key in chosen(found)]
        assert [everything[key] for key in keys] == list(chosen(found).values())
        assert {frames.shape[1:] for frames in (batch.images for batch in found)} == {(3, 3, 8, 8)}
        seconds = torch.cat([batch.seconds for batch in found])
        shown = torch.cat([batch.frames for batch in found])
        even = torch.tensor(["uneven" not in name for b in found for name in b.videos])
        assert torch.allclose(seconds[even], shown[even].double() / 25)

    def test_selected_random_clips_are_drawn_by_their_new_index(
        self, videos: VideoFolderDataset
    ) -> None:
        """As the parameters of images are: the index of a sample is that of the loader's dataset."""
        clips = Clips(videos, num_frames=3, stride=2)

        found = chosen(batches(clips.take([2, 0])))

        assert (
            found["b/long.mp4#0"]
            == clips.choose(0, 0, np.array([2]), np.array([0]), np.array([1 << 16]))[0].tolist()
        )

    def test_clips_of_selected_videos(self, videos: VideoFolderDataset) -> None:
        """Only these are looked through, and keys stay."""
        clips = Clips(videos.where("label == 1").take(1), num_frames=2, stride=1)

        assert [entry.key for entry in clips.fetch([0])] == ["b/long.mp4#0"]
        assert batches(clips)[0].videos == ["b/long.mp4"]

    def test_what_does_not_fit_is_refused(self, videos: VideoFolderDataset, jpeg: Any) -> None:
        """Mixtures, clips of what is no dataset of videos, and videos without clips."""
        rate = {"num_frames": 2, "stride": 1}
        clips, longer = Clips(videos, **rate), Clips(videos, num_frames=3, stride=1)
        videos_need_clips = r"holds videos; videos need Clips: give the Loader Clips\("
        for says, make, dataset, options in (
            ("mixes clips with images", batches, mix([clips, make_small(jpeg, 3)]), {}),
            (r"mixes clips with num_frames=\[2, 3\]", batches, mix([clips, longer]), {}),
            (r"Clips\(\) is not possible on a mixture", Clips, videos.balanced(), rate),
            ("got one of clips; give it their videos", Clips, clips, rate),
            ("dataset=the path 'made' is not a dataset: open it", Clips, "made", rate),
            (videos_need_clips, load, videos, {}),
            (videos_need_clips, load, mix([videos, videos]), {}),
        ):
            with pytest.raises((LoaderError, SelectionError), match=says):
                make(dataset, **options)

    def test_pickled_clips_are_the_same(self, videos: VideoFolderDataset) -> None:
        """Processes that are spawned get them by pickling, without what is remembered of videos."""
        clips = Clips(videos, num_frames=3, fps=9, sampling="all", padding="repeat")
        before = len(pickle.dumps(clips))
        frames = frames_of(clips)

        data = pickle.dumps(clips)
        again = pickle.loads(data)

        assert (frames_of(again), again.fingerprint) == (frames, clips.fingerprint)
        assert len(data) <= before + 100

    def test_fingerprints_tell_everything_apart(self, videos: VideoFolderDataset) -> None:
        """Each argument has its part in them, and so have the videos."""
        usual: dict[str, Any] = {"num_frames": 4, "stride": 2}
        others = [
            *({}, {"num_frames": 5}, {"stride": 3}, {"stride": None, "fps": 5}),
            *({"sampling": "first"}, {"sampling": "uniform"}, {"clips_per_video": 2}),
            *({"padding": "loop"}, {"on_damaged_video": "truncate"}),
        ]
        prints = {Clips(videos, **{**usual, **other}).fingerprint for other in others}
        prints.add(Clips(videos.take(3), **usual).fingerprint)

        assert len(prints) == len(others) + 1
        assert Clips(videos, **usual).fingerprint in prints

    def test_damaged_videos(self, videos: VideoFolderDataset, monkeypatch: Any) -> None:
        """They are bad, or clips come from what is left of them; the damage is told."""
        clips = Clips(videos, num_frames=2, stride=1)
        truncated = Clips(videos, num_frames=2, stride=1, on_damaged_video="truncate")
        for dataset in (clips, truncated):
            info, *others = (dataset._index[number] for number in range(4))
            damaged = [replace(info, damage="it ends early"), *others]
            monkeypatch.setattr(dataset, "_index", _Index(damaged, dataset._index))

        bad, sound = clips.fetch([0, 1])
        assert bad == BadSample(
            0,
            "a/long.mp4#0",
            "header",
            'it ends early after 40 frames; on_damaged_video="truncate" takes clips from these',
        )
        assert {type(sound), type(truncated.fetch([0])[0])} == {Sample}

    def test_the_index_is_read_once_a_video(
        self, videos: VideoFolderDataset, monkeypatch: Any
    ) -> None:
        """However many clips of it there are, and anew only where there are too many videos to remember."""
        dataset = Clips(videos, num_frames=2, stride=1, clips_per_video=5)
        expected = frames_of(dataset)
        every, reads = np.arange(len(dataset)), list[int]()
        index = _Index([dataset._index[number] for number in range(4)], dataset._index, reads)
        for most in (128, 1):
            monkeypatch.setattr("dali_pipes.video.clips._MOST_REMEMBERED", most)
            clips = pickle.loads(pickle.dumps(dataset))
            monkeypatch.setattr(clips, "_index", index)
            reads.clear()

            clips.fetch(every)
            assert frames_of(clips) == expected
            clip_seconds(clips, every, np.array(expected))
            assert reads == [0, 1, 2, 3] * (1 if most == 128 else 3)

    def test_a_mixture_of_frame_folders(self, tmp_path: Path) -> None:
        """Pictures come from the folder of their own dataset, though names and numbers are equal."""
        pixels = [pan(6, (16, 20), seed=seed) for seed in range(2)]
        parts = []
        for number in range(2):
            write_frames(tmp_path / f"{number}" / "video", pixels[number])
            dataset = FrameFolderDataset(tmp_path / f"{number}")
            parts.append(Clips(dataset, num_frames=2, stride=3, sampling="first"))

        recipe = Recipe([Resize((16, 20))])
        [batch] = batches(mix(parts), recipe, dtype=torch.uint8, shuffle="none")

        found = batch.images.permute(0, 1, 3, 4, 2).numpy()
        assert sorted(batch.video_numbers.tolist()) == [0, 1]
        for number, clip in zip(batch.indices.tolist(), found, strict=True):
            assert np.array_equal(clip, pixels[number][[0, 3]])
        assert not np.array_equal(pixels[0], pixels[1])
        explained = load(mix(parts), recipe).explain()
        assert "frames: files of their own, decoded as images on the CPU" in explained


class TestVideoNumbers:
    """What a mean over the clips of a video goes by."""

    def test_videos_of_one_name_in_a_mixture(self, videos: VideoFolderDataset) -> None:
        """Two datasets with the same names have eight videos, whose clips are averaged apart."""
        parts = [Clips(videos, num_frames=2, stride=1, clips_per_video=2) for _ in range(2)]
        mean = ViewMean(num_clips=2, average="logits")
        for batch in batches(mix(parts), shuffle="none"):
            mean.add(batch, batch.indices[:, None].double())

        scores = mean.scores()

        assert (len(mean), mean.missing(), len(set(scores.numbers.tolist()))) == (8, {}, 8)
        assert scores.videos == sorted([*LENGTHS, *LENGTHS])
        assert sorted(scores.scores.flatten().tolist()) == [0.5 + 2 * n for n in range(8)]

    def test_two_lines_of_one_file(self, clip_list: Any) -> None:
        """Each is a sample with a label of its own."""
        clips = Clips(
            clip_list("a/long.mp4 0.1 0.5 0", "a/long.mp4 0.1 0.5 1"), num_frames=2, stride=1
        )
        mean = ViewMean()
        for batch in batches(clips):
            mean.add(batch, torch.zeros(len(batch), 2))

        assert mean.scores().labels.tolist() == [0, 1]

    def test_selected_clips_of_one_video(self, videos: VideoFolderDataset) -> None:
        """A selection keeps its clips together, and what one rank has under a number all have."""
        clips = Clips(videos, num_frames=2, stride=1, sampling="uniform", clips_per_video=3)
        part = clips.take([9, 0, 2, 10])

        numbers = {
            key: number
            for rank in range(2)
            for batch in batches(part, batch_size=1, rank=rank, world_size=2)
            for key, number in zip(batch.keys, batch.video_numbers.tolist(), strict=True)
        }

        assert numbers["a/long.mp4#0"] == numbers["a/long.mp4#2"]
        assert numbers["b/uneven.mp4#0"] == numbers["b/uneven.mp4#1"] != numbers["a/long.mp4#0"]


class TestImagesAndVideosTakenForOneAnother:
    """Both are told what to do."""

    def test_clips_of_images(self, jpeg: Any, monkeypatch: Any) -> None:
        """Before anything is looked through."""
        monkeypatch.setattr("dali_pipes.video.clips.VideoIndex.open", None)

        with pytest.raises(LoaderError, match="is an image; give the Loader the dataset itself"):
            Clips(make_small(jpeg, 2), num_frames=2, stride=1)


class _Index:
    """An index whose entries were changed."""

    def __init__(self, infos: list[Any], like: Any, reads: list[int] | None = None) -> None:
        self._reads = [] if reads is None else reads
        self._infos, self.segment_seconds, self.num_frames = (
            infos,
            like.segment_seconds,
            like.num_frames,
        )

    def __getitem__(self, index: int) -> Any:
        self._reads.append(index)
        return self._infos[index]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "stride=None and fps=None: give one of them"),
        ({"stride": 1, "fps": 5}, "stride=1 and fps=5: give one of them"),
        ({"stride": 0}, "stride=0 is not allowed; give an integer of 1 or more"),
        ({"stride": 1.5}, r"stride=1\.5 is not allowed"),
        ({"fps": 0}, "fps=0 is not allowed; give frames per second above 0"),
        ({"fps": float("nan")}, "fps=nan is not allowed"),
        ({"fps": "5"}, "fps='5' is not allowed"),
        ({"stride": 1, "num_frames": 0}, "num_frames=0 is not allowed"),
        ({"stride": 1, "num_frames": True}, "num_frames=True is not allowed"),
        ({"stride": 1, "sampling": "dense"}, "sampling='dense' is not known; allowed are"),
        ({"stride": 1, "padding": "zero"}, "padding='zero' is not known"),
        ({"stride": 1, "on_damaged_video": "skip"}, "on_damaged_video='skip' is not known"),
        ({"stride": 1, "clips_per_video": 0}, "clips_per_video=0 is not allowed"),
        (
            {"stride": 1, "clips_per_video": 2, "sampling": "all"},
            "clips_per_video=2 is for .* got sampling='all'; leave it out",
        ),
    ],
    ids=lambda value: ",".join(value) or "neither" if isinstance(value, dict) else "",
)
def test_arguments_that_cannot_work(
    videos: VideoFolderDataset, wrong: dict[str, Any], said: str
) -> None:
    """Each is named, with what is allowed."""
    with pytest.raises(LoaderError, match=said):
        Clips(videos, **{"num_frames": 4, **wrong})


class TestInTheLoader:
    """The same clips whatever the batches."""

    def test_the_state_knows_the_rate(self, videos: VideoFolderDataset) -> None:
        """A run is resumed at the frames per second that it was saved with; another rate is refused by its name."""
        first, same, other = (load(Clips(videos, num_frames=2, fps=fps)) for fps in (7.5, 7.5, 8))
        state = json.loads(json.dumps(first.state_dict()))
        same.load_state_dict(state)

        with pytest.raises(StateMismatchError, match=r"- .*fps=15/2.*; [+] .*fps=8"):
            other.load_state_dict(state)

    def test_what_a_batch_says_of_its_clips(self, videos: VideoFolderDataset) -> None:
        """Frame numbers, seconds and videos row by row."""
        clips = Clips(videos, num_frames=3, stride=6, sampling="first")

        [batch] = batches(clips, shuffle="none", batch_size=4)

        assert (batch.images.shape, batch.frames.dtype, batch.seconds.dtype) == (
            *((4, 3, 3, 8, 8), torch.int64, torch.float64),
        )
        assert batch.frames.tolist() == [[0, 6, 12], [0, 4, 4], [0, 6, 12], [0, 6, 12]]
        np.testing.assert_allclose(batch.seconds[:3], batch.frames[:3] / 25)
        np.testing.assert_allclose(batch.seconds[3], UNEVEN[[0, 6, 12]] / 12800)
        assert (batch.videos, batch.keys) == (list(LENGTHS), [f"{name}#0" for name in LENGTHS])


def test_a_video_that_the_storage_withholds_is_transient(
    videos: VideoFolderDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clips may be good later."""
    clips = Clips(videos, num_frames=4, stride=1)
    failed = VideoError("the disk fails")
    failed.__cause__ = OSError(errno.EIO, "broken")
    monkeypatch.setattr(VideoIndex, "__getitem__", lambda *_: failed)
    [bad] = clips.fetch([0])

    assert isinstance(bad, BadSample)
    assert bad.transient
