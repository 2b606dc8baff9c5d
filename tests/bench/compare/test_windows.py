"""Windows of LeRobot datasets in comparisons: one order, checked pictures and values, lerobot's own loader simulated."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from bench.baselines import ceiling
from bench.baselines.peers import catalog
from bench.baselines.peers.lerobot import pipeline as lerobot
from bench.compare import compare as comparing
from bench.compare.compare import Settings, contestants_of
from bench.compare.contestants import WINDOWS
from bench.compare.ours import start_windows
from bench.compare.robots import CAMERAS, TASKS, make_robots
from bench.compare.task import Pipeline, Unable
from bench.compare.windows import WindowSettings, WindowTask, make_window_task
from bench.output.errors import BenchError
from bench.timing import peak_bytes
from readers import Sample, open_dataset
from readers.video import scan_video
from tests.support.commands import Run
from tests.support.lerobot import TOP, WRIST, Robot

SIZE = (64, 96)


def make(root: Path, codec: str) -> Path:
    """Three episodes of 12 frames, two of them in one file."""
    pytest.importorskip("skimage")
    assert (
        make_robots(root, codec=codec, episodes=3, seconds=0.4, size=SIZE, episodes_per_file=2)
        == 36
    )
    return root


@pytest.fixture(scope="module")
def robots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with H.264, which is encoded faster."""
    return make(tmp_path_factory.mktemp("robots"), "h264")


@pytest.fixture(scope="module")
def task(robots: Path) -> WindowTask:
    """Windows of two frames and three actions."""
    settings = WindowSettings(observations=2, actions=3)
    device = torch.device("cpu")
    return make_window_task(str(robots), settings, 0, batch_size=4, device=device, num_threads=2)


# The dataset that is made.


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_made_datasets_have_what_lerobot_writes(tmp_path: Path, codec: str) -> None:
    """Episodes, tasks and statistics are there, an action is the next state, and every second frame is a keyframe."""
    robots = make(tmp_path, codec)
    made = open_dataset(robots, delta_timestamps={"action": [-1 / 30]})
    [before, sample] = made.fetch([12, 13])
    assert isinstance(sample, Sample)
    assert isinstance(before, Sample)
    stats = json.loads((robots / "meta/stats.json").read_text())

    assert (len(made), made.cameras, made.class_names) == (36, CAMERAS, TASKS)
    assert (sample.key, bytes(sample.fields["task"])) == ("episode_000001#1", TASKS[1].encode())
    state, action = (bytes(sample.fields[name])[-24:] for name in ("observation.state", "action"))
    assert state == action != bytes(before.fields["observation.state"])[-24:]
    quantiles = {"q01", "q10", "q50", "q90", "q99"}
    assert {"min", "max", "mean", "std", "count", *quantiles} == set(stats["action"])
    assert np.shape(stats[CAMERAS[0]]["q50"]) == (3, 1, 1)
    infos = [scan_video(path.read_bytes()) for path in robots.rglob("*.mp4")]
    assert [one.codec for one in infos] == [codec] * 4
    assert {int(np.diff(one.keyframes).max()) for one in infos} == {2}


def test_a_seed_makes_equal_videos(tmp_path: Path) -> None:
    """Twice the same, and other values with another seed."""
    pytest.importorskip("skimage")
    few = {"codec": "h264", "episodes": 1, "seconds": 0.1, "size": SIZE}
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        make_robots(tmp_path / name, **few, seed=seed)  # type: ignore[arg-type]

    one, two, three = (
        [path.read_bytes() for path in sorted((tmp_path / name).rglob("*")) if path.is_file()]
        for name in ("one", "two", "three")
    )
    assert one == two != three


def test_other_codecs_are_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(BenchError, match="codec must be one of av1, h264, got 'vp9': choose one"):
        make_robots(tmp_path / "made", codec="vp9")
    assert not (tmp_path / "made").exists()


# The order, and what is compared.


@pytest.mark.parametrize("shuffle", ["local", "global"])
def test_windows_overlap_in_the_local_order(
    robots: Path, monkeypatch: pytest.MonkeyPatch, shuffle: str
) -> None:
    """All frames come once per epoch, and with "local" neighbours of the order lie near each other."""
    monkeypatch.setattr("bench.compare.windows._LOCAL_FRAMES", 6)
    alike = {"batch_size": 4, "device": torch.device("cpu"), "num_threads": 1}
    made = make_window_task(str(robots), WindowSettings(shuffle=shuffle), 3, **alike)

    assert sorted(made.plan[:36].tolist()) == list(range(36))
    jumps = np.abs(np.diff(made.plan[:36]))
    assert (np.median(jumps) < 6) == (shuffle == "local")
    assert made.lengths == dict.fromkeys(CAMERAS, 8)
    assert made.values["action"].shape == (2, 16, 6)


