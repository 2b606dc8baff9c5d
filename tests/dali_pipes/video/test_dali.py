"""Clips through DALI: excerpts of videos, who may decode them, the loader that does, and NVDEC that is there or not."""

import ctypes
import io
import itertools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dali_pipes import Execution, Loader, LoaderError
from dali_pipes.arguments.choose import choose
from dali_pipes.decode.dali.driver import PipelineOptions
from dali_pipes.machine import doctor
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.video.clips import Clips
from dali_pipes.video.dali import clip_decoder, nvdec, support
from dali_pipes.video.dali.clip_decoder import color_correction, render_canvases
from dali_pipes.video.dali.excerpt import Excerpt, Packet, make_excerpt, write_matroska
from dali_pipes.video.dali.feed import ClipFeed, inputs_of
from dali_pipes.video.dali.nvdec import Nvdec, find_nvdec
from dali_pipes.video.dali.support import Refusals, decodes
from dali_pipes.video.packet_headers import shows_earlier
from gpu_aug import Crops, HorizontalFlip, RandomResizedCrop, Recipe, TemporalReverse
from gpu_aug.resampling.crop_and_resize import resample
from readers.video import VideoFolderDataset, VideoInfo, scan_video
from tests.support.loaders import loader_maker
from tests.support.same_batches import images_by_index
from tests.support.videos import decode_all, pan, write_video, write_videos

