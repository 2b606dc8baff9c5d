"""Clips in comparisons: the same frames for everyone, and who shows others is found out; what is told of videos."""

import json
import re
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image

from bench.baselines import ceiling, dali
from bench.baselines.ceiling import decode_packets
from bench.baselines.videos import (
    DecordTorchvision,
    OpencvAlbumentations,
    PyavTorchvision,
    TorchcodecTorchvision,
    seek_mode,
)
from bench.compare import ours
from bench.compare.check_frames import check_frames
from bench.compare.clips import Clip, ClipSettings, clip_settings, make_plan
from bench.compare.compare import Settings, compare
from bench.compare.result import Comparison, ratios
from bench.compare.task import Pipeline, Task, Unable
from bench.output.errors import BenchError
from dali_pipes import Loader
from gpu_aug import CenterCrop, HorizontalFlip, Normalize, RandomCrop, RandomShortestSize, Recipe
from readers.video import scan_video
from tests.support.commands import Run
from tests.support.videos import decode_all, pan, write_video

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NUM_FRAMES, STRIDE = 4, 2
LIBRARIES = (PyavTorchvision, OpencvAlbumentations, DecordTorchvision, TorchcodecTorchvision)
RECIPE = Recipe(
    [
        RandomShortestSize((48, 56)),
        RandomCrop(48),
        HorizontalFlip(),
        Normalize((0.5,) * 3, (0.5,) * 3),
    ]
)
SETTINGS = ClipSettings(NUM_FRAMES, STRIDE)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two class folders with three small videos, 30 frames each."""
    folder = tmp_path_factory.mktemp("videos")
    for number, name in enumerate(("cats/a.mp4", "cats/b.mp4", "dogs/c.mkv")):
        (folder / name).parent.mkdir(exist_ok=True)
        write_video(folder / name, pan(30, (64, 80), seed=number))
    return folder


@pytest.fixture
def task(videos: Path, tmp_path: Path) -> Task:
    """Two clips of four frames in a batch, on the CPU."""
    return task_of(videos, tmp_path)


def task_of(source: Path, folder: Path) -> Task:
    """A task over the videos below a folder."""
    plan, _ = make_plan(str(source), SETTINGS, 0, folder, num_clips=600)
    return Task(
        plan.clips,
        plan.files,
        plan.labels,
        RECIPE,
        batch_size=2,
        device=torch.device("cpu"),
        num_threads=2,
        seed=0,
        plan=plan,
    )


# The clips that everybody gets.


def test_everyone_gets_the_clips_of_our_loader(task: Task) -> None:
    """Position by position the plan has the videos and frames of the loader's first epoch."""
    recipe = Recipe([CenterCrop(8)])  # which frames are chosen depends on no operation on images
    options: Any = {"device": "cpu", "decoder": "cpu", "engine": "kornia", "dtype": torch.float32}
    loader = Loader(task.dataset, recipe, batch_size=6, seed=0, **options)
    with loader:
        batch = next(iter(loader))

    planned = [task.clips[position] for position in range(6)]
    for clip, key in zip(planned, batch.keys, strict=True):
        assert key.startswith(f"{clip.path.parent.name}/{clip.path.name}#")
    assert batch.frames is not None
    np.testing.assert_array_equal(batch.frames, [clip.frames for clip in planned])


def test_plan_draws_frames_anew(task: Task) -> None:
    """Clips of one video begin at many of its frames, and keep the stride."""
    starts = {(clip.path.name, int(clip.frames[0])) for clip in task.clips.first(400)}

    assert len(starts) > 60  # of 3 videos with 24 places each
    assert all((np.diff(clip.frames) == STRIDE).all() for clip in task.clips.first(400))