def test_ours_and_decoding_alone_run(task: WindowTask) -> None:
    """Our rows show the right windows in every dtype, and decoding alone gives batches without pixels."""
    for dtype in ("uint8", "bfloat16", "float32"):
        start = partial(start_windows, dtype=dtype)
        assert "pixels differ by at most" in task.rehearse(start)
        batch = next(start(task).batches)
        assert batch.pictures[CAMERAS[1]].shape == (4, 2, 3, *SIZE)
        assert batch.pictures[CAMERAS[1]].dtype == getattr(torch, dtype)
        task.check_batch(batch)

    assert [len(batch) for batch in islice(ceiling.windows(task).batches, 12)] == [4] * 12


def later(batch: Any) -> None:
    """Show the frame before."""
    batch.pictures[CAMERAS[0]][:, 1] = batch.pictures[CAMERAS[0]][:, 0]


def darker(batch: Any) -> None:
    """Change pixels by more than rounding does."""
    batch.pictures[CAMERAS[1]][1] //= 2


def other_action(batch: Any) -> None:
    """Change a value."""
    batch.values["action"][0, 0, 0] += 1


def smaller(batch: Any) -> None:
    """Leave out a row of pixels."""
    batch.pictures[CAMERAS[0]] = batch.pictures[CAMERAS[0]][..., 1:, :]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (later, "picture 1 of observation.images.top at frame 11 differs by"),
        (darker, "of observation.images.wrist at frame 12 differs by .* more than 3/255"),
        (other_action, "the values of action differ from the tables'"),
        (smaller, r"made \[2, 2, 3, 63, 96\] for observation.images.top, not \[2, 2, 3, 64, 96\]"),
    ],
)
def test_wrong_windows_are_noticed(
    task: WindowTask, change: Callable[[Any], None], words: str
) -> None:
    """A contestant that shows other frames, colours, values or sizes takes no part."""

    def start(given: WindowTask) -> Pipeline:
        pipeline = start_windows(given, dtype="uint8")

        def changed() -> Iterator[Any]:
            for batch in pipeline.batches:
                change(batch)
                yield batch

        return replace(pipeline, batches=changed())

    with pytest.raises(Unable, match=words):
        task.rehearse(start)


def test_cameras_may_have_several_sizes(tmp_path: Path) -> None:
    """Each camera keeps its own, with the pictures of FFmpeg."""
    root = Robot().write(tmp_path)
    task = make_window_task(
        str(root),
        WindowSettings(observations=2, actions=3),
        0,
        batch_size=4,
        device=torch.device("cpu"),
        num_threads=2,
    )
    note = task.rehearse(partial(start_windows, dtype="uint8"))

    assert task.sizes == {TOP: (48, 64), WRIST: (32, 48)}
    assert "pixels differ by at most" in note


# lerobot's own loader.


class FakeDataset(Dataset[dict[str, Any]]):
    """What lerobot's class gives, made by our reader and loader: pictures in [0, 1], values, the text of the task."""

    def __init__(self, repo_id: str, *, root: str, video_backend: str, **options: Any) -> None:
        del repo_id
        self.video_backend = video_backend
        deltas = options.pop("delta_timestamps")
        self.length, self.root, self.deltas = 36, root, deltas

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        value = torch.full((3, 6), float(index))
        pictures = {camera: torch.zeros(2, 3, *SIZE) for camera in CAMERAS}
        return {**pictures, "action": value, "observation.state": value[0], "task": "wait"}


@pytest.fixture
def fake_lerobot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package lerobot, and no variables of it afterwards."""
    module = ModuleType("lerobot.datasets.lerobot_dataset")
    module.LeRobotDataset = FakeDataset  # type: ignore[attr-defined]
    for name in ("lerobot", "lerobot.datasets"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(lerobot.metadata, "version", lambda name: f"of {name}")
    for name in ("HF_HUB_OFFLINE", "HF_HOME"):
        monkeypatch.setenv(name, "")


@pytest.mark.usefixtures("fake_lerobot")
def test_lerobot_gets_the_planned_windows(task: WindowTask) -> None:
    """It takes the order of the plan, tries some counts of workers, and its wrong pictures are noticed."""
    pipeline = lerobot.start(replace(task, num_threads=1), backend="pyav")
    batch = next(pipeline.batches)
    pipeline.batches.close()  # type: ignore[attr-defined]

    assert batch.values["action"][:, 0, 0].tolist() == task.plan[:4].tolist()
    assert (batch.pictures[CAMERAS[0]].dtype, len(batch)) == (torch.float32, 4)
    assert "lerobot of lerobot, DataLoader with " in pipeline.note
    assert "(windows/s when tried: 1: " in pipeline.note
    assert "2: " in pipeline.note
    with pytest.raises(Unable, match=r"picture \d of observation.images.top at frame"):
        task.rehearse(partial(lerobot.start, backend="pyav"))


@pytest.mark.usefixtures("fake_lerobot")
def test_torchcodec_without_ffmpeg_is_told(
    task: WindowTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row has the first line of what torchcodec says."""
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", None)

    with pytest.raises(Unable, match="torchcodec cannot be loaded: import of torchcodec"):
        lerobot.start(task, backend="torchcodec")