SIZE = (144, 160)
NUM = 30
KINDS: dict[str, dict[str, Any]] = {
    "h264.mp4": {"options": {"bf": "3"}},
    "h264.mkv": {"gop": 6},
    "hevc.mp4": {"codec": "libx265", "options": {"x265-params": "log-level=none"}},
    "hevc-open.mp4": {
        "codec": "libx265",
        "options": {"x265-params": "open-gop=1:keyint=10:min-keyint=10:log-level=none"},
    },
    "vp9.webm": {"codec": "libvpx-vp9", "options": {"deadline": "realtime", "cpu-used": "8"}},
    "vp8.mkv": {"codec": "libvpx", "options": {"deadline": "realtime"}},
    "mpeg4.mp4": {"codec": "mpeg4", "options": {"bf": "2"}},
}
FRAMES = np.array([27, 3, 3, 14, 11, 25, 26])
CROPS = Recipe([RandomResizedCrop((48, 40)), HorizontalFlip()])
SEEN_BY_DALI = ["vp9.webm", "vp8.mkv"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of every kind, all of other pictures."""
    return write_videos(tmp_path_factory.mktemp("kinds"), KINDS, NUM, SIZE)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Videos that DALI decodes without a GPU, some of them turned, and one that it does not."""
    kinds = {
        "a.webm": KINDS["vp9.webm"],
        "b.mkv": KINDS["vp8.mkv"],
        "c.mkv": KINDS["vp9.webm"],
        "d.mp4": {**KINDS["vp9.webm"], "rotation": 90},
        "e.mp4": {**KINDS["vp9.webm"], "rotation": 180},
        "f.mp4": {**KINDS["vp9.webm"], "rotation": 270},
        "g.mp4": {},
    }
    return write_videos(tmp_path_factory.mktemp("taken"), kinds, NUM, (96, 128))


def cut(path: Path, frames: NDArray[np.int64], backend: support.Backend) -> Excerpt | None:
    data = path.read_bytes()
    return make_excerpt(data, scan_video(data), frames, backend)


make_loader = loader_maker(
    CROPS, batch_size=3, dtype=torch.float32, shuffle="none", num_threads=None, last_batch="partial"
)


def load(root: Path, decoder: str, **options: Any) -> Loader:
    clips = Clips(VideoFolderDataset(root), num_frames=4, stride=3)
    return make_loader(clips, decoder=decoder, **options)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Within what chroma costs that one decoder smooths and the other does not: 2.3/255 on average."""
    assert (actual - expected).abs().mean() * 255 < 4


@pytest.mark.parametrize("name", KINDS)
def test_excerpt_decodes_to_the_frames(folder: Path, name: str) -> None:
    """Decoded from its beginning, an excerpt has the frames of the whole video at the places that it names."""
    excerpt = cut(folder / name, FRAMES, "mixed")
    _, whole = decode_all(folder / name)

    with av.open(io.BytesIO(excerpt.data.tobytes())) as container:
        container.streams.video[0].thread_type = "NONE"
        part = [frame.reformat(format="rgb24").to_ndarray() for frame in container.decode(video=0)]
    places = excerpt.frames[excerpt.picks]
    assert len(part) < NUM
    for place, frame in zip(places.tolist(), FRAMES.tolist(), strict=True):
        assert np.array_equal(part[place], whole[frame])
        assert not np.array_equal(part[place], whole[frame - 1])


def test_matroska_is_read_back(folder: Path) -> None:
    """FFmpeg finds in it what it finds in the file from which the packets are."""
    with av.open(str(folder / "h264.mp4")) as container:
        source = container.streams.video[0]
        packets = [packet for packet in container.demux(source) if packet.size]
        extradata = source.codec_context.extradata
    places = np.argsort(np.argsort([packet.pts for packet in packets])).tolist()
    keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
    written = [
        Packet(place, packet.is_keyframe, bytes(packet))
        for place, packet in zip(places, packets, strict=True)
    ]

    with av.open(io.BytesIO(write_matroska("h264", extradata, SIZE, written))) as container:
        stream = container.streams.video[0]
        found = [packet for packet in container.demux(stream) if packet.size]
        container.seek(places[keys[1]], stream=stream)
        sought = next(container.demux(stream))
    assert sought.pts == places[keys[1]]
    assert (stream.codec_context.name, stream.codec_context.extradata) == ("h264", extradata)
    assert (stream.height, stream.width) == SIZE
    assert [bytes(packet) for packet in found] == [bytes(packet) for packet in packets]
    assert [packet.pts for packet in found] == places
    assert places != sorted(places)
    assert [place for place, packet in enumerate(found) if packet.is_keyframe] == keys


@pytest.mark.parametrize(
    ("name", "options", "size"),
    [
        ("open.mp4", {"options": {"x264-params": "open-gop=1:bframes=3:keyint=8:b-adapt=0"}}, SIZE),
        ("lengths.avi", {"options": {"bf": "0"}}, SIZE),
        ("odd.mp4", {"pixel_format": "yuv444p"}, (144, 161)),
        ("colours.mp4", {"pixel_format": "yuv444p"}, SIZE),
        ("deep.mp4", {"pixel_format": "yuv420p10le"}, SIZE),
        ("small.webm", {"codec": "libvpx-vp9"}, (96, 128)),
        ("pictures.avi", {"codec": "mjpeg", "pixel_format": "yuvj420p"}, SIZE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_doubtful_videos_are_left_to_the_cpu(
    tmp_path: Path, name: str, options: dict[str, Any], size: tuple[int, int]
) -> None:
    """What NVDEC does not take, or where DALI could number frames otherwise, is not given to it."""
    path = write_video(tmp_path / name, pan(NUM, size), **options)

    assert cut(path, FRAMES, "mixed") is None
    if name == "pictures.avi":
        assert cut(path, FRAMES, "cpu") is None  # DALI shows damaged pictures that we refuse


def test_hidden_frames_are_left_to_the_cpu(folder: Path) -> None:
    """A packet whose frame is not shown would be a frame more for DALI."""
    data = (folder / "vp9.webm").read_bytes()
    info = scan_video(data)
    assert make_excerpt(data, info, np.array([1]), "cpu") is not None
    info.packet_pts[0] += 1 << 62

    assert make_excerpt(data, info, np.array([1]), "cpu") is None


@pytest.mark.parametrize(
    ("fields", "backend", "expected"),
    [
        ({}, "cpu", True),
        # On the CPU DALI goes by the pixel format's name: a range that only the stream tells of is not trusted.
        ({"full_range": True}, "cpu", False),
        ({"full_range": True}, "mixed", True),
        # It takes BT.601 for all; what is no luma with differences of colour cannot be corrected then.
        *(({"matrix": matrix}, "mixed", matrix not in (0, 8)) for matrix in (1, 2, 9, 0, 8)),
    ],
)
def test_colours_that_dali_cannot_make_are_left_to_the_cpu(
    folder: Path, fields: dict[str, Any], backend: Any, expected: bool
) -> None:
    info = scan_video((folder / "vp9.webm").read_bytes())
    assert decodes(replace(info, **fields), backend) is expected


@pytest.mark.parametrize(("name", "place"), [("h264.mp4", 4), ("hevc.mp4", 21)])
def test_units_behind_start_codes_are_not_trusted(folder: Path, name: str, place: int) -> None:
    """DALI looks for keyframes behind lengths of four bytes: other lengths, or start codes, it misreads."""
    info = scan_video((folder / name).read_bytes())
    given = info.extradata
    shorter = given[:place] + bytes([given[place] & ~3 | 1]) + given[place + 1 :]

    assert decodes(info, "mixed")
    for extradata in (shorter, b"\x00\x00\x00\x01" + given, b""):
        assert not decodes(replace(info, extradata=extradata), "mixed")


@pytest.mark.parametrize(
    ("codec", "packet", "expected"),
    [
        ("vp9", b"\x88", True),  # profile 0, and the bit that says so
        ("vp9", b"\x82\x49\x83\x42", False),
        ("vp9", b"\xb4", True),  # profile 3 has one bit more before it
        ("vp9", b"\xb8", False),
        ("vp9", b"\x82\x01\x88\xc9\x02\x00\x01\x00\xc9", True),  # the second frame of two
        ("av1", b"\x12\x00\x1a\x01\xc0", True),
        ("av1", b"\x12\x00\x1a\x01\x40", False),
        ("av1", b"\x12\x00\x32\x01\xc0", False),  # a whole frame, which has no such bit
        ("h264", b"\x00\x00\x00\x01\x88", False),
    ],
)
def test_packets_that_show_an_earlier_frame(codec: str, packet: bytes, expected: bool) -> None:
    """They are told by the bit that the specifications name."""
    assert shows_earlier(codec, packet) == expected


def test_av1_shows_earlier_frames(tmp_path: Path) -> None:
    """The usual encoder of AV1 makes such packets: of two bytes or so, which hold no picture."""
    path = write_video(tmp_path / "a.mp4", pan(NUM, SIZE), codec="libsvtav1", gop=NUM)
    data = path.read_bytes()
    info = scan_video(data)
    packets = [
        data[offset : offset + size]
        for offset, size in zip(info.packet_offsets, info.packet_sizes, strict=True)
    ]

    showing = [shows_earlier("av1", packet) for packet in packets]
    assert showing == [len(packet) < 10 for packet in packets]
    assert 0 < sum(showing) < NUM
    assert cut(path, np.arange(NUM), "mixed") is None


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("paste", [(0, 0), (-3, 5)], ids=["whole", "pasted"])
def test_canvases_are_those_of_upright_frames(rotation: int, paste: tuple[int, int]) -> None:
    """Crops of frames that are turned afterwards give what `resample` gives of the upright frame."""
    stored = pan(3, (40, 60))
    upright = np.rot90(stored, -rotation // 90, axes=(1, 2))
    pairs = [(7, 4), (25, 31), (20, 18), paste, (20, 18)]
    crops = Crops(*(np.array([pair], np.int32) for pair in pairs))
    nothing = dict.fromkeys(VideoInfo.__dataclass_fields__)
    known = {"matrix": 2, "packet_pts": np.zeros(1, np.int64), "rotation": rotation}
    info = VideoInfo(**{**nothing, **known})

    drawn = render_canvases(torch.from_numpy(stored), info, crops, 0)

    for frame, canvas in zip(upright, drawn, strict=True):
        expected = torch.empty(20, 18, 3, dtype=torch.uint8)
        resample(torch.from_numpy(frame.copy()), crops, 0, expected)
        assert (canvas.int() - expected.int()).abs().max() <= 1
    assert (drawn[1].int() - drawn[0].int()).abs().float().mean() > 2


@pytest.mark.parametrize(("matrix", "name"), [(1, "bt709"), (9, "bt2020")])
def test_correction_makes_the_matrix_good(matrix: int, name: str) -> None:
    """RGB by BT.601, corrected, is FFmpeg's RGB by the matrix that was meant; uncorrected it is not."""
    greys = np.random.default_rng(0).integers(
        90, 165, (3, 32, 32), dtype=np.uint8
    )  # nothing is cut off
    frame = av.VideoFrame(32, 32, "yuv444p")
    for plane, values in zip(frame.planes, greys, strict=True):
        plane.update(np.pad(values, ((0, 0), (0, plane.line_size - 32))).tobytes())

    def rgb(colorspace: int) -> torch.Tensor:
        made = frame.reformat(format="rgb24", src_colorspace=colorspace).to_ndarray()
        return torch.from_numpy(made).float()

    wrong, right, by = rgb(5), rgb(matrix), color_correction(matrix)
    assert ((wrong @ by.T) - right).abs().max() < 3, name
    assert (wrong - right).abs().max() > 8
    assert color_correction(5) is None


@pytest.mark.needs_dali
@pytest.mark.parametrize("name", SEEN_BY_DALI)
def test_dali_gives_the_frames(folder: Path, name: str) -> None:
    """Each frame that DALI decodes is nearer to the frame that was asked for than to its neighbours."""
    excerpt = cut(folder / name, FRAMES, "cpu")
    feed = ClipFeed(
        PipelineOptions(batch_size=2, device="cpu", device_id=None, num_threads=1, depth=2)
    )
    feed.warm_up(inputs_of([excerpt]))
    feed.push(inputs_of([excerpt]))
    [outputs] = feed.take()
    _, whole = decode_all(folder / name)

    everything = np.stack(whole).astype(np.float32)
    for pick, frame in zip(excerpt.picks.tolist(), FRAMES.tolist(), strict=True):
        gaps = np.abs(everything - np.asarray(outputs[0])[pick]).mean(axis=(1, 2, 3))
        assert gaps.argmin() == frame
        assert gaps[frame] < 4.5
        assert np.delete(gaps, frame).min() > 9


@pytest.mark.needs_dali
def test_batches_are_the_cpus(taken: Path) -> None:
    """Clips through DALI have the pictures that they have without it, turned or not."""
    expected, actual = (images_by_index(load(taken, decoder)) for decoder in ("cpu", "dali"))

    assert actual.keys() == expected.keys() == set(range(7))
    for index, clip in actual.items():
        assert_close(clip, expected[index])
        with pytest.raises(AssertionError):
            assert_close(clip[1:], expected[index][:-1])
    assert torch.equal(actual[6], expected[6])  # H.264, which DALI does not decode here


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    ("given", "recipe", "steps"),
    [
        ({"stride": 2}, Recipe([TemporalReverse(p=1.0), *CROPS.operations]), -2),
        ({"fps": 10_000, "sampling": "first"}, CROPS, 0),
    ],
    ids=["backwards", "repeated"],
)
def test_frames_come_in_any_order(
    taken: Path, given: dict[str, Any], recipe: Recipe, steps: int
) -> None:
    """Clips that run backwards, or show one frame several times, are what they are without DALI."""
    clips = Clips(VideoFolderDataset(taken), num_frames=4, **given)
    [expected], [actual] = (
        make_loader(clips, recipe, decoder=name, batch_size=7) for name in ("cpu", "dali")
    )

    assert (actual.frames.diff(dim=1) == steps).all()
    for clip, wanted in zip(actual.images, expected.images, strict=True):
        assert_close(clip, wanted)
        if steps:
            with pytest.raises(AssertionError):
                assert_close(clip.flip(0), wanted)


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    "options", [{"batch_size": 5}, {"execution": Execution(prefetch=1)}, {"num_threads": 1}]
)
def test_dali_does_not_depend_on_the_batch(taken: Path, options: dict[str, Any]) -> None:
    """The pixels are the same to the bit however batches are made."""
    expected = images_by_index(load(taken, "dali"))

    for index, clip in images_by_index(load(taken, "dali", **options)).items():
        assert torch.equal(clip, expected[index])


