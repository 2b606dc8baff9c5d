"""What a scan says of a video is what FFmpeg gives when it decodes all of it from the beginning."""

import pickle
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from dali_pipes.video.dali.support import decodes
from dali_pipes.video.decode import decode_frames
from dali_pipes.video.packets import first_packets
from readers import BadSample, Sample, SourceError, open_dataset
from readers.storage.blob import BlobPayload
from readers.video import (
    HIDDEN,
    VIDEO_FIELDS,
    FrameFolderDataset,
    VideoError,
    VideoFolderDataset,
    VideoIndex,
    VideoInfo,
    read_packets,
    scan_video,
)
from readers.video.codecs.vpx import count_vp9
from tests.support.videos import decode_all, pan, remux, write_video

NUM_FRAMES = 26
SIZE = (48, 64)
WAYS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *(("libx264", ending, {}) for ending in ("mp4", "mov", "mkv", "avi", "mts", "flv", "3gp")),
    ("libx264", "m4v", {"pixel_format": "yuv420p10le"}),
    ("libx265", "mp4", {"options": {"x265-params": "open-gop=1:log-level=none"}}),
    ("libx265", "mkv", {"options": {"x265-params": "log-level=none"}}),
    ("mpeg4", "avi", {"options": {"bf": "2"}}),
    ("mpeg4", "mp4", {"options": {"bf": "2"}}),
    ("mpeg4", "avi", {}),
    ("libvpx", "webm", {"options": {"auto-alt-ref": "1", "lag-in-frames": "12", "b": "40k"}}),
    ("libvpx-vp9", "webm", {"options": {"auto-alt-ref": "1", "lag-in-frames": "12"}}),
    ("libvpx-vp9", "mp4", {}),
    ("libsvtav1", "mp4", {"options": {"svtav1-params": "preset=12"}}),
    ("mjpeg", "avi", {"pixel_format": "yuvj420p"}),
    ("mpeg1video", "mpeg", {}),
    ("mpeg2video", "mpg", {"options": {"bf": "2"}}),
    ("mpeg2video", "m2ts", {"options": {"bf": "2", "flags": "+ildct+ilme"}}),
    ("wmv2", "wmv", {}),
)
every_way = pytest.mark.parametrize(
    ("codec", "ending", "how"),
    WAYS,
    ids=[
        f"{codec}-{ending}-{'-'.join(how.get('options', how)).replace('-params', '') or 'plain'}"
        for codec, ending, how in WAYS
    ],
)


@pytest.fixture(scope="module")
def frames() -> NDArray[np.uint8]:
    return pan(NUM_FRAMES, SIZE)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, frames: NDArray[np.uint8]) -> Path:
    """H.264 with B-frames in MP4."""
    return write_video(tmp_path_factory.mktemp("plain") / "a.mp4", frames)


def decode_packets(data: bytes, info: VideoInfo) -> dict[int, NDArray[np.uint8]]:
    """Decode every packet of an index, without a container; time stamp -> pixels."""
    context: Any = av.CodecContext.create(info.decoder, "r")
    context.extradata = info.extradata
    context.height, context.width = info.height, info.width
    found = {}
    packets = read_packets(data, info, 0, len(info.packet_pts))
    for content, pts in zip(packets, info.packet_pts.tolist(), strict=True):
        packet = av.Packet(content)
        packet.pts = pts
        found.update({frame.pts: frame for frame in context.decode(packet)})
    found.update({frame.pts: frame for frame in context.decode(None)})
    return {pts: frame.reformat(format="rgb24").to_ndarray() for pts, frame in found.items()}


def assert_same_frames(path: Path, info: VideoInfo) -> None:
    """The frames of an index are those of a whole decode, in number, order and pixels."""
    _, expected = decode_all(path)
    decoded = decode_packets(path.read_bytes(), info)

    assert len(info) == len(expected)
    for number, (pts, pixels) in enumerate(zip(info.pts.tolist(), expected, strict=True)):
        assert np.array_equal(decoded[pts], pixels), f"frame {number}"