@pytest.fixture
def source(videos: Path, tmp_path: Path) -> Path:
    """A folder with one sound video, good.mp4."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "good.mp4").write_bytes((videos / "cats" / "a.mp4").read_bytes())
    return folder


def left_out_of(source: Path, tmp_path: Path) -> list[str]:
    """Names of the videos that are left out of a plan, where the sound one alone takes part."""
    plan, left_out = make_plan(str(source), SETTINGS, 0, tmp_path, num_clips=10)
    assert [path.name for path in plan.files] == ["good.mp4"]
    return [fault.partition(":")[0] for fault in left_out]


def test_damaged_videos_are_left_out(videos: Path, source: Path, tmp_path: Path) -> None:
    """A file that is no video, and one that breaks off, are named, and nobody gets them."""
    (source / "text.mp4").write_text("no video")
    for name in ("cats/a.mp4", "dogs/c.mkv"):  # half of the latter could be shown
        whole = (videos / name).read_bytes()
        (source / f"torn{Path(name).suffix}").write_bytes(whole[: len(whole) // 2])

    assert left_out_of(source, tmp_path) == ["text.mp4", "torn.mkv", "torn.mp4"]


def test_videos_that_do_not_decode_are_left_out(source: Path, tmp_path: Path) -> None:
    """The index finds nothing wrong with one whose packets are damaged behind the first keyframe."""
    data = bytearray((source / "good.mp4").read_bytes())
    info = scan_video(data)
    for offset, size in zip(info.packet_offsets[1:], info.packet_sizes[1:], strict=True):
        data[offset + 5 : offset + size] = bytes([255]) * (int(size) - 5)
    (source / "spoiled.mp4").write_bytes(data)

    assert not scan_video(data).damage
    assert left_out_of(source, tmp_path) == ["spoiled.mp4"]


def test_videos_that_begin_without_a_keyframe_are_left_out(source: Path, tmp_path: Path) -> None:
    """Some libraries never show such frames, so nobody gets that video."""
    write_video(tmp_path / "whole.mkv", pan(40, (64, 80)), options={"g": "10"})
    with (
        av.open(str(tmp_path / "whole.mkv")) as whole,
        av.open(str(source / "cut.mkv"), "w") as cut,
    ):
        stream = cut.add_stream_from_template(whole.streams.video[0])
        packets = [packet for packet in whole.demux(video=0) if packet.dts is not None]
        for packet in packets[3:]:
            packet.stream = stream
            cut.mux(packet)

    assert left_out_of(source, tmp_path) == ["cut.mkv"]


# Whether the frames are right.


def check(library: type[Any], task: Task, where: str = "threads") -> str:
    """Check a library; skips the test where it is missing."""
    try:
        return check_frames(getattr(library, f"in_{where}"), task)
    except (Unable, ImportError) as error:
        if any(word in str(error) for word in ("decord", "FFmpeg", "torchcodec")):
            pytest.skip(f"needs {getattr(error, 'name', None) or error}")
        raise


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_show_the_right_frames(library: type[Any], task: Task) -> None:
    """Every library in threads shows what the check expects, in the same colours."""
    assert check(library, task) == ""


def test_torchcodec_without_ffmpeg_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """It imports without FFmpeg's libraries, and only fails when it decodes: known before that."""
    package = pytest.importorskip("torchcodec")
    monkeypatch.setattr(package, "ffmpeg_major_version", None)

    with pytest.raises(Unable, match="install FFmpeg"):
        TorchcodecTorchvision(RECIPE)


@pytest.mark.parametrize("library", [PyavTorchvision, OpencvAlbumentations])
def test_worker_processes_show_the_right_frames(library: type[Any], task: Task) -> None:
    """So does one in the worker processes of a DataLoader."""
    assert check(library, task, "processes") == ""


def test_our_loader_shows_the_right_frames(task: Task) -> None:
    """So does ours."""

    def start(own: Task) -> Pipeline:
        return ours.start(own, decoder="cpu", engine="fused")

    assert check_frames(start, task) == ""


def changed(decode: Callable[[Callable[[Clip], Any], Clip], Any]) -> type[Any]:
    """A library that decodes in another way; the function gets the right way."""

    class Changed(PyavTorchvision):
        def decode(self, clip: Clip) -> Any:
            return decode(super().decode, clip)

    return Changed


def first_frames(clip: Clip) -> Clip:
    """The clip's first frame over and over."""
    return clip._replace(frames=np.full_like(clip.frames, clip.frames[0]))


