"""Frames of videos are those of a decode from the beginning, bit for bit; of damaged videos the right frames or a reason."""

import io
import itertools
import json
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Execution, Loader, Monitoring
from dali_pipes.errors import DecodeError
from dali_pipes.video import decode as decode_module
from dali_pipes.video.clips import Clips
from dali_pipes.video.codec import ClipDeadline
from dali_pipes.video.decode import decode_frames, read_frames, read_readable
from dali_pipes.video.packets import plan_runs
from dali_pipes.video.render_clip import Stencil
from gpu_aug import Normalize, Recipe, Resize
from readers.video import FrameFolderDataset, VideoError, VideoFolderDataset, VideoInfo, scan_video
from readers.video.info import HIDDEN
from tests.support.loaders import loader_maker
from tests.support.planes import planes
from tests.support.videos import pan, write_frames, write_video

SIZE = (48, 64)
CASE_FRAMES = 40

# Name -> container, encoder, what else write_video is told.
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "h264": ("mp4", "libx264", {"gop": 12}),
    "h264-one-group": ("mp4", "libx264", {"gop": 250}),
    "h264-open-groups": ("mp4", "libx264", {"options": {"x264-params": "open-gop=1:bframes=3"}}),
    "h264-pyramid": ("mkv", "libx264", {"options": {"x264-params": "bframes=8:b-adapt=2:ref=5"}}),
    "h264-intra-refresh": ("mp4", "libx264", {"options": {"x264-params": "intra-refresh=1"}}),
    "h264-slices": ("mp4", "libx264", {"options": {"x264-params": "slices=4:threads=1"}}),
    "h264-interlaced": ("mp4", "libx264", {"options": {"x264-params": "tff=1:bframes=2"}}),
    "h264-10-bit": ("mp4", "libx264", {"pixel_format": "yuv420p10le"}),
    "h264-no-container-offsets": ("mts", "libx264", {}),
    "h264-all-intra": ("mov", "libx264", {"gop": 1}),
    "hevc": ("mp4", "libx265", {"options": {"x265-params": "log-level=none"}}),
    "hevc-closed": (
        "mkv",
        "libx265",
        {"options": {"x265-params": "log-level=none:open-gop=0:bframes=4"}},
    ),
    "av1": ("mp4", "libsvtav1", {"options": {"preset": "12"}}),
    "vp9": ("webm", "libvpx-vp9", {"options": {"cpu-used": "8", "deadline": "realtime"}}),
    "vp9-alternative-references": (
        "webm",
        "libvpx-vp9",
        {"options": {"cpu-used": "5", "auto-alt-ref": "1", "lag-in-frames": "16"}},
    ),
    "vp8": ("webm", "libvpx", {"gop": 60, "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}}),
    "mpeg4": ("mp4", "mpeg4", {"options": {"bf": "2"}}),
    "mpeg4-avi": ("avi", "mpeg4", {"options": {"bf": "0"}}),
    "mpeg2": ("mpg", "mpeg2video", {"options": {"bf": "2"}}),
    "mjpeg": ("avi", "mjpeg", {"pixel_format": "yuvj420p"}),
    "wmv2": ("wmv", "wmv2", {}),
    "msmpeg4": ("avi", "msmpeg4", {}),
    "huffyuv": ("avi", "huffyuv", {"pixel_format": "yuv422p"}),
    "ffv1": ("mkv", "ffv1", {"gop": 1}),
    "png": ("mov", "png", {"pixel_format": "rgb24", "gop": 1}),
    "tiff": ("mov", "tiff", {"pixel_format": "rgb24", "gop": 1}),  # PyAV has no name for its Exif
    "prores": ("mov", "prores", {"pixel_format": "yuv422p10le"}),
    "rotated": ("mp4", "libx264", {"rotation": 90}),
    "variable-rate": (
        "mp4",
        "libx264",
        {"pts": tuple(512 * t + 100 * (t % 3) for t in range(CASE_FRAMES))},
    ),
}


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives a case's file, what is known of it, and its frames by a decode from the beginning."""
    folder = tmp_path_factory.mktemp("videos")

    @cache
    def make(name: str) -> tuple[bytes, VideoInfo, list[bytes]]:
        container, codec, more = CASES[name]
        path = folder / f"{name}.{container}"
        write_video(path, pan(CASE_FRAMES, SIZE), codec=codec, **{"gop": 12, **more})
        data = path.read_bytes()
        return data, scan_video(data), [planes(frame) for frame in decode_plain(path)]

    return make


def decode_plain(path: Path) -> Iterator[Any]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        yield from container.decode(stream)


def picks(count: int, name: str) -> list[list[int]]:
    """Sets of frames: the ends, all backwards, strides, repeats, and what chance gives."""
    chance = random.Random(name)
    drawn = [chance.choices(range(count), k=chance.randint(1, 8)) for _ in range(12)]
    return [[0], [count - 1], list(range(count))[::-1], list(range(1, count, 4)), *drawn]


@pytest.mark.parametrize("name", CASES)
def test_frames_are_those_of_a_decode_from_the_beginning(case: Any, name: str) -> None:
    """Any set of frames, with repeats and in any order, gives the same samples; neighbours differ."""
    data, info, truth = case(name)

    assert len(info) == len(truth)
    assert len(set(truth)) > len(truth) - 3  # else a neighbour would pass for the frame
    for frames in picks(len(info), name):
        assert decoded(data, info, frames) == {number: truth[number] for number in frames}, frames


def test_cases_cover_what_they_are_named_for(case: Any) -> None:
    """Open groups have frames that are shown before their keyframe, one file has no packet in one piece, and so on."""
    info = case("h264-open-groups")[1]
    keys = info.keyframes[1:]
    assert (info.packet_pts[keys + 1] < info.packet_pts[keys]).any()
    assert len(case("h264-one-group")[1].keyframes) == 1
    assert len(case("h264-no-container-offsets")[1].packet_offsets) == 0
    assert case("h264-10-bit")[1].pixel_format == "yuv420p10le"
    assert not case("variable-rate")[1].constant_rate


def test_only_what_is_needed_is_decoded(case: Any) -> None:
    """A run begins at the last keyframe before its frame and ends with it and its second field; runs that touch are one."""
    info = case("h264")[1]
    packets = info.frame_packets
    first, second = plan_runs(info, packets[[3, 14]].tolist())
    [together] = plan_runs(info, packets[:20].tolist())
    [earlier] = plan_runs(info, packets[[30]].tolist(), back=1)

    hidden = info.packet_pts.copy()
    hidden[packets[3] + 1] = HIDDEN
    [both_fields] = plan_runs(replace(info, packet_pts=hidden), [int(packets[3])])

    assert (first.start, second.start) == (0, 12)
    assert both_fields.needed.tolist() == [*first.needed.tolist(), True]
    assert (first.stop, second.stop) == (packets[3] + 1, packets[14] + 1)
    assert first.needed.tolist() == [False] * int(packets[3]) + [True]
    assert ((together.start, together.needed.sum()), earlier.start) == ((0, 20), 12)


def test_keyframe_that_is_none_is_found_out(case: Any) -> None:
    """Where an index lies about keyframes, decoding begins earlier until the frame is sound."""
    data, info, truth = case("h264-one-group")
    lying = replace(info, keyframes=np.array([0, 20, 25]))

    assert decoded(data, lying, [30, 39]) == {30: truth[30], 39: truth[39]}


def test_hidden_frames_count_for_nothing(case: Any) -> None:
    """Where the first frames are not shown, as an edit list says, the others move up, and decode as before."""
    data, info, truth = case("hevc")
    packet_pts = info.packet_pts.copy()
    packet_pts[info.frame_packets[:3]] = HIDDEN + np.arange(3)
    hiding = replace(info, packet_pts=packet_pts)

    assert len(hiding) == CASE_FRAMES - 3
    assert decoded(data, hiding, [0, 5, 36]) == {0: truth[3], 5: truth[8], 36: truth[39]}


NUM_FRAMES = 24
CODECS: dict[str, tuple[str, dict[str, Any]]] = {
    "libx264": ("mp4", {}),
    "libx265": ("mp4", {"options": {"x265-params": "log-level=none:open-gop=0"}}),
    "libsvtav1": ("mp4", {"options": {"preset": "12"}}),
    "libvpx-vp9": ("webm", {"options": {"cpu-used": "8", "deadline": "realtime"}}),
    "libvpx": ("webm", {"options": {"cpu-used": "8", "deadline": "realtime"}}),
    "mpeg4": ("mp4", {}),
    "mpeg2video": ("mts", {}),
    "mjpeg": ("avi", {"pixel_format": "yuvj420p"}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("videos")


def encode(folder: Path, codec: str, size: tuple[int, int] = SIZE) -> tuple[bytes, VideoInfo]:
    ending, more = CODECS[codec]
    path = folder / f"{codec}-{size[1]}.{ending}"
    if not path.exists():
        write_video(path, pan(NUM_FRAMES, size), codec=codec, gop=12, **more)
    data = path.read_bytes()
    return data, scan_video(data)


def decoded(
    data: bytes, info: VideoInfo, frames: list[int], read: Any = read_frames
) -> dict[int, bytes]:
    return {number: planes(frame) for number, frame in read(data, info, np.array(frames))}


def overwrite(data: bytes, info: VideoInfo, frame: int, content: bytes | None = None) -> bytes:
    """Put something else, or zeros, in the place of a frame's packet."""
    packet = int(info.frame_packets[frame])
    offset, size = int(info.packet_offsets[packet]), int(info.packet_sizes[packet])
    content = bytes(size) if content is None else content[:size].ljust(size, b"\0")
    return data[:offset] + content + data[offset + size :]


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "mpeg2video"])
def test_lost_keyframe_takes_its_group_alone(folder: Path, codec: str) -> None:
    """Frames of the group behind a keyframe of zeros are refused, those of the other group are sound."""
    data, info = encode(folder, codec)
    truth = decoded(data, info, list(range(NUM_FRAMES)))
    broken = overwrite(data, info, 12)

    assert decoded(broken, info, [0, 5, 11]) == {number: truth[number] for number in (0, 5, 11)}
    for frame in [12] if codec == "mjpeg" else [12, 13, 23]:
        with pytest.raises(DecodeError, match=f"frame {frame} of 24 cannot be decoded"):
            decoded(broken, info, [frame])
    assert decoded(overwrite(data, info, 0), info, [14]) == {14: truth[14]}


def test_frames_predicted_from_a_damaged_one_are_refused(folder: Path) -> None:
    """FFmpeg marks the damaged frame and hides the damage of those after it; neither is handed out."""
    data, info = encode(folder, "libx264")
    truth = decoded(data, info, list(range(NUM_FRAMES)))
    anchor = info.frame_packets.tolist().index(
        1
    )  # decoded behind the keyframe, and others refer to it
    size = int(info.packet_sizes[1])
    head = bytes(data[int(info.packet_offsets[1]) :][: size // 2])
    broken = overwrite(data, info, anchor, head + random.Random(0).randbytes(size))
    plain = decode_plainly(broken, info)
    unmarked = {number: pixels for number, (pixels, is_marked) in plain.items() if not is_marked}
    hidden = [number for number, pixels in unmarked.items() if pixels != truth[number]]

    assert hidden  # FFmpeg gives wrong frames as if they were good
    for frame in hidden:
        with pytest.raises(DecodeError):
            decoded(broken, info, [frame])
    assert decoded(broken, info, [0, 12]) == {0: truth[0], 12: truth[12]}


def decode_plainly(data: bytes, info: VideoInfo) -> dict[int, tuple[bytes, bool]]:
    """All frames that FFmpeg gives, and whether it marks them."""
    context: Any = av.CodecContext.create(info.decoder, "r")
    context.extradata, context.thread_count = info.extradata, 1
    found = {}
    numbers = {packet: number for number, packet in enumerate(info.frame_packets.tolist())}
    packets: list[Any] = [
        av.Packet(data[offset : offset + size])
        for offset, size in zip(info.packet_offsets, info.packet_sizes, strict=True)
    ]
    for place, packet in enumerate(packets):
        packet.pts = place
    for packet in (*packets, None):
        with suppress(av.FFmpegError):
            for frame in context.decode(packet):
                found[numbers[frame.pts]] = planes(frame), frame.is_corrupt
    return found


@pytest.mark.parametrize("codec", ["libx264", "libx265", "libsvtav1", "mpeg4", "mjpeg"])
def test_truncate_holds_the_last_good_frame(folder: Path, codec: str) -> None:
    """Frames that cannot be had are the last one before them, alone or together with others."""
    data, info = encode(folder, codec)
    truth = decoded(data, info, list(range(NUM_FRAMES)))
    broken = overwrite(data, info, 12)
    last = 12 if codec == "mjpeg" else 20

    together = decoded(broken, info, [3, 11, 12, last], read_readable)
    assert together == {3: truth[3], 11: truth[11], 12: truth[11], last: truth[11]}
    assert decoded(broken, info, [last], read_readable) == {last: truth[11]}
    assert truth[10] != truth[11]
    with pytest.raises(DecodeError, match="neither frame 1 of 24 nor one before it"):
        decoded(overwrite(overwrite(data, info, 0), info, 1), info, [1], read_readable)


def test_truncate_takes_no_later_frame(folder: Path) -> None:
    """A lost frame whose successor is decoded before it is replaced by its predecessor all the same."""
    data, info = encode(folder, "libx264")
    packets = info.frame_packets.tolist()
    lost = next(n for n in range(1, 23) if packets[n - 1] < packets[n] > packets[n + 1])
    truth = decoded(data, info, [lost - 1, lost + 1])
    broken = overwrite(data, info, lost)

    assert decoded(broken, info, [lost, lost + 1], read_readable) == {
        lost: truth[lost - 1],
        lost + 1: truth[lost + 1],
    }


def test_damaged_picture_of_motion_jpeg_is_refused(folder: Path) -> None:
    """FFmpeg fills what it cannot read of a picture with grey and marks nothing, unless it is told to refuse."""
    data, info = encode(folder, "mjpeg")
    place = int(info.packet_offsets[5]) + int(info.packet_sizes[5] * 0.9)
    broken = data[:place] + random.Random(1).randbytes(40) + data[place + 40 :]

    pixels, is_marked = decode_plainly(broken, info)[5]
    assert not is_marked
    assert pixels != decode_plainly(data, info)[5][0]
    with pytest.raises(DecodeError, match="frame 5 of 24 cannot be decoded"):
        decoded(broken, info, [5])


def test_other_size_in_the_middle_is_refused(folder: Path) -> None:
    """A frame that has not the size of the first one is a reason, not a picture."""
    (small, one), (large, other) = encode(folder, "mjpeg"), encode(folder, "mjpeg", (64, 96))
    both = replace(
        one,
        packet_pts=np.arange(4),
        packet_offsets=np.concatenate(
            [one.packet_offsets[:2], other.packet_offsets[:2] + len(small)]
        ),
        packet_sizes=np.concatenate([one.packet_sizes[:2], other.packet_sizes[:2]]),
        keyframes=np.arange(4),
    )
    truth = decoded(small, one, [0, 1])

    assert decoded(small + large, both, [0, 1]) == truth
    with pytest.raises(
        DecodeError,
        match="frame 2 of 4 cannot be decoded: it has 64x96 pixels, the first frame 48x64",
    ):
        decoded(small + large, both, [1, 2])
    assert decoded(small + large, both, [0, 2, 3], read_readable) == {
        0: truth[0],
        2: truth[1],
        3: truth[1],
    }


def test_huge_frame_is_refused_before_it_is_decoded(folder: Path) -> None:
    """The decoder itself refuses a picture much larger than the others; it takes no memory for it."""
    data, info = encode(folder, "mjpeg")
    file = io.BytesIO()
    Image.new("RGB", (4000, 4000)).save(file, "JPEG")
    offsets, sizes = info.packet_offsets.copy(), info.packet_sizes.copy()
    offsets[5], sizes[5] = len(data), len(file.getvalue())
    huge = replace(info, packet_offsets=offsets, packet_sizes=sizes)

    with pytest.raises(DecodeError, match="frame 5 of 24 cannot be decoded: FFmpeg: "):
        decoded(data + file.getvalue(), huge, [5])


def test_unknown_decoder_is_replaced(folder: Path) -> None:
    """An index made elsewhere may name a decoder that this FFmpeg has not: its own is taken."""
    data, info = encode(folder, "libx264")

    assert decoded(data, replace(info, decoder="none"), [7]) == decoded(data, info, [7])


@pytest.mark.parametrize("read", [read_frames, read_readable])
def test_clip_is_given_up_after_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch, read: Any
) -> None:
    """Between packets the time is looked at; a clip that takes longer is refused."""
    data, info = encode(folder, "libx264")
    monkeypatch.setattr(decode_module, "DECODE_SECONDS", 0.0)

    with pytest.raises(DecodeError, match=r"it takes longer than 0 s to decode$"):
        decoded(data, info, [20], read)


def test_what_is_done_with_frames_takes_no_decoding_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads frames may work on each for longer than decoding may take."""
    data, info = encode(folder, "libx264")
    deadline = ClipDeadline(30)
    now, monotonic = 0.0, time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now + monotonic())

    for _ in read_frames(data, info, np.array([3, 20]), deadline):
        now += 20

    assert not deadline.has_passed


def test_file_that_became_shorter_is_a_reason(folder: Path) -> None:
    """Packets that an index promises and the file has no longer are refused, in one piece or not."""
    for codec in ("libx264", "mpeg2video"):
        data, info = encode(folder, codec)
        with pytest.raises(DecodeError, match=r"frame 23 of 24 cannot be decoded"):
            decoded(data[: len(data) // 2], info, [23])


@pytest.mark.parametrize("codec", CODECS)
def test_random_damage(folder: Path, codec: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is overwritten or cut off: frames of the right size or a reason, and nothing on stderr."""
    data, info = encode(folder, codec)
    truth = decoded(data, info, list(range(NUM_FRAMES)))
    capfd.readouterr()
    verdicts = [judge(data, info, truth, seed) for seed in range(40)]

    assert {"right", "refused"} <= set(verdicts)
    assert capfd.readouterr().err == ""
    assert decoded(data, info, list(range(NUM_FRAMES))) == truth  # nothing is left behind


def judge(data: bytes, info: VideoInfo, truth: dict[int, bytes], seed: int) -> str:
    chance = random.Random(seed)
    broken = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(broken))
        length = chance.choice([1, 1, 20, 300])
        broken[place : place + length] = chance.randbytes(len(broken[place : place + length]))
    if seed % 4 == 0:
        del broken[chance.randrange(len(broken)) :]
    read = chance.choice([read_frames, read_readable])
    try:
        known = info if seed % 2 else scan_video(bytes(broken))
        frames = sorted(chance.sample(range(len(known)), min(3, len(known))))
        found = decoded(bytes(broken), known, frames, read)
    except (DecodeError, VideoError):
        return "refused"
    assert set(found) == set(frames)
    assert {len(pixels) for pixels in found.values()} == {len(truth[0])} or seed % 2 == 0
    return "right" if all(found[n] == truth.get(n) for n in frames) else "unnoticed"


RECIPE = Recipe([Resize((24, 32)), Normalize()])
make_loader = loader_maker(
    RECIPE,
    batch_size=6,
    num_threads=2,
    shuffle="none",
    last_batch="partial",
    on_bad_sample="skip",
    max_bad_samples=None,
)


def load(folder: Path, on_damaged_video: Any = "raise", **options: Any) -> Loader:
    """A loader of two clips per video, in order, that skips bad ones."""
    how: dict[str, Any] = {"sampling": "uniform", "on_damaged_video": on_damaged_video}
    videos = VideoFolderDataset(folder)
    clips = Clips(videos, num_frames=4, stride=2, clips_per_video=2, **how)
    return make_loader(clips, **options)


@pytest.fixture
def three_videos(folder: Path, tmp_path: Path) -> Path:
    """One sound video, one whose second half is lost, one that is sound; the index knows them all as sound."""
    data, info = encode(folder, "libx264")
    for name in "abc":
        (tmp_path / f"{name}.mp4").write_bytes(data)
    list(load(tmp_path))  # the index is made
    write_anew(tmp_path / "b.mp4", overwrite(data, info, 12))
    return tmp_path


@pytest.mark.parametrize("batch_size", [1, 2, 6])
def test_bad_clip_leaves_its_sibling_alone(three_videos: Path, batch_size: int) -> None:
    """Of two clips of a video that share frames only the one with a lost frame is bad, in every batch size."""
    loader = load(three_videos, batch_size=batch_size)
    keys = [
        key for batch in loader for key, valid in zip(batch.keys, batch.valid, strict=True) if valid
    ]

    assert keys == ["a.mp4#0", "a.mp4#1", "b.mp4#0", "c.mp4#0", "c.mp4#1"]
    [record] = loader.bad_samples
    assert (record.key, record.stage) == ("b.mp4#1", "decode")
    assert re.match(r"frame \d+ of 24 cannot be decoded", record.reason)


@pytest.fixture(scope="module", params=[6, 12], ids=["refused", "marked"])
def lost_frame(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of one group of which a frame is lost that no other one refers to: FFmpeg refuses or marks it."""
    folder = tmp_path_factory.mktemp("lost")
    options = {"bf": "3", "b-pyramid": "none", "sc_threshold": "0"}
    path = write_video(folder / "a.mp4", pan(40, (96, 128)), gop=60, options=options)
    data = path.read_bytes()
    info = scan_video(data)
    packets = info.frame_packets
    frame = next(n for n in range(15, 30) if packets[n - 1] < packets[n] < packets[n + 1])
    offset = int(info.packet_offsets[packets[frame]])
    head = data[offset : offset + request.param]  # says that no other frame refers to this one
    list(clips_of(folder, 5, 1, "raise"))  # the index is made
    write_anew(path, overwrite(data, info, frame, head))
    return folder


def write_anew(path: Path, data: bytes) -> None:
    """Change a file behind the back of its index."""
    before = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def clips_of(
    folder: Path, batch_size: int, stride: int, on_damaged_video: Any
) -> dict[str, tuple[list[int], torch.Tensor]]:
    """Frames and pictures of the clips that are not bad, by key."""
    how: dict[str, Any] = {"sampling": "uniform", "on_damaged_video": on_damaged_video}
    videos = VideoFolderDataset(folder)
    clips = Clips(videos, num_frames=6, stride=stride, clips_per_video=9, **how)
    return {
        key: (frames.tolist(), images.clone())
        for batch in make_loader(clips, batch_size=batch_size, max_bad_samples=9)
        for key, frames, images, valid in zip(
            batch.keys, batch.frames, batch.images, batch.valid, strict=True
        )
        if valid
    }


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("on_damaged_video", ["raise", "truncate"])
def test_damaged_clips_do_not_depend_on_the_batch(
    lost_frame: Path, on_damaged_video: str, stride: int
) -> None:
    """A frame that is lost alone costs the clips alone that want it, whatever else their batch asks for."""
    expected = clips_of(lost_frame, 1, stride, on_damaged_video)

    pictures: dict[int, torch.Tensor] = {}
    for frames, images in expected.values():
        for frame, picture in zip(frames, images, strict=True):
            assert torch.equal(pictures.setdefault(frame, picture), picture)
    for one, following in itertools.pairwise(sorted(pictures)):
        assert not torch.equal(pictures[one], pictures[following])  # they are those that are shown
    assert (len(expected) < 9) == (on_damaged_video == "raise")
    for batch_size in (2, 5, 9):
        actual = clips_of(lost_frame, batch_size, stride, on_damaged_video)
        assert actual.keys() == expected.keys()
        for key, (_, images) in actual.items():
            assert torch.equal(images, expected[key][1])


def test_substitute_gets_its_own_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a clip is lost that shares frames with another one, its substitute is not drawn from these."""
    for seed, name in enumerate("abc"):
        write_video(tmp_path / f"{name}.mp4", pan(NUM_FRAMES, SIZE, seed=seed))
    [whole] = load(tmp_path)
    expected = dict(zip(whole.indices.tolist(), whole.images, strict=True))
    render, calls = Stencil.render, itertools.count()

    def fail_once(*args: Any) -> None:
        if next(calls) == 0:
            raise DecodeError("for once")
        render(*args)

    monkeypatch.setattr(Stencil, "render", fail_once)
    loader = load(tmp_path, on_bad_sample="replace")
    [batch] = loader

    assert [record.reason for record in loader.bad_samples] == ["for once"]
    assert batch.indices.tolist() != whole.indices.tolist()
    for index, images in zip(batch.indices.tolist(), batch.images, strict=True):
        assert torch.equal(images, expected[index])


@pytest.mark.parametrize(
    "options",
    [
        {"on_bad_sample": "raise"},
        {"on_bad_sample": "replace"},
        {"on_bad_sample": "skip"},
        pytest.param(
            {"on_bad_sample": "replace", "execution": Execution(helper_process=True)},
            marks=pytest.mark.long,
        ),
        pytest.param({"on_bad_sample": "replace", "decoder": "dali"}, marks=pytest.mark.needs_dali),
    ],
    ids=["raise", "replace", "skip", "process", "dali"],
)
def test_held_frames_are_told_of(
    three_videos: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    """A clip with a held frame says which frame it shows and stands in the ledger as kept, after a resume as well."""
    ledger = Monitoring(ledger=tmp_path / "ledger.jsonl")
    options = {"monitoring": ledger, "on_damaged_video": "truncate", **options}
    options |= {"batch_size": 2, "on_bad_sample": "skip", "max_bad_samples": 0}
    with load(three_videos, **options) as whole:
        loop = iter(whole)
        first, state, second = next(loop), whole.state_dict(), next(loop)
    with load(three_videos, **options) as resumed:
        resumed.load_state_dict(state)
        again = next(iter(resumed))

    assert int(first.frames[1, -1]) > 12  # of a sound video
    for batch, loader in ((second, whole), (again, resumed)):
        assert batch.keys == ["b.mp4#0", "b.mp4#1"]
        assert batch.frames[1].tolist() == [11] * 4
        assert batch.seconds[1].tolist() == pytest.approx([11 / 25] * 4)
        [record] = loader.bad_samples
        assert (record.key, record.stage, record.kept) == ("b.mp4#1", "decode", True)
        assert re.match(r"the clip was kept, but 4 of its frames cannot be decoded", record.reason)
    lines = (tmp_path / "ledger.jsonl").read_text().splitlines()
    assert [json.loads(line)["kept"] for line in lines] == [True, True]


def test_folders_of_frames(tmp_path: Path) -> None:
    """Frames that are pictures are decoded as pictures; only those of the clip, and a bad one is named."""
    pixels = pan(12, (24, 32))
    for name in ("one", "two"):
        write_frames(tmp_path / name, pixels)
    (tmp_path / "two" / "004.png").write_bytes(b"no picture")
    clips = Clips(FrameFolderDataset(tmp_path), num_frames=3, stride=2, sampling="first")
    recipe = Recipe([Resize((24, 32)), Normalize(mean=(0, 0, 0), std=(1, 1, 1))])
    loader = make_loader(clips, recipe, batch_size=2, dtype=torch.float32)
    [batch] = loader

    assert batch.frames[0].tolist() == [0, 2, 4]
    got = (batch.images[0].permute(0, 2, 3, 1) * 255).round().numpy()
    assert np.array_equal(got, pixels[[0, 2, 4]])
    assert batch.keys == ["one#0"]
    assert loader.bad_samples[0].reason.startswith("frame 4 of 12: not an image")


def test_damage_that_ffmpeg_hides_in_hevc_is_an_error(tmp_path: Path) -> None:
    """Without an error, the damaged part shows what was in memory: frames of another video."""
    options = {"x265-params": "log-level=none:crf=4:ctu=16"}
    path = write_video(tmp_path / "a.mp4", pan(1, (64, 96)), codec="libx265", options=options)
    data, chance, num_bad = path.read_bytes(), random.Random(0), 0
    info = scan_video(data)
    start, size = int(info.packet_offsets[0]), int(info.packet_sizes[0])
    for _ in range(60):
        damaged, place = bytearray(data), chance.randrange(start + size // 3, start + size - 4)
        damaged[place : place + 4] = chance.randbytes(4)
        try:
            decode_frames(bytes(damaged), info, np.array([0]))
        except DecodeError as error:
            assert "Invalid data" in str(error)  # noqa: PT017 - not all damage is noticed
            num_bad += 1
    assert num_bad


def test_damage_between_two_frames_spoils_neither(tmp_path: Path) -> None:
    """A packet that a decoder passes over at its keyframe spoils no clip that begins before the keyframe."""
    options = {"x265-params": "log-level=none:open-gop=1:bframes=2:crf=1:ctu=16"}
    path = write_video(
        tmp_path / "a.mp4", pan(24, (64, 96)), codec="libx265", gop=6, options=options
    )
    data, info = path.read_bytes(), scan_video(path.read_bytes())
    key = int(info.keyframes[-1])
    pts = info.packet_pts.copy()
    pts[key + 1] = HIDDEN  # as of a damaged packet, which shows no frame
    start, size = (int(one[key + 1]) for one in (info.packet_offsets, info.packet_sizes))
    whole = start + size // 6
    damaged = data[:whole] + bytes(start + size - whole) + data[start + size :]
    info, before, shown = replace(info, packet_pts=pts), int(pts[key - 1]), int(pts[key + 3])
    frames = np.searchsorted(info.pts, [before, shown])

    for wanted in ([frames[0]], [frames[1]], frames):
        assert len(dict(read_frames(damaged, info, np.array(wanted)))) == len(wanted)