@every_way
def test_frames_are_those_of_a_whole_decode(
    tmp_path: Path, frames: NDArray[np.uint8], codec: str, ending: str, how: dict[str, Any]
) -> None:
    """Number, order and pixels, for every codec and container; and every keyframe can be begun with."""
    path = write_video(tmp_path / f"a.{ending}", frames, codec=codec, gop=8, **how)
    info = scan_video(path.read_bytes())

    assert ending in VIDEO_FIELDS
    assert_same_frames(path, info)
    assert (len(info), info.fps) == (NUM_FRAMES, pytest.approx(25, rel=0.01))
    assert info.constant_rate
    assert not info.damage
    assert info.keyframes[0] == 0
    assert len(info.keyframes) >= 3
    assert (info.height, info.width) == SIZE


def test_offsets_are_those_of_the_file(plain: Path) -> None:
    """Packets are cut out of an MP4 without its container, and through it where they lie in pieces."""
    data = plain.read_bytes()
    info = scan_video(data)
    with av.open(BytesIO(data)) as container:
        expected = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    apart = replace(info, packet_offsets=np.empty(0, np.int64))

    assert len(info.packet_offsets) == NUM_FRAMES
    assert [bytes(packet) for packet in read_packets(data, info, 0, NUM_FRAMES)] == expected
    assert [bytes(packet) for packet in read_packets(data, apart, 7, 11)] == expected[7:11]


