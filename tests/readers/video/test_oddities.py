"""Odd files as cameras, editors and recorders make them: their frames and facts are those of FFmpeg, whole and one by one."""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from dali_pipes.video.decode import decode_frames, read_frames
from readers.video import VideoInfo, scan_video
from tests.support.planes import planes
from tests.support.videos import decode_all, pan, remux, write_video

SIZE = (48, 64)
NUM_FRAMES = 30


def written(path: Path, **how: Any) -> Path:
    return write_video(path, pan(NUM_FRAMES, SIZE), **{"gop": 12, **how})


def decoded(path: Path) -> list[tuple[int | None, bytes]]:
    """Time stamp and samples of each frame, decoded from the beginning, over what FFmpeg refuses."""
    frames = []
    with av.open(str(path)) as container:
        container.streams.video[0].thread_type = "NONE"
        for packet in container.demux(video=0):
            with suppress(av.FFmpegError):
                frames += [(frame.pts, planes(frame)) for frame in packet.decode()]
    return frames


def assert_as_ffmpeg(path: Path) -> VideoInfo:
    """Compare all frames with those of a decode from the beginning, together and each alone."""
    data = path.read_bytes()
    info = scan_video(data)
    expected = [samples for _, samples in decoded(path)]
    assert len(info) == len(expected)
    for wanted in [np.arange(len(info)), *np.arange(len(info))[:, None]]:
        for number, frame in read_frames(data, info, wanted):
            assert planes(frame) == expected[number], f"frame {number} of {wanted}"
    return info


def inserted(source: Path, target: Path, content: bytes, places: set[int]) -> Path:
    """Copy a video, with a packet of this content before some of its packets."""
    with av.open(str(source)) as read, av.open(str(target), "w") as write:
        stream = write.add_stream_from_template(read.streams.video[0])
        for number, packet in enumerate(one for one in read.demux(video=0) if one.size):
            packets = [packet]
            if number in places:
                packets.insert(0, av.Packet(content))
                packets[0].time_base = packet.time_base
                packets[0].pts = packets[0].dts = packet.dts - packet.duration // 2
            for one in packets:
                one.stream = stream
                write.mux(one)
    return target


def test_what_stands_behind_a_packet_does_not_matter(tmp_path: Path) -> None:
    """Decoders read on behind the end of what they are given; the file goes on there."""
    data = written(tmp_path / "a.mp4", codec="mpeg4", options={"bf": "0"}).read_bytes()
    info = scan_video(data)
    sizes = info.packet_sizes.tolist()
    pieces = [
        data[at : at + size] + b"\x01" * 64
        for at, size in zip(info.packet_offsets.tolist(), sizes, strict=True)
    ]
    offsets = np.cumsum([0, *map(len, pieces)])[:-1]
    apart = replace(info, packet_offsets=offsets)
    every = np.arange(NUM_FRAMES)
    ours, expected = decode_frames(b"".join(pieces), apart, every), decode_frames(data, info, every)

    assert all(np.array_equal(ours[number], expected[number]) for number in every.tolist())


@pytest.mark.parametrize("ending", ["mp4", "mkv"])
def test_stamps_in_the_order_of_decoding(tmp_path: Path, ending: str) -> None:
    """Where every packet says that it is shown when it is decoded, the codec knows better."""

    def flatten(number: int, packet: Any) -> bool:
        packet.pts = packet.dts = number * 512
        return True

    source = written(tmp_path / "a.mp4", options={"bf": "2"})
    info = assert_as_ffmpeg(remux(source, tmp_path / f"b.{ending}", flatten))

    assert info.packet_pts.tolist() != sorted(info.packet_pts.tolist())
    assert (len(info), info.constant_rate) == (NUM_FRAMES, True)


@pytest.mark.parametrize("ending", ["mts", "mkv"])
def test_recordings_that_were_put_together(tmp_path: Path, ending: str) -> None:
    """Where time begins anew in the middle, the second recording goes on from the first."""
    path = written(tmp_path / f"a.{ending}", options={"bf": "2"})
    path.write_bytes(path.read_bytes() * 2)
    info = assert_as_ffmpeg(path)

    assert (len(info), info.fps) == (2 * NUM_FRAMES, pytest.approx(25))
    assert np.diff(info.seconds) == pytest.approx(1 / 25, abs=0.002)


def with_edits(data: bytes, edits: list[tuple[int, int]]) -> bytes:
    """Write another edit list into an MP4 whose header is behind its packets: milliseconds, and where they begin."""
    place = data.index(b"elst") - 4
    size = int.from_bytes(data[place : place + 4], "big")
    entries = b"".join(struct.pack(">IiI", *edit, 1 << 16) for edit in edits)
    content = b"elst" + struct.pack(">II", 0, len(edits)) + entries
    grown = bytearray(
        data[:place] + struct.pack(">I", len(content) + 4) + content + data[place + size :]
    )
    for name in (b"edts", b"trak", b"moov"):
        at = data.rindex(name, 0, place) - 4
        [before] = struct.unpack_from(">I", data, at)
        struct.pack_into(">I", grown, at, before + len(content) + 4 - size)
    return bytes(grown)