def test_lerobots_process_needs_no_package_of_ours() -> None:
    """What its process imports before lerobot is light: its environment has neither our torch nor the rest of gpu-aug."""
    modules = "bench.compare.serve, bench.compare.windows, bench.baselines.peers.lerobot.pipeline"
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"torch", "readers", "gpu_aug", "dali_pipes", "rich", "typer", "av"} & {*printed}


def test_libraries_are_linked_for_torchcodec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FFmpeg's get their usual names; all keep their own, by which they load each other."""
    libraries = tmp_path / "site" / "av.libs"
    libraries.mkdir(parents=True)
    monkeypatch.setattr(catalog, "_site_packages", lambda _: tmp_path / "site")
    for name in ("libavcodec-7ee0753d.so.61.19.101", "libx264-b1bb65f5.so.165"):
        (libraries / name).write_text(name)

    for _ in range(2):
        catalog.link_ffmpeg(tmp_path)

    links = {path.name: path.read_text() for path in (tmp_path / "ffmpeg").iterdir()}
    assert links == {
        "libavcodec.so.61": "libavcodec-7ee0753d.so.61.19.101",
        "libavcodec-7ee0753d.so.61.19.101": "libavcodec-7ee0753d.so.61.19.101",
        "libx264-b1bb65f5.so.165": "libx264-b1bb65f5.so.165",
    }


# The command.


@pytest.mark.long
def test_the_command_compares_windows(
    run: Run, robots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A LeRobot dataset is recognised; the table has windows, frames and the peak of memory."""
    wanted = {"gpu-aug uint8", "decoding alone"}
    monkeypatch.setattr(comparing, "WINDOWS", tuple(one for one in WINDOWS if one.name in wanted))
    options = ["--seconds=0.2", "--rounds=2", "--observations=2", "--actions=3", "--threads=2"]
    path = tmp_path / "result.json"

    code, printed, error = run("bench", "compare", robots, *options, f"--json={path}")

    assert code == 0, error
    result = json.loads(path.read_text())
    assert {row["name"]: row["kind"] for row in result["rows"]} == {
        "gpu-aug uint8": "engine",
        "decoding alone": "ceiling",
    }
    assert all(row["peak_bytes"] > 50e6 for row in result["rows"])
    settings = result["settings"]
    assert (settings["windows"], settings["shuffle"]) == (36, "local")
    assert settings["batch"] == "8 windows of 2 + 2 pictures of 64x96"
    assert "36 windows of" in printed
    assert "peak MB" in printed
    assert "gpu-aug uint8 reaches" in printed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ("--recipe", "imagenet_train"),
            "windows are compared as full pictures: leave --recipe out",
        ),
        (("--shuffle", "none"), "shuffle must be one of local, global, got 'none': choose one"),
        (("--dtype", "float16"), "dtype must be one of uint8, bfloat16, float32, got 'float16'"),
        (("--observations", 0), "observations must be greater than 0, got 0"),
        (("--stride", 2), "--stride 2 is for videos"),
        (("--delta-timestamps", "3 s"), "delta_timestamps must be JSON such as"),
    ],
)
def test_what_does_not_fit_windows_is_refused(
    run: Run, robots: Path, given: tuple[object, ...], words: str
) -> None:
    """Before anything is started."""
    code, _, error = run("bench", "compare", robots, *given)

    assert (code, words in " ".join(error.split())) == (2, True), error


def test_options_of_windows_are_for_robots(run: Run, photos: list[Path]) -> None:
    """Photographs have no windows."""
    code, _, error = run("bench", "compare", photos[0].parent, "--observations", 2)

    assert (code, "--observations is for LeRobot datasets" in error) == (2, True), error


def test_a_dtype_takes_one_of_our_rows() -> None:
    """Other contestants have no dtype, and stay."""
    settings = Settings(windows=WindowSettings(dtype="bfloat16"), device="cpu", peers=("lerobot",))

    assert [one.name for one in contestants_of(settings)] == [
        *("gpu-aug bfloat16", "lerobot torchcodec", "lerobot pyav", "decoding alone")
    ]


def test_peak_memory_counts_children() -> None:
    """A child's memory is added while it runs."""
    before = peak_bytes()
    code = "data = bytearray(10**8); print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        during = peak_bytes()
        child.communicate("\n")

    assert during - before > 90e6
