"""Something missing in the middle of Matroska and WebM is found out; odd but sound files are left alone."""

import io
import random
from typing import Any

import av
import numpy as np
import pytest

from dali_pipes.video.decode import read_frames
from readers.video import scan_video
from readers.video.codecs.vpx import count_vp8, count_vp9
from tests.support.planes import planes
from tests.support.videos import pan, write_video

NUM_FRAMES = 40
KINDS = {"vp9.webm": "libvpx-vp9", "vp8.webm": "libvpx", "h264.mkv": "libx264", "vp8.ogv": "libvpx"}
FAST = {"cpu-used": "-8", "deadline": "realtime"}
CLUSTER = b"\x1f\x43\xb6\x75"  # its name
JUNK = b"\0TAG behind the end"
ID3 = b"TAG".ljust(128, b"\0")
UNKNOWN = b"\x42\x99\x83abc"


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """One of each kind, in groups of eight frames."""
    folder, frames = tmp_path_factory.mktemp("videos"), pan(NUM_FRAMES, (48, 64))
    found = {}
    for name, codec in KINDS.items():
        options = FAST if "vpx" in codec else {"bf": "0"}  # frames are shown as they are decoded
        path = write_video(folder / name, frames, codec=codec, gop=8, options=options)
        found[name] = path.read_bytes()
    return found


class _Pipe:
    """What can only be written to, so that no length can be filled in afterwards."""

    def __init__(self) -> None:
        self._content = bytearray()

    def write(self, piece: bytes) -> int:
        self._content += piece
        return len(piece)

    def getvalue(self) -> bytes:
        return bytes(self._content)


def remux(
    data: bytes, ending: str, *, sound_seconds: float = 0, to: Any = io.BytesIO, **options: str
) -> bytes:
    """Write the packets of a video anew, with options of the container; beside more sound, too."""
    file = to()
    kind = {"mkv": "matroska", "ogv": "ogg"}.get(ending, ending)
    with (
        av.open(io.BytesIO(data)) as read,
        av.open(file, "w", format=kind, options=options) as container,
    ):
        stream = container.add_stream_from_template(read.streams.video[0])
        sound = (
            container.add_stream("libopus", rate=48000, layout="mono") if sound_seconds else None
        )
        for packet in read.demux(video=0):
            if packet.size:
                packet.stream = stream
                container.mux(packet)
        if sound is not None:
            samples = np.zeros((1, 960), np.int16)
            for number in range(round(50 * sound_seconds)):
                clip = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
                clip.sample_rate, clip.pts = 48000, 960 * number
                container.mux(sound.encode(clip))
            container.mux(sound.encode(None))
    return file.getvalue()


def as_browsers_record(data: bytes) -> bytes:
    """Let no cluster of a recording say how long it is."""
    before, *clusters = data.split(CLUSTER)
    widths = [9 - cluster[0].bit_length() for cluster in clusters]
    opened = [b"\x01" + b"\xff" * 7 + c[width:] for c, width in zip(clusters, widths, strict=True)]
    return CLUSTER.join([before, *opened])


def pixels(data: bytes) -> list[bytes]:
    info = scan_video(data)
    found = {
        number: planes(frame) for number, frame in read_frames(data, info, np.arange(len(info)))
    }
    return [found[number] for number in range(len(info))]


@pytest.mark.parametrize("how", ["zeros", "noise", "cut"])
@pytest.mark.parametrize("name", ["vp8.webm", "h264.mkv"])
def test_a_hole_is_told(videos: dict[str, bytes], name: str, how: str) -> None:
    """What was overwritten or taken out in the middle is damage, and what is left are the frames before it."""
    data = videos[name]
    start, stop = len(data) // 2, len(data) // 2 + len(data) // 8
    middle = {
        "zeros": bytes(stop - start),
        "noise": random.Random(0).randbytes(stop - start),
        "cut": b"",
    }
    broken = data[:start] + middle[how] + data[stop:]
    info = scan_video(broken)

    assert f"{len(info)} packets" in info.damage
    assert "too early" in info.damage
    assert 8 < len(info) < NUM_FRAMES - 8
    assert pixels(broken) == pixels(data)[: len(info)]


def pages_of(data: bytes) -> list[bytes]:
    return [b"OggS" + page for page in data.split(b"OggS")[1:]]