@pytest.mark.needs_dali
def test_large_batches_are_pushed_in_parts(taken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where decoded frames would take too much memory a batch goes through DALI in parts, and is the same."""
    expected = images_by_index(load(taken, "dali", batch_size=7))
    pushed = []
    push = ClipFeed.push
    monkeypatch.setattr(
        ClipFeed, "push", lambda *args: (pushed.append(len(args[1]["frames"])), push(*args))
    )
    monkeypatch.setattr(clip_decoder, "_PART_BYTES", 2 * 4 * 96 * 128 * 3)
    actual = images_by_index(load(taken, "dali", batch_size=7))

    assert pushed == [2, 2, 2]
    assert all(torch.equal(clip, expected[index]) for index, clip in actual.items())


@pytest.mark.needs_dali
@pytest.mark.parametrize("policy", ["replace", "skip"])
def test_a_bad_clip_costs_no_other(taken: Path, tmp_path: Path, policy: str) -> None:
    """A video that DALI refuses is judged by the CPU; the clips beside it keep every bit."""
    for path in taken.iterdir():
        data = bytearray(path.read_bytes())
        if path.name == "c.mkv":
            info = scan_video(bytes(data))
            packets = zip(info.packet_offsets, info.packet_sizes, strict=True)
            for offset, size in itertools.islice(packets, 1, None):
                data[offset : offset + size] = np.random.default_rng(0).bytes(int(size))
        (tmp_path / path.name).write_bytes(data)
    loaders = [load(tmp_path, name, on_bad_sample=policy) for name in ("cpu", "dali")]
    (reference, actual) = (list(loader) for loader in loaders)

    assert loaders[1].bad_samples == loaders[0].bad_samples
    assert [record.stage for record in loaders[1].bad_samples] == ["decode"]
    assert [b.indices.tolist() for b in actual] == [b.indices.tolist() for b in reference]
    sound = images_by_index(load(taken, "dali"))
    rows = [(i, clip) for b in actual for i, clip in zip(b.indices.tolist(), b.images, strict=True)]
    if policy == "replace":
        del rows[2]  # a substitute, which the CPU decoded
    assert [index for index, _ in rows] == [0, 1, 3, 4, 5, 6]
    assert all(torch.equal(clip, sound[index]) for index, clip in rows)


@pytest.mark.needs_dali
def test_what_dali_refuses_goes_to_the_cpu(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that DALI does not have after all is noticed, said once, and decoded on the CPU from then on."""
    limits = {**support.LIBAVCODEC, "h264": support.NVDEC["h264"]}
    clips = Clips(VideoFolderDataset(folder), num_frames=3, stride=2)
    names = [entry.key for entry in clips.dataset.fetch(range(len(clips)))]  # type: ignore[union-attr]
    expected = images_by_index(make_loader(clips, batch_size=4))
    monkeypatch.setattr(support, "LIBAVCODEC", limits)
    monkeypatch.setattr("dali_pipes.video.dali.support._ENOUGH", 1)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actual = images_by_index(make_loader(clips, batch_size=4, decoder="dali"))

    [said] = [str(warning.message) for warning in caught]
    assert said.startswith("DALI refuses videos of h264, yuv420p, 160x144")
    for index, name in enumerate(names):
        assert torch.equal(actual[index], expected[index]) == (name not in SEEN_BY_DALI)


def test_kinds_that_were_decoded_are_not_given_up(folder: Path) -> None:
    """A kind of which DALI decodes a video in between stays with DALI, however many are damaged."""
    info = scan_video((folder / "vp9.webm").read_bytes())
    refusals = Refusals()
    for decoded in (False, False, True, False, False):
        refusals.note(info, decoded=decoded, said="damaged")

    assert not refusals.is_hopeless(info)
    with pytest.warns(RuntimeWarning, match="refuses videos of vp9"):
        refusals.note(info, decoded=False, said="damaged")
    assert refusals.is_hopeless(info)


def answer(status: int, is_supported: int, engines: int) -> Any:
    """A library whose driver says so."""

    def ask(caps: Any) -> int:
        asked = caps._obj
        assert (asked.codec, asked.chroma, ctypes.sizeof(asked)) == (4, 1, 88)
        asked.is_supported, asked.engines = is_supported, engines
        return status

    return lambda _: SimpleNamespace(cuvidGetDecoderCaps=ask)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Nvdec]:
    """What is found where a library is loaded so, on a GPU that is not there."""
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch, "empty", lambda *_, **__: None)

    def look(load: Any) -> Nvdec:
        monkeypatch.setattr(ctypes, "CDLL", load)
        return find_nvdec.__wrapped__(0)

    return look