def test_several_edits(tmp_path: Path) -> None:
    """Edits that leave out the middle, swap, or show the beginning twice: time goes back only in what is not shown."""
    plain = written(tmp_path / "a.mp4", options={"bf": "2"}).read_bytes()
    path = tmp_path / "b.mp4"
    for first, second in [(0, 20), (20, 0), (0, 0)]:
        edits = [(400, 1024 + 512 * first), (400, 1024 + 512 * second)]
        path.write_bytes(with_edits(plain, edits))
        info = assert_as_ffmpeg(path)
        shown = [stamp for stamp, _ in decoded(path)]

        assert len(info) == len(shown) == 20
        assert np.abs(info.pts - shown).max() <= 1  # FFmpeg's may repeat


def test_header_that_is_repeated(tmp_path: Path) -> None:
    """Servers send the codec's header again before keyframes; that is no other one."""
    data = written(tmp_path / "a.flv", options={"bf": "0"}).read_bytes()
    place, tags = 13, []
    while place < len(data):
        size = 11 + int.from_bytes(data[place + 1 : place + 4], "big") + 4
        tags.append(data[place : place + size])
        place += size
    [header] = [tag for tag in tags if tag[0] == 9 and tag[12] == 0]
    again = [
        header[:4] + tag[4:8] + header[8:] if tag[11:13] == b"\x17\x01" else b"" for tag in tags
    ]
    path = tmp_path / "b.flv"
    path.write_bytes(data[:13] + b"".join(map(bytes.__add__, again, tags)))

    assert len(again) - again.count(b"") >= 3
    assert len(assert_as_ffmpeg(path)) == NUM_FRAMES


@pytest.mark.parametrize(
    ("codec", "unit"),
    [
        ("libx264", b"\x06\x05\x01a\x80"),
        ("libx264", b"\x0c\xff\xff\x80"),
        ("libx265", b"\x4e\x01\x05\x01a\x80"),
    ],
)
def test_packets_without_a_picture(tmp_path: Path, codec: str, unit: bytes) -> None:
    """Messages and filler in packets of their own are no frames, and no damage."""
    params = {"x265-params": "log-level=none:bframes=0"} if codec == "libx265" else {"bf": "0"}
    source = written(tmp_path / "a.mp4", codec=codec, options=params)
    content = len(unit).to_bytes(4, "big") + unit
    info = assert_as_ffmpeg(inserted(source, tmp_path / "b.mp4", content, {5, 20}))

    assert (len(info), len(info.packet_pts)) == (NUM_FRAMES, NUM_FRAMES + 2)


def test_pictures_of_mpeg4_that_are_left_out(tmp_path: Path) -> None:
    """A packet that says that nothing has changed is no frame, in MP4 as in AVI."""
    source = written(tmp_path / "a.mp4", codec="mpeg4", options={"bf": "0"})
    nothing = b"\0\0\1\xb6\x50\x4f"
    info = assert_as_ffmpeg(inserted(source, tmp_path / "b.mp4", nothing, {5, 6}))

    assert (len(info), len(info.packet_pts)) == (NUM_FRAMES, NUM_FRAMES + 2)


def test_avi_from_a_pipe(tmp_path: Path) -> None:
    """A length that was not known when the file was begun does not say that the end is missing."""
    data = written(tmp_path / "a.avi", codec="mpeg4", options={"bf": "0"}).read_bytes()
    for size in (0, 0xFFFFFFFF):
        info = scan_video(data[:4] + size.to_bytes(4, "little") + data[8:])

        assert (info.damage, len(info)) == ("", NUM_FRAMES)


def test_stream_without_a_container(tmp_path: Path) -> None:
    """Frames without time stamps are all shown equally long, the last one, too."""
    info = assert_as_ffmpeg(written(tmp_path / "a.h264", options={"bf": "2"}))

    assert (info.duration_seconds, info.fps) == (pytest.approx(NUM_FRAMES / 25), pytest.approx(25))


def matrices() -> Iterator[tuple[tuple[int, ...], int]]:
    yield (1, 0, 0, 1), 0
    yield (-1, 0, 0, 1), 0  # mirrored left to right
    yield (-1, 0, 0, -1), 180
    yield (1, 0, 0, -1), 180  # mirrored top to bottom: turned round, it is mirrored left to right
    yield (0, 1, -1, 0), 90
    yield (0, 1, 1, 0), 90
    yield (0, -1, 1, 0), 270
    yield (0, -1, -1, 0), 270


def test_mirrored_display_is_upright(tmp_path: Path) -> None:
    """What is shown mirrored is not mirrored, but stands upright."""
    data = bytearray(written(tmp_path / "a.mp4").read_bytes())
    place = data.index(b"tkhd") + 4 + 40
    for (a, b, c, d), rotation in matrices():
        matrix = [a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30]
        struct.pack_into(">9i", data, place, *matrix)

        assert scan_video(bytes(data)).rotation == rotation, (a, b, c, d)


@pytest.mark.parametrize("ending", ["avi", "mov"])
def test_palette_of_the_container(tmp_path: Path, ending: str) -> None:
    """Colours that stand in a palette beside the packets are found, whichever frame is wanted."""
    path = tmp_path / f"a.{ending}"
    palette = np.random.default_rng(0).integers(0, 256, (256, 4), np.uint8)
    palette[:, 0] = 255  # opaque
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("rawvideo", rate=25)
        stream.height, stream.width, stream.pix_fmt = *SIZE, "pal8"
        for number in range(4):
            pixels = np.full(SIZE, 20 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray((pixels, palette), format="pal8")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    data = path.read_bytes()
    info = scan_video(data)
    expected = decode_all(path)[1]

    for number in range(4):
        assert np.array_equal(
            decode_frames(data, info, np.array([number]))[number], expected[number]
        )
    assert len({frame[0, 0].tobytes() for frame in expected}) == 4