CHEATS: dict[str, tuple[Callable[[Any, Clip], Any], str]] = {
    "each frame one place too late": (
        lambda decode, clip: decode(clip._replace(frames=clip.frames + 1)),
        r"shows frame \d+, or one like it, where it should show frame \d+ of ",
    ),
    "the first frame only": (
        lambda decode, clip: decode(first_frames(clip)),
        r"shows frame \d+|differs from frame \d+ of ",
    ),
    "the wrong order": (
        lambda decode, clip: decode(clip)[::-1].copy(),
        r"shows frame \d+|differs from frame \d+ of ",
    ),
    "negative colours": (
        lambda decode, clip: 255 - decode(clip),
        r"differs from frame \d+ of .* by \d+\.\d/255, more than 20/255|shows frame",
    ),
    "half of the frames": (
        lambda decode, clip: decode(clip)[::2],
        r"made \[2, 2, 3, 48, 48\], not \[2, 4, 3, 48, 48\]",
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_are_found_out(cheat: str, task: Task) -> None:
    """Who shows other frames or other pixels takes no part."""
    decode, words = CHEATS[cheat]

    with pytest.raises(Unable, match=words):
        check_frames(changed(decode).in_threads, task)


def test_other_colours_are_noted(task: Task) -> None:
    """Who converts colours by another matrix shows the right frames, and the note says how far they differ."""
    tinted = changed(lambda decode, clip: np.maximum(decode(clip), 10) - 10)

    assert check_frames(tinted.in_threads, task) == "; colours differ by 10/255"


@pytest.mark.parametrize("library", [PyavTorchvision, OpencvAlbumentations])
def test_libraries_draw_once_for_a_clip(
    library: type[Any], task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clip of equal frames stays one, and the next clip is drawn anew."""
    frames = np.repeat(pan(1, (64, 80)), 3, axis=0)
    monkeypatch.setattr(library, "decode", lambda *_: frames)
    own = library(RECIPE)

    made = [own.load(task.clips[0]) for _ in range(8)]

    assert all(clip.shape == (3, 3, 48, 48) and clip.dtype == torch.float32 for clip in made)
    assert all(torch.equal(clip[0], clip[2]) for clip in made)
    assert len({clip.numpy().tobytes() for clip in made}) > 4


def test_pyav_decodes_from_the_beginning_where_seeking_fails(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a seek that lands too late the wanted frames never come; they do from the beginning."""
    clip = task.clips[0]
    expected = PyavTorchvision(RECIPE).decode(clip)
    opened = av.open

    @contextmanager
    def broken(path: str) -> Any:
        with opened(path) as container:
            yield SimpleNamespace(
                streams=container.streams,
                decode=container.decode,
                seek=lambda *_, **__: list(container.demux(video=0)),
            )

    monkeypatch.setattr(av, "open", broken)

    np.testing.assert_array_equal(PyavTorchvision(RECIPE).decode(clip), expected)


@pytest.mark.usefixtures("torchcodec_decoders")
def test_seeking_that_misses_frames_is_not_chosen(tmp_path: Path) -> None:
    """Where frames are not shown equally long, approximate seeking gives others, so it is out."""
    steps = np.where(np.arange(30) < 15, 512, 2048)
    write_video(tmp_path / "a.mp4", pan(30, (64, 80)), pts=np.cumsum(steps).tolist())

    assert seek_mode(task_of(tmp_path, tmp_path).clips) == "exact"


# The ceilings and DALI.


@pytest.mark.parametrize(
    ("codec", "name", "options"),
    [
        ("libx264", "a.mp4", {"bf": "2"}),
        ("mpeg4", "a.mp4", {}),
        ("libvpx-vp9", "a.webm", {"cpu-used": "8"}),
    ],
)
def test_ceiling_decodes_the_wanted_frames(
    codec: str, name: str, options: dict[str, str], tmp_path: Path
) -> None:
    """All frames of a clip come out of the decoder, wherever the clip begins."""
    write_video(tmp_path / name, pan(30, (64, 80)), codec=codec, options=options)
    plan = task_of(tmp_path, tmp_path).clips

    assert [decode_packets(clip) for clip in plan.first(6)] == [NUM_FRAMES] * 6


def test_ceiling_misses_no_frame(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where frames do not come out it raises, rather than count less work."""
    monkeypatch.setattr(ceiling, "plan_runs", lambda *_: iter(()))

    with pytest.raises(RuntimeError, match=r"4 frames of .* are missing"):
        decode_packets(task.clips[0])


@pytest.mark.needs_dali
def test_dali_says_which_frames_it_shows(tmp_path: Path) -> None:
    """DALI's reader chooses clips by itself; they are checked by the numbers that it gives."""
    (tmp_path / "source").mkdir()
    for number in range(2):
        path, frames = tmp_path / "source" / f"{number}.webm", pan(30, (64, 80), seed=number)
        write_video(path, frames, codec="libvpx-vp9", options={"cpu-used": "8"})

    check_frames(dali.start_videos, task_of(tmp_path / "source", tmp_path))


@pytest.mark.needs_dali
def test_dali_says_what_it_does_not_read(task: Task) -> None:
    """H.264 is not for DALI on a CPU, which is one sentence, not a crash."""
    with pytest.raises(Unable, match="does not read h264 on cpu: ") as caught:
        check_frames(dali.start_videos, task)

    assert "\n" not in str(caught.value)


def test_dali_says_what_helps(videos: Path, tmp_path: Path) -> None:
    """Clips that are longer than their videos have no one stride."""
    plan, _ = make_plan(str(videos), ClipSettings(20, 2), 0, tmp_path, num_clips=10)
    long = replace(task_of(videos, tmp_path), plan=plan)

    with pytest.raises(Unable, match="give a smaller --stride or --num-frames"):
        dali.start_videos(long)


# Comparisons of clips.


@pytest.mark.long
def test_comparison_of_clips(videos: Path) -> None:
    """Rows have clips and frames per second, and ours a ratio to the others."""
    names = ("libavcodec alone", "gpu-aug/cpu+fused", "pyav+torchvision (threads)")
    settings = Settings(
        seconds=0.1,
        rounds=2,
        batch_size=2,
        dtype="float32",
        device="cpu",
        clips=SETTINGS,
        only=names,
    )

    found = compare(str(videos), RECIPE, settings, lambda _: None)

    rows: Any = [row.to_dict() for row in found.rows]
    assert found.absent == []
    assert {row["name"] for row in rows} == set(names)
    for row in rows:
        clips, frames = row["clips_per_second"], row["frames_per_second"]
        assert len(clips["runs"]) == 2
        assert frames["median"] == pytest.approx(NUM_FRAMES * clips["median"], abs=0.5)
    of_ours: Any = ratios(found.rows)["gpu-aug/cpu+fused"]
    assert of_ours["pyav+torchvision (threads)"]["median"] > 0
    described = found.settings
    assert (described["num_frames"], described["stride"], described["videos"]) == (4, 2, 3)
    assert described["batch"] == "float32 [2, 4, 3, 48, 48]"


def test_time_is_told_before_it_passes(
    run: Run, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command says at its beginning about how long it takes: more for more rows and more seconds."""

    def stop(*_: object) -> None:
        raise BenchError("the race would begin here")

    monkeypatch.setattr("bench.compare.report.compare", stop)
    short = run("bench", "compare", videos, "--only", "libavcodec alone", "--seconds", 0.1)
    long = run("bench", "compare", videos, "--seconds", 60)

    assert re.match(r"this takes about \d+ s: 1 pipeline x 5 rounds x 0.02 s, and", short[2])
    assert re.match(r"this takes about \d\d min: \d+ pipelines x 5 rounds x 12 s, and", long[2])
    assert "the race would begin here" in short[2]


# The commands.


def test_settings_of_clips_fit_together() -> None:
    """A stride or a rate, and numbers above zero."""
    with pytest.raises(BenchError, match=r"stride=2 and fps=5"):
        ClipSettings(stride=2, fps=5)
    with pytest.raises(BenchError, match="num_frames must be greater than 0, got 0"):
        ClipSettings(0)


def test_images_have_no_clips(photos: list[Path]) -> None:
    """Of photographs no clips are taken, and arguments for clips are refused in words."""
    folder = str(photos[0].parent)

    assert clip_settings(folder, num_frames=None, stride=None, fps=None) is None
    with pytest.raises(BenchError, match="--stride 3 is for videos"):
        clip_settings(folder, num_frames=None, stride=3, fps=None)


def test_run_counts_clips(run: Run, videos: Path, tmp_path: Path) -> None:
    """The command takes videos by themselves, with the usual recipe for them."""
    path = tmp_path / "run.json"

    code, printed, _ = run(
        "run", videos, "--num-frames", 2, "--stride", 3, "--batch-size", 2, "--json", path
    )

    document = json.loads(path.read_text())
    assert code == 0
    assert "2 clips in 1 batch" in printed
    assert document["settings"]["recipe"] == "video_train"
    clips = document["settings"]["clips"]
    assert (clips["num_frames"], clips["stride"], clips["fps"]) == (2, 3, None)
    assert document["rows"][0]["frames_per_second"]["median"] > 0


def test_run_takes_clips_as_it_is_told(run: Run, videos: Path, tmp_path: Path) -> None:
    """Also from a video that breaks off, and more of each than one."""
    source = tmp_path / "torn"
    source.mkdir()
    whole = (videos / "dogs" / "c.mkv").read_bytes()
    (source / "torn.mkv").write_bytes(whole[: len(whole) // 2])
    common = ("run", source, "--num-frames", 2, "--batch-size", 8, "--recipe", "video_eval")
    many = ("--sampling", "uniform", "--clips-per-video", 3, "--padding", "loop")

    refused = run(*common, *many)
    code, printed, _ = run(*common, *many, "--on-damaged-video", "truncate")

    assert refused[0] == 2
    assert code == 0
    assert "3 clips in 1 batch," in printed


def test_frames_of_other_names_are_asked_for(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command takes the format that a folder of such frames needs."""
    formats: list[object] = []
    folder = tmp_path / "data" / "clip"
    folder.mkdir(parents=True)
    for number, frame in enumerate(pan(6, (32, 48))):
        Image.fromarray(frame).save(folder / f"shot{number}.png")
    chosen = (folder.parent, "--format", "frame-folder")
    monkeypatch.setattr(
        "bench.compare.report.compare",
        lambda *given: formats.append(given[2].how["format"]) or Comparison(),
    )
    monkeypatch.setattr("bench.compare.report.show_comparison", lambda *_: None)

    assert "1 of 1 can be read" in " ".join(run("index", *chosen)[1].split())
    assert "1 clip in 1 batch" in run("run", *chosen, "--num-frames", 2)[1]
    assert run("preview", *chosen, "--num-frames", 2, "-o", tmp_path / "strips.png")[0] == 0
    assert run("bench", "compare", *chosen)[0] == 0
    assert formats == ["frame-folder"]
    assert "--num-frames 2 is for videos" in run("run", folder.parent, "--num-frames", 2)[2]


def test_inspect_tells_of_videos(run: Run, videos: Path, tmp_path: Path) -> None:
    """Codecs, sizes and frames are counted; a file that is no video is named."""
    path = tmp_path / "found.json"
    assert run("inspect", videos, "--verify", "--json", path)[0] == 0
    found = json.loads(path.read_text())["videos"]

    assert found["codecs"] == {"h264": 3}
    assert found["shapes"] == [{"height": 64, "width": 80, "videos": 3}]
    assert (found["frames"]["total"], found["frames_per_second"]) == (90, {"25": 3})

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "text.mp4").write_text("no video")
    (tmp_path / "broken" / "a.ts").touch()
    code, printed, _ = run("inspect", tmp_path / "broken")
    assert code == 1
    assert "text.mp4 (header)" in printed
    assert "left out: 1 file of another kind (a.ts)" in printed


@pytest.mark.filterwarnings("ignore:.* holds files that are left out")
def test_index_tells_of_videos(run: Run, source: Path) -> None:
    """Sizes as people write them, a few bad ones by name, which are no failure, and what is not taken."""
    for number in range(5):
        (source / f"bad{number}.mp4").write_text("no video")
    (source / "lone.jpg").touch()

    code, printed, _ = run("index", source)

    assert code == 0
    assert "width x height     all 80x64 (1)" in printed
    assert "bad: bad0.mp4, bad1.mp4, bad2.mp4 and 2 others: " in printed
    assert "left out: 1 file of another kind (lone.jpg)" in printed


def test_doctor_names_what_decodes_videos(run: Run) -> None:
    """PyAV and its FFmpeg are named, and whether torchcodec loads."""
    import av

    printed = " ".join(run("doctor")[1].split())

    assert f"PyAV {av.__version__} with FFmpeg {av.ffmpeg_version_info}" in printed
    assert "torchcodec" in printed


def test_made_videos_are_ordinary(run: Run, tmp_path: Path) -> None:
    """H.264 of the size and length asked for, moving from frame to frame; the same seed, the same pictures."""
    pytest.importorskip("skimage")
    options = ("--size", "64x48", "--seconds", 0.4, "--count", 2)
    for name in ("one", "two"):
        printed = run("bench", "make-videos", tmp_path / name, *options)[1]
        assert printed == f"2 videos of 64x48: {tmp_path / name}\n"
    first, second = sorted((tmp_path / "one").rglob("*.mp4"))

    pts, frames = decode_all(first)
    again = decode_all(tmp_path / "two" / first.relative_to(tmp_path / "one"))[1]

    assert len(pts) == 10
    assert frames[0].shape == (48, 64, 3)
    assert all(np.abs(a.astype(int) - b).mean() > 1 for a, b in pairwise(frames))
    np.testing.assert_array_equal(frames, again)
    assert not np.array_equal(frames[0], decode_all(second)[1][0])


@pytest.mark.parametrize(
    ("folder", "size", "words"),
    [
        ("made", "65x48", "a size must be even for H.264, got 48x65"),
        ("made", "large", "a size must be WIDTHxHEIGHT, for example 1280x720, got 'large'"),
        ("file/made", "64x48", "(Not a directory): give a folder that you may write to"),
    ],
)
def test_videos_that_cannot_be_made(
    run: Run, tmp_path: Path, folder: str, size: str, words: str
) -> None:
    """H.264 with half the colours has no odd sides, and a folder must be one."""
    pytest.importorskip("skimage")
    (tmp_path / "file").touch()

    code, _, error = run(
        "bench", "make-videos", tmp_path / folder, "--size", size, "--seconds", 0.1, "--count", 1
    )

    assert (code, words in error) == (2, True), error
