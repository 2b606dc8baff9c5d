"""Frames of LeRobot datasets in the loader: those of their time stamps, with the values that belong to them."""

import errno
import re
import threading
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

import dali_pipes.video.decode
from dali_pipes import BadSampleError, Clips, Execution, Loader, LoaderError, StateMismatchError
from dali_pipes.video.color import to_rgb
from dali_pipes.video.source import Windows
from gpu_aug import (
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
    TemporalReverse,
)
from readers import mix, open_dataset
from readers.formats.lerobot.cameras import VideoCamera
from readers.video import scan_video
from tests.support.lerobot import TASKS, TOP, WRIST, Robot, picture_feature, write_tables
from tests.support.loaders import loader_maker
from tests.support.same_batches import images_by_index
from tests.support.videos import write_video

DELTAS = {
    TOP: [-0.2, 0.0, 0.1],
    WRIST: [0.0],
    "action": [0.0, 0.1, 0.2, 0.3],
    "observation.state": [-0.1, 0.0],
    "grid": [-0.1, 0.1],
    "reward": [0.1],
}
OFFSETS = {name: np.rint(np.array(one) * 10).astype(int) for name, one in DELTAS.items()}
CROPS = Recipe(
    [RandomResizedCrop((24, 32)), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()]
)
SMALL = Recipe([Resize((16, 24))])
ROBOTS = {
    "h264": Robot(start_seconds=0.3, options={"preset": "veryfast", "bf": "2"}, gop=12),
    "h264 g=2": Robot(),
    "mpeg4": Robot(codec="mpeg4", start_seconds=4000.3),
    "av1 g=2": Robot(codec="libsvtav1", options={"preset": "12", "svtav1-params": "keyint=2"}),
}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Datasets of several codecs, whose videos begin at several times."""
    return {name: robot.write(tmp_path_factory.mktemp("robot")) for name, robot in ROBOTS.items()}


@pytest.fixture(scope="module")
def root(roots: dict[str, Path]) -> Path:
    """One of them."""
    return roots["h264 g=2"]


load = loader_maker(SMALL, num_threads=2, last_batch="partial")


def in_order(dataset: Any, recipe: Recipe, **options: Any) -> torch.Tensor:
    """The images of all samples."""
    options = {"batch_size": 5, "device": "cpu", "num_threads": 2, **options}
    return torch.cat([batch.images for batch in Loader.eval(dataset, recipe, **options)])


def decoded(path: Path) -> Iterator[tuple[float, Any]]:
    """Every frame of a video, decoded by FFmpeg from the beginning, and its time stamp."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for frame in container.decode(stream):
            yield float(frame.pts * stream.time_base), frame


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("camera", [TOP, WRIST])
def test_frames_are_those_of_their_time_stamps(
    name: str, camera: str, roots: dict[str, Path]
) -> None:
    """Bit for bit FFmpeg's frame at from_timestamp + timestamp, in its colours within 3; the others are not it."""
    robot, place = ROBOTS[name], roots[name]
    dataset = open_dataset(place, cameras=camera)
    images = in_order(dataset, Recipe([Resize(robot.sizes[camera])]), dtype=torch.uint8)
    found = images[:, 0].permute(0, 2, 3, 1).numpy().astype(np.int16)
    number = 0
    for file, episodes in enumerate(robot.files):
        path = place / f"videos/{camera}/chunk-{file // 2:03d}/file-{file % 2:03d}.mp4"
        info = scan_video(path.read_bytes())
        shown = list(decoded(path))
        for at in range(sum(robot.lengths[episode] for episode in episodes)):
            wanted = robot.start_seconds + at / robot.fps
            [frame] = [frame for seconds, frame in shown if abs(seconds - wanted) < 1e-4]
            assert np.array_equal(found[number], to_rgb(frame, info))
            by_ffmpeg = frame.to_ndarray(format="rgb24").astype(np.int16)
            off = np.abs(found - by_ffmpeg).reshape(len(found), -1).max(1)
            assert off[number] <= 3
            assert np.delete(off, number).min() > 3
            number += 1
    assert number == len(dataset)


