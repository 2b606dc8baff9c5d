"""Frames of videos: those of a decode from the beginning, bit for bit, whatever is asked for and in which order."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from dali_pipes.errors import DecodeError
from dali_pipes.video.decode import decode_frames, read_frames
from dali_pipes.video.packets import packets_of, plan_runs
from readers.video import VideoInfo, scan_video
from readers.video.info import HIDDEN
from tests.support.planes import planes
from tests.support.videos import pan, write_video

SIZE = (48, 64)
NUM_FRAMES = 40

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
        {"pts": tuple(512 * t + 100 * (t % 3) for t in range(NUM_FRAMES))},
    ),
}


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives a case's file, what is known of it, and its frames by a decode from the beginning."""
    folder = tmp_path_factory.mktemp("videos")

    @cache
    def make(name: str) -> tuple[bytes, VideoInfo, list[bytes]]:
        container, codec, more = CASES[name]
        path = folder / f"{name}.{container}"
        write_video(path, pan(NUM_FRAMES, SIZE), codec=codec, **{"gop": 12, **more})
        data = path.read_bytes()
        return data, scan_video(data), [planes(frame) for frame in decode_all(path)]

    return make


def decode_all(path: Path) -> Iterator[Any]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        yield from container.decode(stream)


def decoded(data: bytes, info: VideoInfo, frames: list[int]) -> dict[int, bytes]:
    return {number: planes(frame) for number, frame in read_frames(data, info, np.array(frames))}


def picks(count: int, name: str) -> list[list[int]]:
    """Sets of frames: the ends, all backwards, strides, repeats, and what chance gives."""
    chance = random.Random(name)
    drawn = [chance.choices(range(count), k=chance.randint(1, 8)) for _ in range(12)]
    return [[0], [count - 1], list(range(count))[::-1], list(range(1, count, 4)), *drawn]


@pytest.mark.parametrize("name", CASES)
def test_frames_are_those_of_a_decode_from_the_beginning(load: Any, name: str) -> None:
    """Any set of frames, with repeats and in any order, gives the same samples; neighbours differ."""
    data, info, truth = load(name)

    assert len(info) == len(truth)
    assert len(set(truth)) > len(truth) - 3  # else a neighbour would pass for the frame
    for frames in picks(len(info), name):
        assert decoded(data, info, frames) == {number: truth[number] for number in frames}, frames


def test_cases_cover_what_they_are_named_for(load: Any) -> None:
    """Open groups have frames that are shown before their keyframe, one file has no packet in one piece, and so on."""
    info = load("h264-open-groups")[1]
    keys = info.keyframes[1:]
    assert (info.packet_pts[keys + 1] < info.packet_pts[keys]).any()
    assert len(load("h264-one-group")[1].keyframes) == 1
    assert len(load("h264-no-container-offsets")[1].packet_offsets) == 0
    assert load("h264-10-bit")[1].pixel_format == "yuv420p10le"
    assert not load("variable-rate")[1].constant_rate


def test_only_what_is_needed_is_decoded(load: Any) -> None:
    """A run begins at the last keyframe before its frame and ends with it and its second field; runs that touch are one."""
    info = load("h264")[1]
    packets = packets_of(info)
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


def test_keyframe_that_is_none_is_found_out(load: Any) -> None:
    """Where an index lies about keyframes, decoding begins earlier until the frame is sound."""
    data, info, truth = load("h264-one-group")
    lying = replace(info, keyframes=np.array([0, 20, 25]))

    assert decoded(data, lying, [30, 39]) == {30: truth[30], 39: truth[39]}


def test_frame_that_never_comes_is_named(load: Any) -> None:
    """Two frames whose packets are empty of pictures are an error that says which and why."""
    data, info, _ = load("h264")
    broken = bytearray(data)
    for packet in packets_of(info)[[13, 14]]:
        offset, size = int(info.packet_offsets[packet]), int(info.packet_sizes[packet])
        broken[offset : offset + size] = bytes(size)

    with pytest.raises(DecodeError, match=r"frame 13 of 40 cannot be decoded"):
        decoded(bytes(broken), info, [2, 13, 14])
    assert decoded(bytes(broken), info, [2, 3])


def test_hidden_frames_count_for_nothing(load: Any) -> None:
    """Where the first frames are not shown, as an edit list says, the others move up, and decode as before."""
    data, info, truth = load("hevc")
    packet_pts = info.packet_pts.copy()
    packet_pts[packets_of(info)[:3]] = HIDDEN + np.arange(3)
    hiding = replace(info, packet_pts=packet_pts)

    assert len(hiding) == NUM_FRAMES - 3
    assert decoded(data, hiding, [0, 5, 36]) == {0: truth[3], 5: truth[8], 36: truth[39]}


@pytest.mark.parametrize("name", ["h264-open-groups", "hevc", "vp9", "mpeg4", "variable-rate"])
def test_torchcodec_has_the_same_frames(
    load: Any, tmp_path: Path, name: str, torchcodec_decoders: Any
) -> None:
    """Another library that seeks by itself gives the same pictures for the same numbers, and its neighbours differ."""
    data, info, _ = load(name)
    path = tmp_path / f"video.{CASES[name][0]}"
    path.write_bytes(data)
    frames = [0, 7, 8, 21, 38]
    decoder = torchcodec_decoders.VideoDecoder(str(path), dimension_order="NHWC")
    theirs = decoder.get_frames_at(frames).data
    ours = decode_frames(data, info, np.array([*frames, 9]))

    for frame, pixels in zip(frames, theirs.numpy().astype(int), strict=True):
        assert np.abs(ours[frame] - pixels).max() <= 3
    assert np.abs(ours[9] - theirs[2].numpy().astype(int)).mean() > 5