def without_end(data: bytes) -> bytes:
    """Let no page of an Ogg say that it is the last one."""
    pages = pages_of(data)
    pages = [page[:5] + bytes([page[5] & ~4]) + page[6:] for page in pages]
    return b"".join(page[:22] + checksum(page) + page[26:] for page in pages)


def checksum(page: bytes) -> bytes:
    """Of a page of Ogg, bit by bit (RFC 3533, 6)."""
    found = 0
    for byte in page[:22] + bytes(4) + page[26:]:
        found ^= byte << 24
        for _ in range(8):
            found = found << 1 ^ (0x104C11DB7 if found >> 31 else 0)
    return found.to_bytes(4, "little")


SOUND: dict[str, Any] = {
    "recorded": lambda data: remux(data, "webm", live="1"),
    "recorded by a browser": lambda data: as_browsers_record(
        remux(data, "webm", to=_Pipe, cluster_time_limit="200", live="1")
    ),
    "sent": lambda data: remux(data, "webm", to=_Pipe, cluster_time_limit="200"),
    "sent, longer sound": lambda data: remux(data, "webm", to=_Pipe, sound_seconds=4),
    "ogg, sent": lambda data: remux(data, "ogv", to=_Pipe),
    "recorded, junk behind": lambda data: remux(data, "webm", live="1") + JUNK,
    "recorded, zeros behind": lambda data: remux(data, "webm", live="1") + bytes(5000),
    "longer sound": lambda data: remux(data, "webm", sound_seconds=4),
    "small clusters": lambda data: remux(data, "mkv", cluster_time_limit="100", sound_seconds=2),
    "without checksums": lambda data: remux(data, "mkv", write_crc32="0"),
    "room at the beginning": lambda data: remux(data, "webm", reserve_index_space="3000"),
    "junk behind": lambda data: remux(data, "webm") + JUNK,
    "zeros behind": lambda data: remux(data, "webm") + bytes(5000),
    "ogg": lambda data: remux(data, "ogv"),
    "ogg, longer sound": lambda data: remux(data, "ogv", sound_seconds=4),
    "ogg, small pages": lambda data: remux(data, "ogv", oggpagesize="500", sound_seconds=4),
    "ogg, junk behind": lambda data: remux(data, "ogv") + JUNK,
    "ogg, zeros behind": lambda data: remux(data, "ogv") + bytes(5000),
    "ogg, recorded": lambda data: without_end(remux(data, "ogv")),
    "ogg, recorded, junk behind": lambda data: without_end(remux(data, "ogv")) + JUNK,
    "ogg, recorded, a tag behind": lambda data: without_end(remux(data, "ogv")) + ID3,
    "ogg, recorded, zeros behind": lambda data: without_end(remux(data, "ogv")) + bytes(5000),
}


@pytest.mark.parametrize("kind", SOUND)
def test_sound_files_are_no_damage(videos: dict[str, bytes], kind: str) -> None:
    """Recordings, which do not say where they end, sound that is longer, and what stands behind a whole file."""
    info = scan_video(SOUND[kind](videos["vp8.webm"]))

    assert (info.damage, len(info)) == ("", NUM_FRAMES)


def test_what_is_no_frame_counts_as_one(videos: dict[str, bytes]) -> None:
    """A packet of zeros is not taken for a hidden frame, so that nothing is lost in silence."""
    for name, count in (("vp8.webm", count_vp8), ("vp9.webm", count_vp9)):
        data = videos[name]
        info = scan_video(data)
        assert len(info.packet_sizes) == NUM_FRAMES
        for place in (0, 8, 13):
            start, size = int(info.packet_offsets[place]), int(info.packet_sizes[place])
            assert count(bytes(size)) == count(data[start : start + size]) == 1
            zeroed = (
                scan_video(data[:start] + bytes(size) + data[start + size :]) if place else info
            )
            assert (len(zeroed), zeroed.damage) == (NUM_FRAMES, "")


def test_sound_that_is_missing_loses_no_frame(videos: dict[str, bytes]) -> None:
    """As in excerpts that are cut out of an Ogg, which begin with pages that do not follow each other."""
    pages = pages_of(remux(videos["vp8.ogv"], "ogv", sound_seconds=4))
    sound = [n for n, page in enumerate(pages) if page[14:18] != pages[0][14:18]]

    assert len(sound) > 5
    assert len(scan_video(b"".join(pages[: sound[4]] + pages[sound[4] + 1 :]))) == NUM_FRAMES