def test_times_of_variable_rate(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """Time stamps are the container's, to the tick."""
    pts = np.cumsum([0, *np.random.default_rng(0).integers(200, 3000, NUM_FRAMES - 1)]).tolist()
    info = scan_video(write_video(tmp_path / "a.mp4", frames, pts=pts).read_bytes())

    assert (info.time_base, info.pts.tolist()) == (Fraction(1, 12800), pts)
    assert info.seconds.tolist() == [stamp / 12800 for stamp in pts]
    assert not info.constant_rate


def test_seconds_are_rounded_once(plain: Path) -> None:
    """Times are the nearest numbers to the fractions that they are, for rates such as 30000 / 1001."""
    info = replace(scan_video(plain.read_bytes()), time_base=Fraction(1001, 30000))

    assert info.seconds.tolist() == [float(stamp * info.time_base) for stamp in info.pts.tolist()]


def test_avi_does_not_say_the_order_of_frames(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """H.264 with B-frames in AVI is numbered as it is shown; its own time stamps number packets."""
    path = write_video(tmp_path / "a.avi", frames, options={"bf": "3"})
    info = scan_video(path.read_bytes())
    with av.open(str(path)) as container:
        own = [packet.pts for packet in container.demux(video=0) if packet.size]

    assert own == sorted(own)  # which is the order of decoding
    assert info.packet_pts.tolist() != sorted(info.packet_pts.tolist())
    assert np.diff(info.pts).tolist() == [1] * (NUM_FRAMES - 1)


def test_edit_list(tmp_path: Path, plain: Path) -> None:
    """What an edit list cuts off at the beginning is no frame, but is decoded for those behind it."""

    def move(_: int, packet: Any) -> bool:
        packet.pts, packet.dts = packet.pts - 5 * 512, packet.dts - 5 * 512
        return True

    path = remux(plain, tmp_path / "a.mp4", move, options={"avoid_negative_ts": "disabled"})
    info = scan_video(path.read_bytes())

    assert (len(info.packet_pts), (info.packet_pts >= HIDDEN).sum()) == (NUM_FRAMES, 5)
    assert_same_frames(path, info)


def test_invisible_frame_of_vp8(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """A frame that its header hides is no frame, but is decoded for those that refer to it."""

    def hide(number: int, packet: Any) -> bool:
        if number == 9:
            content = bytearray(bytes(packet))
            content[0] &= ~0x10  # show_frame, RFC 6386, 9.1
            packet.update(bytes(content))
        return True

    source = write_video(tmp_path / "a.webm", frames, codec="libvpx", gop=30)
    path = remux(source, tmp_path / "b.webm", hide)
    info = scan_video(path.read_bytes())

    assert (len(info), np.flatnonzero(info.packet_pts >= HIDDEN).tolist()) == (NUM_FRAMES - 1, [9])
    assert_same_frames(path, info)


def test_video_without_keyframes(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """Where no packet is marked as one the list of them is empty, and decoding begins at the first packet."""

    def forget(_: int, packet: Any) -> bool:
        packet.is_keyframe = False
        return True

    source = write_video(tmp_path / "a.mkv", frames, codec="msmpeg4", gop=10)
    folder = tmp_path / "videos"
    folder.mkdir()
    path = remux(source, folder / "b.mkv", forget)
    index = VideoIndex.open(VideoFolderDataset(folder))
    for info in (scan_video(path.read_bytes()), index[0]):
        assert isinstance(info, VideoInfo)
        assert (info.keyframes.dtype, info.keyframes.shape) == (np.int64, (0,))
        assert first_packets(info, np.array([17, 3])).tolist() == [0, 0]
        assert_same_frames(path, info)
        assert set(decode_frames(path.read_bytes(), info, np.array([25, 3]))) == {3, 25}


def test_frames_that_a_packet_of_vp9_shows() -> None:
    """By section 6.2 and annex B of the VP9 specification, for both lengths of its first bits."""
    shown, hidden, existing = b"\x86aaa", b"\x84bb", b"\x88"
    superframe = hidden + shown + bytes([0b110_00_001, len(hidden), len(shown), 0b110_00_001])

    assert [count_vp9(one) for one in (shown, hidden, existing)] == [1, 0, 1]
    assert count_vp9(superframe) == 1
    assert count_vp9(shown + superframe[len(hidden + shown) :]) != 2  # the sizes are of others
    assert [count_vp9(bytes([0b1011_0010 | show])) for show in (0, 1)] == [0, 1]  # profile 3


@pytest.mark.parametrize("between", [1, 2])
def test_packed_frames_of_mpeg4(tmp_path: Path, frames: NDArray[np.uint8], between: int) -> None:
    """AVI of old encoders holds two frames in one packet, and an empty one behind the group."""
    options = {"bf": str(between), "b_strategy": "0"}
    source = write_video(tmp_path / "a.m4v", frames, codec="mpeg4", gop=60, options=options)
    with av.open(str(source)) as read:
        contents = [bytes(packet) for packet in read.demux(video=0) if packet.size]
        header = bytes(read.streams.video[0].codec_context.extradata or b"")
    types = [content[content.index(b"\0\0\1\xb6") + 4] >> 6 for content in contents]  # 2 is B
    # A picture that is not coded: P, at time 0, by ISO 14496-2, 6.2.5.
    nothing = b"\0\0\1\xb6\x50\x4f"
    author = b"\0\0\1\xb2DivX503b1393p"  # p says that frames are packed
    packed: list[bytes] = []
    for content, kind, before, after in zip(
        contents, types, [0, *types], [*types[1:], 0], strict=False
    ):
        if kind == 2 and before != 2:
            packed[-1] += content
        else:
            packed.append(content)
        if kind == 2 and after != 2:
            packed.append(nothing)
    path = tmp_path / "b.avi"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("mpeg4", rate=25)
        stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        for number, content in enumerate(packed):
            packet = av.Packet(header + author + content if not number else content)
            packet.pts = packet.dts = number
            packet.time_base, packet.stream = Fraction(1, 25), stream
            packet.is_keyframe = types[0] == 0 and number == 0
            container.mux(packet)
    info = scan_video(path.read_bytes())

    assert 2 in types
    assert len(info) == NUM_FRAMES
    assert_same_frames(path, info)
    data = path.read_bytes()
    together = decode_frames(data, info, np.arange(NUM_FRAMES))
    for number in range(NUM_FRAMES):
        [alone] = decode_frames(data, info, np.array([number])).values()
        assert np.array_equal(alone, together[number]), f"frame {number}"
    assert not decodes(info, "mixed")


def test_beginning_without_a_keyframe(tmp_path: Path, plain: Path) -> None:
    """Frames that cannot be decoded, since their keyframe is missing, do not count."""
    path = remux(plain, tmp_path / "a.mkv", lambda number, _: number >= 5)
    info = scan_video(path.read_bytes())

    assert len(decode_all(path)[1]) < NUM_FRAMES - 5
    assert_same_frames(path, info)


def test_wrong_keyframes(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """Where every packet claims to be a keyframe, those are kept that decoding can begin with."""
    path = write_video(tmp_path / "a.avi", frames, codec="msmpeg4v2", gop=8)
    data = bytearray(path.read_bytes())
    table = data.index(b"idx1") + 8
    for entry in range(table, table + 16 * NUM_FRAMES, 16):
        data[entry + 4] |= 0x10  # AVIIF_KEYFRAME
    with av.open(BytesIO(data)) as container:
        claimed = [packet.is_keyframe for packet in container.demux(video=0) if packet.size]

    assert all(claimed)
    assert scan_video(bytes(data)).keyframes.tolist() == [0, 8, 16, 24]


def test_repeated_time_stamps(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """Frames that claim one moment are told apart, in the order in which they are decoded."""

    def repeat(_: int, packet: Any) -> bool:
        packet.pts = packet.dts = packet.pts // 1024 * 1024
        return True

    source = write_video(tmp_path / "a.mp4", frames, options={"bf": "0"})
    path = remux(source, tmp_path / "a.mkv", repeat)
    info = scan_video(path.read_bytes())

    assert len(set(decode_all(path)[0].tolist())) == NUM_FRAMES // 2

    assert len(set(info.pts.tolist())) == NUM_FRAMES
    assert_same_frames(path, info)


@pytest.mark.parametrize(
    "flags", ["faststart", "frag_keyframe+empty_moov", "frag_every_frame+default_base_moof"]
)
def test_mp4_of_other_layouts(tmp_path: Path, plain: Path, flags: str) -> None:
    """The header in front, and fragments, give the packets of the same video."""
    path = remux(plain, tmp_path / "a.mp4", lambda *_: True, options={"movflags": flags})
    data = path.read_bytes()
    info, expected = scan_video(data), scan_video(plain.read_bytes())

    assert data != plain.read_bytes()
    assert_same_frames(path, info)
    assert info.packet_sizes.tolist() == expected.packet_sizes.tolist()
    assert info.keyframes.tolist() == expected.keyframes.tolist()


@pytest.mark.parametrize("ending", ["mp4", "mkv", "avi"])
def test_file_that_breaks_off(tmp_path: Path, frames: NDArray[np.uint8], ending: str) -> None:
    """The frames before the end are there, and `damage` says what is missing."""
    path = write_video(tmp_path / f"whole.{ending}", frames, gop=8, options={"bf": "0"})
    if ending == "mp4":
        flags = {"movflags": "faststart"}
        path = remux(path, tmp_path / "fast.mp4", lambda *_: True, options=flags)
    data = path.read_bytes()
    info = scan_video(data[: len(data) * 6 // 10])
    whole = scan_video(data)

    assert 5 < len(info) < NUM_FRAMES
    assert info.packet_sizes.tolist() == whole.packet_sizes[: len(info)].tolist()
    assert str(len(data) - len(data) * 6 // 10) in info.damage
    assert not whole.damage


def with_cover(path: Path, frames: NDArray[np.uint8], *, film: bool) -> Path:
    """Write a picture marked as the cover before a film, or with sound alone."""
    jpeg = write_video(
        path.with_name("cover.avi"), frames[:1, :16, :16], codec="mjpeg", pixel_format="yuvj420p"
    )
    with av.open(str(jpeg)) as still, av.open(str(path), "w") as container:
        cover = container.add_stream_from_template(still.streams.video[0])
        cover.disposition = av.stream.Disposition.attached_pic
        if film:
            stream: Any = container.add_stream("mpeg4", rate=25)
            stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
        else:
            stream = container.add_stream("aac", rate=48000)
        [packet] = [one for one in still.demux(video=0) if one.size]
        packet.stream = cover
        container.mux(packet)
        for pixels in frames if film else ():
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        if not film:
            silence = np.zeros((1, 2048), np.int16)
            sound = av.AudioFrame.from_ndarray(silence, format="s16", layout="stereo")
            sound.sample_rate = 48000
            container.mux(stream.encode(sound))
        container.mux(stream.encode(None))
    return path


def test_cover_is_no_video(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """A cover picture is passed over; alone it is no video."""
    info = scan_video(with_cover(tmp_path / "film.mp4", frames, film=True).read_bytes())

    assert (info.codec, len(info)) == ("mpeg4", NUM_FRAMES)
    song = with_cover(tmp_path / "song.mp4", frames, film=False)
    with pytest.raises(VideoError, match="no video stream, only a cover picture, audio"):
        scan_video(song.read_bytes())


@pytest.mark.parametrize(
    ("ending", "defaults"), [("mkv", (False, True)), ("mp4", (False, True)), ("mp4", (True, True))]
)
def test_best_stream_is_taken(
    tmp_path: Path, frames: NDArray[np.uint8], ending: str, defaults: tuple[bool, bool]
) -> None:
    """Of two streams that which FFmpeg takes: the default one, of several the one with more bits, here the second."""
    path = tmp_path / f"a.{ending}"
    with av.open(str(path), "w") as container:
        streams: list[Any] = [container.add_stream("mpeg4", rate=25) for _ in range(2)]
        for stream, size, is_default in zip(streams, (16, 32), defaults, strict=True):
            stream.disposition = av.stream.Disposition(int(is_default))
            stream.height, stream.width, stream.pix_fmt = size, size, "yuv420p"
        for number in range(5):
            for stream, size in zip(streams, (16, 32), strict=True):
                pixels = np.ascontiguousarray(frames[number, :size, :size])
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                frame.pts = number
                container.mux(stream.encode(frame))
        for stream in streams:
            container.mux(stream.encode(None))
    data = path.read_bytes()
    info = scan_video(data)
    with av.open(str(path)) as container:
        best: Any = container.streams.best("video").index

    assert (info.stream_index, info.num_streams) == (best, 2)
    assert (info.stream_index, info.height, len(info)) == (1, 32, 5)
    assert len(decode_packets(data, info)) == 5


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_rotation_is_that_of_ffmpeg(
    tmp_path: Path, frames: NDArray[np.uint8], rotation: int
) -> None:
    """Decoded frames turned clockwise by `rotation` are what the program ffmpeg shows."""
    path = write_video(tmp_path / "a.mp4", frames[:1], rotation=rotation, options={"crf": "5"})
    info = scan_video(path.read_bytes())
    turned = np.rot90(decode_all(path)[1][0], -info.rotation // 90)

    assert (info.height, info.width) == turned.shape[:2]
    assert info.rotation == (360 - rotation) % 360  # written counterclockwise
    program = shutil.which("ffmpeg")
    if program is None:
        pytest.skip("the program ffmpeg is not here to compare with")
    command = [program, "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    shown = np.frombuffer(
        subprocess.run(command, capture_output=True, check=True).stdout, np.uint8
    ).reshape(turned.shape)
    assert np.abs(shown.astype(int) - turned).mean() < 2
    for wrong in range(1, 4):
        other = np.rot90(turned, wrong)
        assert other.shape != shown.shape or np.abs(shown.astype(int) - other).mean() > 8


def no_video() -> Iterator[tuple[str, bytes, str]]:
    yield "empty", b"", "the file is empty"
    yield "text", b"hello\n" * 99, "FFmpeg: Invalid data"
    yield "noise", np.random.default_rng(0).bytes(100_000), "FFmpeg: Invalid data"
    yield "mpeg-noise", b"\0\0\1\xba" + np.random.default_rng(0).bytes(100_000), "."


@pytest.mark.parametrize(
    ("data", "reason"), [case[1:] for case in no_video()], ids=[case[0] for case in no_video()]
)
def test_what_is_no_video(data: bytes, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    """The reason is short, and FFmpeg writes nothing to stderr."""
    with pytest.raises(VideoError, match=reason):
        scan_video(data)
    assert capfd.readouterr() == ("", "")


def test_parts_of_mp4_that_are_not_enough(plain: Path) -> None:
    """Without the header there is nothing, and the reason says how much is missing."""
    data = plain.read_bytes()

    with pytest.raises(VideoError, match="bytes too early"):
        scan_video(data[: len(data) // 2])
    with pytest.raises(VideoError, match=r"codec is none that FFmpeg knows|can be decoded"):
        scan_video(data.replace(b"avc1", b"zzzz"))


def test_claims_of_huge_frames(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """A header of 16,000 x 16,000 pixels is refused by FFmpeg itself, before it makes room for them."""
    path = write_video(tmp_path / "a.mov", frames[:2], codec="mjpeg", pixel_format="yuvj420p")
    data = path.read_bytes()
    size = struct.pack(">HH", *SIZE)
    huge = data.replace(b"\xff\xc0\x00\x11\x08" + size, b"\xff\xc0\x00\x11\x08" + b"\x3e\x80" * 2)

    assert huge.count(b"\xff\xc0\x00\x11\x08\x3e\x80\x3e\x80") == 2
    with pytest.raises(VideoError, match="no frame of at most 134,217,728 pixels can be decoded"):
        scan_video(huge)


def test_deadline(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that takes too long is given up, in words."""
    monkeypatch.setattr("readers.video.scan.SCAN_SECONDS", 0.0)

    with pytest.raises(VideoError, match="it takes longer than 0 s to look through"):
        scan_video(plain.read_bytes())


def test_without_pyav(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the line that installs it; it is no verdict on the video."""
    monkeypatch.setitem(sys.modules, "av", None)

    with pytest.raises(SourceError, match=r"pip install 'gpu-aug\[video\]'"):
        scan_video(plain.read_bytes())


def test_random_damage_is_answered(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever is broken, the answer is frames or a reason, never another error or a hang."""
    data, generator = plain.read_bytes(), np.random.default_rng(0)
    answers = []
    for _ in range(60):
        broken = bytearray(data)
        for place in generator.integers(0, len(data), 12):
            broken[place] ^= 1 << int(generator.integers(8))
        try:
            answers.append(len(scan_video(bytes(broken))) > 0)
        except VideoError:
            answers.append(False)

    assert {True, False} <= set(answers)
    assert capfd.readouterr() == ("", "")


def test_samples_know_their_video() -> None:
    """The first field that ends like a video, or the one that the format names."""
    fields = {"jpg": b"i", "json": b"{}", "left.mp4": b"v", "webm": b"w"}

    assert (Sample(0, "a", fields).video_field, Sample(0, "a", fields).video) == ("left.mp4", b"v")
    assert Sample(0, "a", fields, image_field="jpg").video == b"v"
    assert Sample(0, "a", {"bytes": b"v", "cls": b"1"}, image_field="bytes").video == b"v"
    assert Sample(0, "a", {"video": b"v"}).video == b"v"
    assert Sample(0, "a", {"jpg": b"i", "ts": b"17"}).video_field is None
    assert Sample(0, "a", {"jpg": b"i"}).video is None


def test_videos_in_parquet(tmp_path: Path, plain: Path) -> None:
    """A column of videos is the video of its samples, called ``video`` or anything else."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for name, more in (("video", {}), ("movie", {}), ("video", {"audio": [b"x"], "clip": [b"y"]})):
        table = {**more, name: [plain.read_bytes()], "label": [4]}
        parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
        [sample] = open_dataset(tmp_path / "a.parquet").fetch([0])

        assert (sample.video_field, sample.label) == (name, 4)
        assert bytes(sample.video) == plain.read_bytes()


def grow_frames(root: Path, jpeg: Callable[..., bytes], names: dict[str, int]) -> Path:
    """Write folders with so many numbered pictures each; the number is also in the height."""
    for name, count in names.items():
        (root / name).mkdir(parents=True)
        for number in range(1, count + 1):
            (root / name / f"img_{number}.jpg").write_bytes(jpeg(20 + number, 33))
    return root


def test_frame_folders(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Frames are read one by one, in the order of their numbers; classes are the folders above."""
    grow_frames(tmp_path, jpeg, {"run/b": 12, "jump/a": 3, "jump/c": 1})
    dataset = FrameFolderDataset(tmp_path, fps=12.5)
    info = dataset.info(2)
    read = dataset.fetch_frames(2, [11, 0, 0])

    assert [(entry.key, entry.label) for entry in dataset.fetch([0, 1, 2])] == [
        ("jump/a", 0),
        ("jump/c", 0),
        ("run/b", 1),
    ]
    assert isinstance(info, VideoInfo)
    assert (len(info), info.codec, info.fps, info.height, info.width) == (
        12,
        "frames",
        12.5,
        21,
        33,
    )
    assert read == [
        jpeg(32, 33),
        jpeg(21, 33),
        jpeg(21, 33),
    ]  # img_12, though img_2 is behind it by letters
    with pytest.raises(IndexError):
        dataset.fetch_frames(2, [12])


def test_frame_folder_reads_only_what_is_wanted(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """A frame that is gone is a bad sample when it is wanted, and nothing else."""
    root = grow_frames(tmp_path, jpeg, {"a": 4, "b": 2})
    dataset = FrameFolderDataset(root)
    (root / "a/img_3.jpg").unlink()
    (root / "a/img_3.jpg").symlink_to("nowhere")
    bad, good = dataset.fetch_frames(0, [2, 3])

    assert bad.reason == "the file img_3.jpg cannot be read: No such file or directory"
    assert (good, dataset.class_names) == (jpeg(24, 33), ())


def test_list_of_frame_folders(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """A line is a folder, its number of frames and its label, as lists of raw frames have them."""
    grow_frames(tmp_path, jpeg, {"x/a b": 5, "c": 3})
    (tmp_path / "train.txt").write_text("# raw frames\nx/a b 4 7\nc 2\nc\nc 9 1\n")
    dataset = open_dataset(tmp_path / "train.txt")
    infos = [dataset.info(index) for index in range(4)]

    assert isinstance(dataset, FrameFolderDataset)
    assert dataset.column("label").tolist() == [7, 2, -1, 1]
    assert [len(info) for info in infos] == [4, 3, 3, 3]
    assert [info.damage for info in infos] == ["", "", "", "there are 3 frames of 9"]


@pytest.mark.filterwarnings("ignore:.*do not begin at 0 or 1")
@pytest.mark.parametrize(
    ("pattern", "numbers", "are_frames"),
    [
        ("img_{:05d}.jpg", (1, 2, 3), True),
        ("frame{:04d}.jpg", (0, 1), True),
        ("img_{:05d}.jpg", (1, 2, 9), False),
        ("img_{:05d}.jpg", (7, 8, 9), False),
        ("IMG_{:04d}.jpg", (1, 2, 3), False),
        ("IMG_{:04d}.JPG", (1234, 1235), False),
    ],
    ids=["from-1", "from-0", "far", "from-7", "camera", "camera-later"],
)
def test_photographs_are_no_frames(
    tmp_path: Path,
    jpeg: Callable[..., bytes],
    pattern: str,
    numbers: tuple[int, ...],
    are_frames: bool,
) -> None:
    """What cameras call IMG_1234.jpg, and numbers far apart, stay the images of their class."""
    (tmp_path / "class/images").mkdir(parents=True)
    for number in numbers:
        (tmp_path / "class/images" / pattern.format(number)).write_bytes(jpeg(20, 20))

    assert isinstance(open_dataset(tmp_path), FrameFolderDataset) == are_frames


@pytest.mark.parametrize("change", ["fewer", "more", "renamed"])
def test_frame_folder_that_changed(tmp_path: Path, jpeg: Callable[..., bytes], change: str) -> None:
    """Frames of a folder whose pictures are others than at first are bad, also elsewhere; its neighbour's are good."""
    root = grow_frames(tmp_path, jpeg, {"a": 4, "b": 2})
    dataset = FrameFolderDataset(root)
    dataset.fingerprint  # noqa: B018  # looks at all names
    first = root / "a/img_1.jpg"
    if change == "fewer":
        first.unlink()
    else:
        first.rename(root / "a/img_9.jpg")
    if change == "more":
        for number in (1, 5):
            (root / f"a/img_{number}.jpg").write_bytes(jpeg(20, 20))
    for one in (dataset, pickle.loads(pickle.dumps(dataset))):
        bad = one.fetch_frames(0, [0, 3])

        assert [(entry.key, entry.reason) for entry in bad] == [
            ("a", "its folder has changed since it was indexed")
        ] * 2
        assert isinstance(one.fetch([0])[0], BadSample)
        assert isinstance(one.info(0), VideoError)
        assert one.fetch_frames(1, [1]) == [jpeg(22, 33)]
    assert len(FrameFolderDataset(root).fetch_frames(0, [0])[0]) > 100


def test_fingerprint_knows_the_bound_on_frames(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """The same pictures under another promise of how many there are are other data."""
    grow_frames(tmp_path, jpeg, {"c": 3})
    prints = set()
    for line in ("c 3 0", "c 9 0", "c 0"):
        (tmp_path / "train.txt").write_text(line)
        prints.add(FrameFolderDataset(tmp_path / "train.txt").fingerprint)

    assert len(prints) == 3


@pytest.mark.parametrize(
    "rest", [b"\x7f\xff\xff\xffABCD", b"hello, world" * 9, b"\0" * 99], ids=["box", "text", "zeros"]
)
def test_what_stands_behind_a_whole_mp4_is_no_damage(plain: Path, rest: bytes) -> None:
    """Boxes of unknown kinds do not count, whatever length they claim; of known ones they do."""
    data = plain.read_bytes()

    assert scan_video(data + rest).damage == ""
    assert "bytes too early" in scan_video(data + b"\x7f\xff\xff\xffmdat").damage


def test_h261_is_refused(tmp_path: Path) -> None:
    """Its packets alone do not give FFmpeg's frames."""
    path = write_video(tmp_path / "a.avi", pan(4, (144, 176)), codec="h261")

    with pytest.raises(VideoError, match="its codec, h261, is not decoded exactly: convert it"):
        scan_video(path.read_bytes())


def test_file_without_streams(plain: Path) -> None:
    """The reason does not speak of what there is when there is nothing."""
    with pytest.raises(VideoError, match=r"^it has no streams$"):
        scan_video(plain.read_bytes().replace(b"trak", b"free"))


ODD: dict[str, Callable[[Path, NDArray[np.uint8]], bytes]] = {
    "intra": lambda path, frames: write_video(path, frames, gop=1).read_bytes(),
    "turned": lambda path, frames: write_video(path, frames, rotation=90).read_bytes(),
    "with sound": lambda path, frames: write_video(path, frames, audio=True).read_bytes(),
    "later": lambda path, frames: write_video(
        path, frames, pts=[512 * n * n + 9000 for n in range(NUM_FRAMES)]
    ).read_bytes(),
    "cut": lambda path, frames: fast_start(write_video(path, frames))[:-2000],
    "no moov": lambda path, frames: write_video(path, frames).read_bytes()[:-2000],
    "a picture": lambda *_: b"\x89PNG\r\n\x1a\n" + bytes(4000),
    "empty": lambda *_: b"",
}


def fast_start(path: Path) -> bytes:
    """A copy whose tables precede the packets."""
    options = {"options": {"movflags": "faststart"}}
    return remux(path, path.with_name("fast.mp4"), lambda *_: True, **options).read_bytes()


class Parts:
    """A blob that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size_bytes, self.spans = data, len(data), list[tuple[int, int]]()
        self.name = self.location = self.stamp = ""

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return bytes of ranges."""
        self.spans += ranges
        return [self.data[start:stop] for start, stop in ranges]

    def content(self) -> bytes:
        """Return all bytes."""
        return self.data


def scanned(data: Any) -> dict[str, Any]:
    """The values of a scan, or its reason."""
    try:
        info = scan_video(data)
    except VideoError as error:
        return {"reason": str(error)}
    return {one.name: np.asarray(getattr(info, one.name)).tolist() for one in fields(info)}


@pytest.mark.parametrize(
    ("codec", "ending", "how"), [way for way in WAYS if way[1] in ("mp4", "mov", "3gp", "m4v")]
)
def test_parts_of_a_file_tell_what_all_of_it_tells(
    codec: str, ending: str, how: dict[str, Any], tmp_path: Path, frames: NDArray[np.uint8]
) -> None:
    """Of MP4, of which most is not read where it is large."""
    data = write_video(tmp_path / f"a.{ending}", frames, codec=codec, **how).read_bytes()

    assert scanned(BlobPayload(Parts(data))) == scanned(data)


@pytest.mark.parametrize("name", ODD)
def test_parts_of_an_odd_file(name: str, tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """It is read from front to back where its tables do not suffice."""
    data = ODD[name](tmp_path / "a.mp4", frames)

    assert scanned(BlobPayload(Parts(data))) == scanned(data)


def test_few_parts_are_read(tmp_path: Path) -> None:
    """Both ends, and the first frames."""
    frames = np.random.default_rng(0).integers(0, 256, (60, 240, 320, 3), np.uint8)
    parts = Parts(
        write_video(
            tmp_path / "a.mp4", frames, gop=2, options={"preset": "ultrafast", "qp": "8"}
        ).read_bytes()
    )
    scan_video(BlobPayload(parts))
    read = np.zeros(parts.size_bytes, bool)
    for start, stop in parts.spans:
        read[start:stop] = True

    assert parts.size_bytes > 4_000_000
    assert read.sum() < parts.size_bytes / 4


def test_other_containers_are_not_read_in_parts(tmp_path: Path, frames: NDArray[np.uint8]) -> None:
    """They would have to be read whole."""
    data = write_video(tmp_path / "a.mkv", frames).read_bytes()

    with pytest.raises(VideoError, match="only MP4 is read: copy the dataset here"):
        scan_video(BlobPayload(Parts(data)))
