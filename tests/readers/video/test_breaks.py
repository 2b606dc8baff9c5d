"""Something missing in the middle of Matroska, WebM and Ogg is found out; odd but sound files are left alone."""

import io
import random
import re
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from dali_pipes.video.decode import read_frames
from readers.video import VideoError, scan_video
from readers.video import scan as scan_module
from readers.video.codecs.vpx import count_vp8, count_vp9
from readers.video.containers import extent, matroska
from readers.video.containers.breaks import Break
from readers.video.containers.open import Deadline
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


def find_break(data: bytes, seconds: float = 60) -> Break | None:
    return extent.find_break(data, Deadline(seconds))


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
@pytest.mark.parametrize("name", KINDS)
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

    assert info.damage.startswith(f"the file breaks off after {len(info)} packets")
    assert 8 < len(info) < NUM_FRAMES / 2 + 4
    assert pixels(broken) == pixels(data)[: len(info)]


@pytest.mark.parametrize("name", KINDS)
def test_zeros_to_the_end(videos: dict[str, bytes], name: str) -> None:
    """A file of which only the beginning was written is no shorter video; where nothing is left it is none."""
    data = videos[name]
    half = data[: len(data) // 2].ljust(len(data), b"\0")

    assert 8 < len(scan_video(half)) < NUM_FRAMES / 2 + 4
    assert "breaks off" in scan_video(half).damage
    if offsets := scan_video(data).packet_offsets.tolist():
        with pytest.raises(VideoError, match="the file breaks off after 0 packets"):
            scan_video(data[: offsets[1]].ljust(len(data), b"\0"))


def pages_of(data: bytes) -> list[bytes]:
    return [b"OggS" + page for page in data.split(b"OggS")[1:]]


def test_a_page_of_ogg_that_is_missing(videos: dict[str, bytes]) -> None:
    """The number of the page behind it tells, though each page is whole. Between headers and frames one may be missing."""
    pages = pages_of(videos["vp8.ogv"])
    headers = [page for page in pages if page[6:14] == bytes(8)]

    for gone in range(len(headers) + 1, len(pages)):
        found = find_break(b"".join(pages[:gone] + pages[gone + 1 :]))
        if gone + 1 < len(pages):
            assert found is not None
            assert f"page {gone} of a stream is missing at byte" in found.reason
            assert found.sound <= sum(map(len, pages[:gone]))
    assert len(pages) > len(headers) + 4
    assert find_break(b"".join(headers + pages[len(headers) + 1 :])) is None


def test_every_byte_of_ogg_counts(videos: dict[str, bytes]) -> None:
    """Its checksums find a single bit; a page that is cut off is told, too, and a file that ends between two is not."""
    data = videos["vp8.ogv"]
    for place in random.Random(0).sample(range(200, len(data)), 50):
        broken = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        found = find_break(broken)
        assert found is not None
        assert found.sound <= place

    assert "cut off" in scan_video(data[:-9]).damage
    assert find_break(b"".join(pages_of(data)[:-1])) is None  # a recording that goes on


def noisy_pages(folder: Path, size: tuple[int, int]) -> list[bytes]:
    """Pages of packets that are longer than a page."""
    noise = np.random.default_rng(0).integers(0, 256, (3, *size, 3), np.uint8)
    options = {"qmin": "0", "qmax": "2", "b": "100M", **FAST}
    path = write_video(folder / "a.ogv", noise, codec="libvpx", gop=1, options=options)
    return pages_of(path.read_bytes())


def test_packets_on_two_pages_go_with_either(tmp_path: Path) -> None:
    """A packet that begins on a sound page and ends on a damaged one is damaged."""
    pages = noisy_pages(tmp_path, (240, 320))
    opened = next(n for n, page in enumerate(pages) if page[26 + page[26]] == 255)
    broken = [page if n != opened + 1 else page[:-1] + b"?" for n, page in enumerate(pages)]
    found = find_break(b"".join(broken))

    assert found is not None
    assert found.sound == sum(map(len, pages[:opened]))
    assert find_break(b"".join(pages)) is None


def test_packets_on_many_pages_go_from_their_first(tmp_path: Path) -> None:
    """A packet that is cut off on its third page or later is damaged from where it begins, on the first."""
    pages = noisy_pages(tmp_path, (480, 640))
    lengths = [page[27 : 27 + page[26]] for page in pages]
    opened = [n for n in range(2, len(pages)) if lengths[n - 1][-1] < 255 == lengths[n][-1]]
    first = next(n for n in opened if {*lengths[n + 1], *lengths[n + 2]} == {255})
    cut = find_break(b"".join(pages[: first + 4])[:-9])
    zeroed = find_break(b"".join(pages[: first + 3]) + bytes(5000))

    for found, reason in ((cut, "a page of Ogg is cut off"), (zeroed, "there is no page of Ogg")):
        assert found is not None
        assert reason in found.reason
        assert found.sound == sum(map(len, pages[:first]))


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
    "two recordings": lambda data: 2 * remux(data, "webm", live="1"),
    "recorded, cut off": lambda data: remux(data, "webm", live="1")[:-3000],
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
def test_sound_files_have_no_break(videos: dict[str, bytes], kind: str) -> None:
    """Recordings, which do not say where they end, sound that is longer, and what stands behind a whole file."""
    data = SOUND[kind](videos["vp8.webm"])

    assert find_break(data) is None
    if kind not in ("two recordings", "recorded, cut off"):
        assert scan_video(data).damage == ""
        assert len(scan_video(data)) == NUM_FRAMES


@pytest.mark.parametrize("name", ["vp8.webm", "h264.mkv"])
@pytest.mark.parametrize("live", ["0", "1"])
def test_a_beginning_has_no_break(videos: dict[str, bytes], name: str, live: str) -> None:
    """Wherever a file ends too early: that is told otherwise, and nothing before its end is wrong."""
    data = remux(videos[name], "webm" if "vp8" in name else "mkv", live=live)
    segment = data.index(b"\x18\x53\x80\x67") + 12

    for stop in [*range(segment, segment + 400), *range(len(data) - 400, len(data))]:
        assert find_break(data[:stop]) is None


def test_a_length_that_does_not_fit(videos: dict[str, bytes]) -> None:
    """A block that says that it is longer than its cluster is a break, though FFmpeg reads on."""
    data = videos["vp8.webm"]
    place = (
        scan_video(data).packet_offsets.tolist()[-1] - 7
    )  # a name, two bytes of length, four of its own
    assert data[place] == 0xA3
    found = find_break(data[: place + 1] + b"\x7f\xf0" + data[place + 3 :])

    assert found is not None


@pytest.mark.parametrize("open_clusters", [False, True])
def test_holes_in_recordings(videos: dict[str, bytes], open_clusters: bool) -> None:
    """They are told where something stands behind them."""
    data = remux(videos["vp8.webm"], "webm", live="1")
    data = as_browsers_record(data) if open_clusters else data
    hole = data[: len(data) // 3] + bytes(3000) + data[len(data) // 3 + 3000 :]

    assert "breaks off" in scan_video(hole).damage


def test_holes_in_recordings_of_ogg(videos: dict[str, bytes]) -> None:
    """What stands between pages is a hole however short; so is the rest of a packet, and a page without its name."""
    pages = pages_of(without_end(remux(videos["vp8.webm"], "ogv", oggpagesize="500")))
    number = max(n for n, page in enumerate(pages) if len(page) < 900)
    before, last = b"".join(pages[:number]), pages[number]

    for name in (b"?ggS", b"????"):
        assert find_break(before + name + last[4:]) is not None
    for hole in (bytes(100), JUNK, bytes(5000)):
        found = find_break(before + hole + last)
        assert found is not None
        assert found.sound == len(before)
    assert find_break(before + b"Ogg") is not None


@pytest.mark.parametrize("count", [1, 2, 3, 9])
@pytest.mark.parametrize("open_clusters", [False, True])
def test_elements_of_later_versions(
    videos: dict[str, bytes], count: int, open_clusters: bool
) -> None:
    """Elements of unknown kinds are passed over, between known ones and at an end; one of a wrong length is a break."""
    data = remux(videos["vp8.webm"], "webm", live="1", cluster_time_limit="400")
    data = as_browsers_record(data) if open_clusters else data
    places = [match.start() for match in re.finditer(CLUSTER, data)]
    new = count * UNKNOWN

    assert len(places) > 2
    for place in places:
        assert find_break(data[:place] + new + data[place:]) is None
        assert find_break(data[:place] + new[:-1] + data[place:]) is not None
    assert find_break(data + new) is None


def test_unknown_elements_at_the_end_of_a_cluster(videos: dict[str, bytes]) -> None:
    """They are passed over where the cluster says how long it is, and its frames are all there."""
    data = remux(videos["vp8.webm"], "webm", live="1")
    place = data.index(CLUSTER) + 4
    data = data[: data.index(CLUSTER, place)] if CLUSTER in data[place:] else data
    info = scan_video(data)
    width = 9 - data[place].bit_length()

    def grown(more: bytes) -> bytes:
        content = data[place + width :] + more
        return data[:place] + (1 << 56 | len(content)).to_bytes(8, "big") + content

    found = scan_video(grown(3 * UNKNOWN))
    assert (found.damage, len(found)) == ("", len(info))
    assert find_break(grown((3 * UNKNOWN)[:-1])) is not None


def test_blocks_outside_of_clusters(videos: dict[str, bytes]) -> None:
    """Where the head of a cluster was taken out its blocks are not taken for unknown elements."""
    data = remux(videos["vp8.webm"], "mkv", cluster_time_limit="200")
    heads = [match.start() for match in re.finditer(CLUSTER, data)]
    block = data.index(b"\xa3", heads[2])
    found = find_break(data[: heads[2]] + data[block:])

    assert found is not None
    assert found.reason.endswith(f"at byte {heads[2]}")


def test_unknown_element_around_a_cluster(videos: dict[str, bytes]) -> None:
    """What is as long as to hide a cluster that can be seen is a break, though all goes on well behind it."""
    data = remux(videos["vp8.webm"], "webm", live="1", cluster_time_limit="400")
    first, second = [match.start() for match in re.finditer(CLUSTER, data)][:2]
    head = b"\x42\x99\x01" + (second - first).to_bytes(7, "big")

    broken = data[:first] + head + data[first:]
    harmless = data[:first] + head + bytes(second - first) + data[second:]

    found = find_break(broken)
    assert found is not None
    assert found.reason == f"there is no element of Matroska at byte {first}"
    assert find_break(harmless) is None


def test_empty_elements_are_passed_over_fast(
    videos: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three million of them take one step."""
    data = remux(videos["vp8.webm"], "webm", live="1")
    place = data.index(CLUSTER)
    read, places = matroska._read, []
    monkeypatch.setattr(matroska, "_read", lambda *given: places.append(given) or read(*given))

    assert find_break(data[:place] + 3_000_000 * b"\xec\x80" + data[place:]) is None
    assert len(places) < 1000


@pytest.mark.parametrize("name", KINDS)
def test_looking_for_breaks_has_an_end(videos: dict[str, bytes], name: str) -> None:
    """It is given up when the time for a file is over."""
    with pytest.raises(VideoError, match="it takes longer than 0 s to look through"):
        find_break(videos[name], 0)


def test_breaks_are_looked_for_in_the_time_of_the_scan(
    videos: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one deadline for all that is done with a file."""
    made: list[Deadline] = []
    used: list[Deadline] = []

    def make(seconds: float) -> Deadline:
        made.append(Deadline(seconds))
        return made[-1]

    def note(_: bytes, deadline: Deadline) -> None:
        used.append(deadline)

    monkeypatch.setattr(scan_module, "Deadline", make)
    monkeypatch.setattr(scan_module, "find_break", note)
    scan_video(videos["vp9.webm"])

    assert len(made) == 1
    assert used == made


def test_blocks_with_more_in_them(tmp_path: Path) -> None:
    """VP8 with transparency has groups of elements; a hole within one is told."""
    frames = (
        np.zeros((12, 48, 64, 3), np.uint8) + np.arange(12, dtype=np.uint8)[:, None, None, None]
    )
    options = {"auto-alt-ref": "0", **FAST}
    path = write_video(
        tmp_path / "a.webm", frames, codec="libvpx", pixel_format="yuva420p", options=options
    )
    data = path.read_bytes()
    group = data.rindex(b"\xa0", 0, data.rindex(b"\x75\xa1"))
    addition = data.index(b"\x75\xa1", group)

    assert find_break(data) is None
    assert find_break(data[: addition + 4]) is None
    assert find_break(data[:addition] + bytes(4) + data[addition + 4 :]) is not None


@pytest.mark.parametrize("name", KINDS)
def test_any_damage_is_answered(videos: dict[str, bytes], name: str) -> None:
    """Whatever is broken, there is an answer, and no place outside the file."""
    chance = random.Random(0)
    for _ in range(300):
        broken = bytearray(videos[name])
        for place in chance.sample(range(len(broken)), 8):
            broken[place] = chance.randrange(256)
        del broken[chance.randrange(len(broken)) :]
        found = find_break(bytes(broken))
        assert found is None or 0 <= found.sound <= len(broken)


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
    assert find_break(b"".join(pages[: sound[4]] + pages[sound[4] + 1 :])) is None