def window(robot: Robot, values: NDArray[Any], name: str, index: int) -> tuple[Any, Any]:
    """What a window holds, and what of it is padding, by lerobot's rule."""
    stops = np.cumsum(robot.lengths)
    episode = int(np.searchsorted(stops, index, side="right"))
    start, stop = int(stops[episode]) - robot.lengths[episode], int(stops[episode])
    rows = [index + offset for offset in OFFSETS[name].tolist()]
    kept = [min(max(row, start), stop - 1) for row in rows]
    return values[kept], [row != each for row, each in zip(rows, kept, strict=True)]


def test_windows_hold_what_lies_around_a_frame(root: Path) -> None:
    """Values, padding and pictures of every window are those of the single frames; clamped to the episode."""
    robot, values = Robot(), Robot().values()
    numbers = [name for name in values if name != "note"]
    pads = [f"{name}_is_pad" for name in DELTAS]
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    fields = [*numbers, *pads, "task", "subtask", "note"]
    batches = list(load(dataset, fields=fields))
    single = {
        camera: in_order(open_dataset(root, cameras=camera), SMALL) for camera in (TOP, WRIST)
    }
    seen = []

    for batch in batches:
        assert batch.cameras.keys() == {TOP, WRIST}
        for row, index in enumerate(batch.indices.tolist()):
            seen.append(index)
            for name in numbers:
                found, wanted = batch.fields[name][row], values[name][index]
                if name in DELTAS:
                    wanted, is_pad = window(robot, values[name], name, index)
                    assert batch.fields[f"{name}_is_pad"][row].tolist() == is_pad
                assert np.array_equal(found, wanted), (name, index)
                assert str(found.dtype) == f"torch.{values[name].dtype.name}"
            for camera, pictures in single.items():
                rows, is_pad = window(robot, np.arange(len(dataset)), camera, index)
                assert torch.equal(batch.cameras[camera][row], pictures[rows][:, 0])
                assert batch.fields[f"{camera}_is_pad"][row].tolist() == is_pad
            episode, step = int(values["episode_index"][index]), int(values["frame_index"][index])
            words = [batch.fields[name][row] for name in ("task", "subtask", "note")]
            assert [batch.keys[row], batch.videos[row], batch.labels[row], *words] == [
                f"episode_{episode:06d}#{step}",
                f"episode_{episode:06d}",
                (episode + 1) % 3,
                TASKS[(episode + 1) % 3],
                ("reach", "grasp")[step % 2],
                f"note {index}",
            ]
    assert sorted(seen) == list(range(sum(robot.lengths)))
    assert (batches[0][TOP].shape, batches[0]["action"].shape) == ((4, 3, 3, 16, 24), (4, 4, 3))


def test_each_camera_is_as_if_alone(root: Path) -> None:
    """Cameras of two sizes under a recipe that draws: each gets the crops that it would get without the other."""
    both = images_by_index(load(open_dataset(root), CROPS))

    for number, camera in enumerate((TOP, WRIST)):
        alone = images_by_index(load(open_dataset(root, cameras=camera), CROPS))
        for index, images in alone.items():
            assert torch.equal(both[index][number : number + 1], images)


@pytest.mark.parametrize("helper", [False, pytest.param(True, marks=pytest.mark.long)])
def test_exact_resume(root: Path, helper: bool) -> None:
    """A run goes on in the middle of an epoch, with another batch size on two ranks, with the same samples."""
    options: dict[str, Any] = {"fields": ["action", "task"], "seed": 3}
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    whole = list(load(dataset, CROPS, **options))
    first = load(
        dataset, CROPS, batch_size=3, execution=Execution(helper_process=helper), **options
    )
    with first:
        begun = list(islice(first, 2))
        state = first.state_dict()
    rest = []
    for rank in range(2):
        again = open_dataset(root, delta_timestamps=DELTAS)
        second = load(again, CROPS, batch_size=2, rank=rank, world_size=2, **options)
        second.load_state_dict(state)
        rest += list(second)
    wanted, found = (
        {
            index: (image, action)
            for batch in batches
            for index, image, action in zip(
                batch.indices.tolist(), batch.images, batch.fields["action"], strict=True
            )
        }
        for batches in (whole, [*begun, *rest])
    )

    assert sum(len(batch) for batch in (*begun, *rest)) == len(dataset)
    assert [n for b in begun for n in b.indices.tolist()] == [
        n for b in whole for n in b.indices.tolist()
    ][:6]
    for index, values in wanted.items():
        assert all(map(torch.equal, found[index], values))