@pytest.mark.parametrize(
    ("said", "engines", "problem"),
    [
        ((0, 1, 5), 5, ""),
        ((0, 1, 0), 7, ""),
        ((201, 1, 5), 7, ""),
        ((0, 0, 0), 0, "got none on GPU 0"),
    ],
    ids=["stated", "an old driver", "an error", "none"],
)
def test_the_driver_is_asked(
    found: Callable[[Any], Nvdec], said: tuple[int, int, int], engines: int, problem: str
) -> None:
    """The engines are as many as the driver states, at most 7 where it does not, and none is a problem."""
    nvdec_ = found(answer(*said))

    assert (nvdec_.engines, bool(nvdec_.problem)) == (engines, bool(problem))
    assert problem in nvdec_.problem


def test_a_library_that_is_missing_is_named(
    found: Callable[[Any], Nvdec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence has the library's name, the loader's own words, and both ways out."""
    monkeypatch.setattr(nvdec, "LIBRARY", "libnvcuvid-planted.so.1")

    problem = found(ctypes.CDLL).problem

    assert "libnvcuvid-planted.so.1: cannot open shared object file" in problem
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility,video" in problem
    assert 'decoder="cpu"' in problem


def test_without_it_auto_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips are decoded on the CPU and the reason is kept; DALI by name is refused; a CPU needs none."""
    monkeypatch.setattr(
        "dali_pipes.arguments.choose.find_nvdec", lambda _: Nvdec(0, "none as planned")
    )

    monkeypatch.setattr(
        "dali_pipes.arguments.choose._device", lambda name: (torch.device(name), "")
    )
    clips: Any = SimpleNamespace(cameras={})
    images = ImageFields()

    assert (
        choose("cuda:0", "auto", "auto", images, clips).reasons[1] == "decoder cpu: none as planned"
    )
    with pytest.raises(LoaderError, match="none as planned"):
        choose("cuda:0", "dali", "auto", images, clips)
    assert choose("cpu", "dali", "auto", images, clips).decoder == "dali"
    with pytest.raises(LoaderError, match='"cuda" decodes JPEGs, and these are clips'):
        choose("cuda:0", "cuda", "auto", images, clips)


@pytest.mark.parametrize("problem", ["", "none as planned"])
def test_doctor_tells(monkeypatch: pytest.MonkeyPatch, problem: str) -> None:
    """On a GPU the doctor says how many videos are decoded at once, or what to do."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(nvdec, "find_nvdec", lambda _: Nvdec(2, problem))

    [finding] = doctor._videos_on_gpu()

    assert (finding.advice, "at most 2 videos at once" in finding.found) == (problem, not problem)
