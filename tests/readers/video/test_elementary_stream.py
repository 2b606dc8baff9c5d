"""Packets that their container cuts into pieces: those of FFmpeg's demuxer, without what lies before them."""

from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from dali_pipes.video.decode import decode_frames
from readers.video import VideoError, VideoInfo, read_packets, scan_video
from tests.support.videos import pan, remux, write_video

NUM_FRAMES = 30
WAYS = {
    "ts": ("a.mts", "libx264", {"bf": "2"}),
    "ts-mpeg2": ("b.mts", "mpeg2video", {"bf": "2"}),
    "ps": ("a.mpg", "mpeg2video", {"bf": "2"}),
    "ps-mpeg1": ("b.mpg", "mpeg1video", {}),
    "ogg": ("a.ogv", "libvpx", {"deadline": "realtime", "cpu-used": "8"}),
    "asf": ("a.wmv", "wmv2", {}),
    "asf-h264": ("b.wmv", "libx264", {}),
}


def written(folder: Path, way: str, **how: Any) -> Path:
    name, codec, options = WAYS[way]
    path = folder / name
    return write_video(path, pan(NUM_FRAMES, (96, 128)), codec=codec, options=options, **how)


def demuxed(data: bytes) -> list[bytes]:
    """FFmpeg's packets of a file that is read from its beginning."""
    with av.open(BytesIO(data)) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


def assert_in_pieces(data: bytes) -> VideoInfo:
    info = scan_video(data)
    count = len(info.packet_pts)
    assert info.wrapping
    assert not info.is_slow
    assert [bytes(packet) for packet in read_packets(data, info, 0, count)] == demuxed(data)
    return info


@pytest.mark.parametrize("way", WAYS)
def test_late_packets_need_nothing_that_lies_before(tmp_path: Path, way: str) -> None:
    """They are those of FFmpeg, also with sound between them, and when all before them is wiped out."""
    data = written(tmp_path, way, audio=way in ("ts", "asf")).read_bytes()
    info = assert_in_pieces(data)
    start = int(info.packet_places[20, 0])
    wiped = bytes(start) + data[start:]

    assert start > len(data) // 3
    assert [bytes(one) for one in read_packets(wiped, info, 20, 30)] == demuxed(data)[20:30]


@pytest.mark.parametrize("way", ["ts", "ps", "ogg"])
def test_late_frames_are_decoded_from_their_keyframe(tmp_path: Path, way: str) -> None:
    """A clip at the end comes out alike when the first half of its file is wiped out."""
    data = written(tmp_path, way).read_bytes()
    info = scan_video(data)
    key = int(info.keyframes[info.keyframes <= 25][-1])
    start = int(info.packet_places[key, 0])
    wiped, wanted = bytes(start) + data[start:], np.arange(27, 30)
    expected, found = decode_frames(data, info, wanted), decode_frames(wiped, info, wanted)

    assert key > 10
    assert all(np.array_equal(expected[frame], found[frame]) for frame in wanted.tolist())


def test_transport_of_other_strides(tmp_path: Path) -> None:
    """Discs put 4 bytes before each packet, stations 16 behind it."""
    path = written(tmp_path, "ts")
    disc = remux(path, tmp_path / "a.m2ts", lambda *_: True, options={"mpegts_m2ts_mode": "1"})
    data = path.read_bytes()
    aired = [data[at : at + 188] + bytes(16) for at in range(0, len(data), 188)]

    assert assert_in_pieces(disc.read_bytes()).wrapping.startswith("mpegts 192")
    assert assert_in_pieces(b"".join(aired)).wrapping.startswith("mpegts 204")


@pytest.mark.parametrize("lost", [slice(9400, 9588), slice(9400, 9500), slice(0, 1316)])
def test_transport_with_losses(tmp_path: Path, lost: slice) -> None:
    """Where packets or bytes were lost on air, the others are found again."""
    data = bytearray(written(tmp_path, "ts").read_bytes())
    del data[lost]
    assert_in_pieces(bytes(data))


def test_recordings_in_one_file(tmp_path: Path) -> None:
    """What is put behind another recording of the same kind is found, too."""
    data = written(tmp_path, "ps").read_bytes()
    assert len(assert_in_pieces(data * 2).packet_pts) == 2 * NUM_FRAMES


def test_file_that_changed_under_its_index(tmp_path: Path) -> None:
    """A packet that is not where it was is told."""
    data = written(tmp_path, "ps").read_bytes()
    info = scan_video(data)
    with pytest.raises(VideoError, match="packet 20 is not where it was"):
        list(read_packets(data[: len(data) // 2], info, 20, 21))