def test_other_windows_are_another_dataset(root: Path) -> None:
    """Its state is refused: episodes, cameras, windows and the data are what a state belongs to."""
    state = load(open_dataset(root, delta_timestamps={"action": [0.0]})).state_dict()
    with pytest.raises(StateMismatchError, match=r"delta_timestamps=\{'action': \[0\.0\]\}"):
        load(open_dataset(root, delta_timestamps={"action": [0.1]})).load_state_dict(state)
    ways: list[dict[str, Any]] = [
        {},
        {"episodes": [0, 2]},
        {"cameras": TOP},
        {"delta_timestamps": {"action": [0.1]}},
        {"tolerance_s": 1e-3},
    ]

    assert len({open_dataset(root, **way).fingerprint for way in ways}) == len(ways)


def test_selections_and_mixtures(roots: dict[str, Path]) -> None:
    """Episodes, parts, single tasks and several datasets load as the whole does."""
    whole = open_dataset(roots["h264 g=2"])
    images = in_order(whole, SMALL)
    some = open_dataset(roots["h264 g=2"], episodes=[2, 0])
    both = mix([whole, open_dataset(roots["mpeg4"])])

    assert torch.equal(in_order(some, SMALL), images[[*range(5), *range(8, 14)]])
    parts = [in_order(part, SMALL) for part in whole.split(0.5, 0.5, seed=1)]
    assert sorted(map(float, torch.cat(parts).sum((1, 2, 3, 4)))) == sorted(
        map(float, images.sum((1, 2, 3, 4)))
    )
    assert torch.equal(in_order(whole.where("label == 'wait'"), SMALL), images[5:8])
    [batch] = load(both, batch_size=28, fields=["action"])
    for row, index in enumerate(batch.indices.tolist()):
        if index < 14:
            assert torch.equal(batch.images[row], images[index])
    assert batch.fields["action"].shape == (28, 3)


@pytest.mark.parametrize("shuffle", ["none", "global"])
def test_each_frame_is_decoded_once(
    root: Path, shuffle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window decodes from its keyframe on, windows that overlap in a batch together, and none twice."""
    runs = []
    real = dali_pipes.video.decode.decode_run

    def noted(data: Any, info: Any, run: Any, deadline: Any) -> Any:
        runs.append((id(info), run.start, run.stop))
        return real(data, info, run, deadline)

    monkeypatch.setattr(dali_pipes.video.decode, "decode_run", noted)
    deltas = {TOP: [-0.2, -0.1, 0.0, 0.1]}
    dataset = open_dataset(root, cameras=TOP, delta_timestamps=deltas)
    [_] = load(dataset, batch_size=14, shuffle=shuffle)
    packets = [(video, n) for video, start, stop in runs for n in range(start, stop)]

    assert len(packets) == len(set(packets)) == 14
    runs.clear()
    batches = list(load(dataset, batch_size=1, shuffle=shuffle))
    assert len(batches) == 14
    for _, start, stop in runs:
        assert stop - start <= 5  # four frames, and a keyframe before them
        assert start % 2 == 0


def test_pictures_in_tables(tmp_path: Path) -> None:
    """A dataset of pictures gives what the same pictures in a lossless video would."""
    robot = Robot()
    pixels = {camera: robot.frames(camera) for camera in robot.sizes}
    encoded = {camera: [_png(one) for one in frames] for camera, frames in pixels.items()}
    cameras = {camera: picture_feature(size) for camera, size in robot.sizes.items()}
    write_tables(tmp_path, robot.values(), robot.lengths, robot.files, 10, cameras, {}, encoded)
    dataset = open_dataset(tmp_path, cameras=TOP, delta_timestamps={TOP: [-0.2, 0.0, 0.1]})
    images = in_order(dataset, Recipe([Resize(robot.sizes[TOP])]), dtype=torch.uint8)

    for index in range(len(dataset)):
        rows, _ = window(robot, np.arange(len(dataset)), TOP, index)
        assert np.array_equal(images[index].permute(0, 2, 3, 1), pixels[TOP][rows])
    both = open_dataset(tmp_path, delta_timestamps={WRIST: [0.0, 0.1]})
    assert next(iter(load(both, CROPS))).cameras[WRIST].shape == (4, 2, 3, 24, 32)
    assert "decoded as images" in load(both).explain()


def _png(pixels: NDArray[np.uint8]) -> bytes:
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, "png")
        return file.getvalue()


def test_bad_videos_take_no_neighbours(tmp_path: Path) -> None:
    """Of a video that is too short only the frames behind its end are bad, of one that is gone all of its episodes."""
    robot = Robot(sizes={TOP: (32, 48)})
    robot.write(tmp_path)
    first = tmp_path / f"videos/{TOP}/chunk-000/file-000.mp4"
    first.unlink()
    write_video(first, robot.frames(TOP)[:6], fps=10)  # of eight
    (tmp_path / f"videos/{TOP}/chunk-000/file-001.mp4").unlink()
    dataset = open_dataset(tmp_path)
    loader = load(dataset, on_bad_sample="skip", max_bad_samples=14)
    good = sorted(index for batch in loader for index in batch.indices.tolist())
    reasons = {record.index: record.reason for record in loader.bad_samples}

    assert (good, sorted(reasons)) == ([0, 1, 2, 3, 4, 5], list(range(6, 14)))
    beyond = "time stamp 0.6000 s lies beyond the video, whose last frame is shown at 0.5000 s"
    assert beyond in reasons[6]
    assert re.search("file-001.mp4.*No such file", reasons[8])
    assert str(tmp_path) not in "".join(reasons.values())
    with pytest.raises(BadSampleError, match="episode_00000"):
        list(load(dataset))


@pytest.mark.parametrize("policy", ["skip", "replace", "raise"])
def test_images_that_cannot_be_chosen_are_bad(
    root: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample that was read, but whose time stamps fail later, is bad: its first frame never stands in for it."""
    real_choose, real_shown, choosing = Windows.choose, VideoCamera.shown, threading.local()

    def choose(windows: Windows, *drawn: Any) -> Any:
        choosing.now = True
        try:
            return real_choose(windows, *drawn)
        finally:
            choosing.now = False

    def shown(camera: VideoCamera, batch: Any) -> Any:
        error = OSError(errno.EIO, "the disk does not answer")
        fails = [
            getattr(choosing, "now", False) and place.key == "episode_000000#3"
            for place in batch.places
        ]
        pairs = zip(fails, real_shown(camera, batch), strict=True)
        return [error if fail else one for fail, one in pairs]

    monkeypatch.setattr(Windows, "choose", choose)
    monkeypatch.setattr(VideoCamera, "shown", shown)
    loader = load(open_dataset(root, cameras=TOP), on_bad_sample=policy, shuffle="none")
    if policy == "raise":
        with pytest.raises(BadSampleError, match="cannot be chosen"):
            list(loader)
        return
    indices = [index for batch in loader for index in batch.indices.tolist()]

    assert [record.index for record in loader.bad_samples] == [3]
    assert "cannot be chosen" in loader.bad_samples[0].reason
    assert len(indices) == (13 if policy == "skip" else 14)
    assert 3 not in indices[:4]


@pytest.mark.parametrize(
    ("recipe", "options", "says"),
    [
        (
            Recipe([TemporalReverse(p=1.0), Resize((8, 8))]),
            {},
            "TemporalReverse moves frames in time",
        ),
        (Recipe([CenterCrop(8)]), {"decoder": "dali"}, "does not decode the pictures of a robot"),
        (Recipe([ColorJitter(0.1), Resize((8, 8))]), {}, "the cameras have 32x48 and 48x64 pixels"),
        (SMALL, {"execution": Execution(decode="fast")}, "is not supported for clips"),
        (SMALL, {"fields": ["velocity"]}, "'velocity' is missing"),
    ],
)
def test_refused(root: Path, recipe: Recipe, options: dict[str, Any], says: str) -> None:
    """What would tear pictures from their actions, or make cameras of several sizes one batch, is refused."""
    with pytest.raises(LoaderError, match=says):
        load(open_dataset(root), recipe, **options)


def test_clips_are_for_videos(root: Path) -> None:
    """A frame of a video of many episodes is no video to take clips of."""
    with pytest.raises(LoaderError, match="give the Loader the dataset itself"):
        Clips(open_dataset(root).take(3), num_frames=2, stride=1)
