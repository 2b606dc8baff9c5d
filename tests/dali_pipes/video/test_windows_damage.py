"""Damaged LeRobot datasets in the loader: damage costs its own windows, with the name of the file, also over resumes."""

import os
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import BadSampleError, Execution, Monitoring
from dali_pipes.runs.audit_check import check_audit
from gpu_aug import ColorJitter, RandomResizedCrop, Recipe, Resize
from readers import Sample, open_dataset
from tests.support.lerobot import TOP, WRIST, Robot
from tests.support.loaders import images_by_index, indices_of, loader_maker
from tests.support.videos import remux

VIDEO = f"videos/{TOP}/chunk-000/file-000.mp4"
TABLE = "data/chunk-000/file-001.parquet"
ROBOT = Robot(lengths=(8, 6, 10, 4), files=((0, 1), (2,), (3,)), gop=4)
NUM_FRAMES = sum(ROBOT.lengths)
DELTAS = {TOP: [-0.2, 0.0, 0.1], WRIST: [0.0], "action": [0.0, 0.1, 0.2]}
FAST_START = {"movflags": "faststart"}
CROPS = Recipe([RandomResizedCrop((16, 24)), ColorJitter(0.3, 0.3, 0.3)])

load = loader_maker(Recipe([Resize((16, 24))]), num_threads=2, last_batch="partial")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound dataset of four episodes; the index of its videos precedes their frames, as in files of lerobot."""
    root = ROBOT.write(tmp_path_factory.mktemp("robot"))
    for path in list(root.glob("videos/*/*/*.mp4")):
        fast = remux(path, path.with_name("fast.mp4"), lambda *_: True, options=FAST_START)
        fast.replace(path)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    shutil.copytree(made, tmp_path / "robot")
    return tmp_path / "robot"


@pytest.fixture(scope="module")
def sound(made: Path) -> dict[int, torch.Tensor]:
    """The images of all windows by index."""
    return images_by_index(load(open_dataset(made, delta_timestamps=DELTAS)))


def change_frames(change: Callable[[bytearray], object]) -> Callable[[Path], object]:
    """Return a function that changes the second half of the frames in a video file."""

    def spoil(path: Path) -> None:
        content = bytearray(path.read_bytes())
        begin = content.index(b"mdat") + 4
        half = begin + (len(content) - begin) // 2
        changed = content[half:]
        change(changed)
        path.write_bytes(content[:half] + changed)

    return spoil


def flip(content: bytearray) -> None:
    content[:40] = bytes(byte ^ 0xFF for byte in content[:40])


def zero(content: bytearray) -> None:
    content[:] = bytes(len(content))


def damage_row_group(path: Path) -> None:
    """Fill the first column of the second row group with zeros."""
    import pyarrow.parquet as pq

    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)


# What is damaged, how, the windows that it costs (of their files: 0 to 13 and 14 to 23), and what is said.
DAMAGE: dict[str, tuple[str, Callable[[Path], object], range, str]] = {
    "cut video": (VIDEO, change_frames(bytearray.clear), range(8, 14), "lies beyond the video"),
    "flipped bytes": (VIDEO, change_frames(flip), range(8, 14), "cannot be decoded"),
    "zeros": (VIDEO, change_frames(zero), range(8, 14), "cannot be decoded"),
    "empty video": (VIDEO, lambda path: path.write_bytes(b""), range(14), "is empty"),
    "no video": (VIDEO, Path.unlink, range(14), "No such file"),
    "row group": (TABLE, damage_row_group, range(16, 24), "row group 1 of"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_costs_its_windows_alone(
    root: Path, sound: dict[int, torch.Tensor], name: str
) -> None:
    """Windows that need what is damaged are bad, and each reason names the file; all others have their pixels."""
    place, spoil, costs, says = DAMAGE[name]
    spoil(root / place)
    loader = load(open_dataset(root, delta_timestamps=DELTAS), on_bad_sample="skip")
    found = images_by_index(loader)
    reasons = {record.index: record.reason for record in loader.bad_samples}

    assert sorted(reasons) == list(costs)
    assert sorted(found) == sorted({*range(NUM_FRAMES)} - {*costs})
    for reason in reasons.values():
        assert place in reason
        assert says in reason
    for index, images in found.items():
        assert torch.equal(images, sound[index])


def test_another_camera_is_untouched(root: Path, sound: dict[int, torch.Tensor]) -> None:
    """Without the camera whose video is missing, no window is bad."""
    (root / VIDEO).unlink()
    dataset = open_dataset(root, cameras=WRIST, delta_timestamps={WRIST: [0.0]})
    found = images_by_index(load(dataset))

    assert sorted(found) == list(range(NUM_FRAMES))
    assert all(torch.equal(images, sound[index][-1:]) for index, images in found.items())


def test_a_budget_names_the_file(root: Path) -> None:
    """A run that loses more windows than allowed ends with the file that costs them."""
    (root / VIDEO).unlink()
    loader = load(
        open_dataset(root, delta_timestamps=DELTAS), on_bad_sample="skip", max_bad_samples=3
    )
    with pytest.raises(BadSampleError, match=rf"{VIDEO}: .*max_bad_samples=3"):
        list(loader)


@pytest.mark.parametrize(
    ("policy", "helper"),
    [("skip", False), ("replace", False), pytest.param("replace", True, marks=pytest.mark.long)],
)
def test_exact_resume_over_ranks_and_damage(
    root: Path, policy: str, helper: bool, tmp_path: Path
) -> None:
    """A run on 1, then 2, then 3 ranks has every good window once, with the pixels of an uninterrupted run."""
    change_frames(zero)(root / VIDEO)
    dataset = open_dataset(root, delta_timestamps=DELTAS)
    options: dict[str, Any] = {"seed": 5, "on_bad_sample": policy, "max_bad_samples": 100}
    (tmp_path / "audit").mkdir()
    wanted = images_by_index(load(dataset, CROPS, batch_size=6, **options))
    batches, state, bad = [], None, set()
    for world_size, steps in ((1, 2), (2, 2), (3, None)):
        states = []
        for rank in range(world_size):
            monitoring = Monitoring(audit=str(tmp_path / f"audit/{world_size}-{{rank}}.jsonl"))
            loader = load(
                open_dataset(root, delta_timestamps=DELTAS),
                CROPS,
                batch_size=6 // world_size,
                rank=rank,
                world_size=world_size,
                monitoring=monitoring,
                execution=Execution(helper_process=helper),
                **options,
            )
            if state is not None:
                loader.load_state_dict(state)
            with loader:
                batches += list(islice(loader, steps))
                states.append(loader.state_dict())
                bad |= {record.index for record in loader.bad_samples}
        state = states[0]
    rows = indices_of(batches)
    found = images_by_index(batches)

    assert bad == {*range(8, 14)}
    good = [index for index in rows if index not in bad]
    assert {*good} == {*range(NUM_FRAMES)} - bad
    assert all(torch.equal(found[index], wanted[index]) for index in good)
    [epoch] = check_audit(tmp_path / "audit").epochs
    assert epoch.is_complete
    assert "more than once" not in epoch.line
    assert ("skipped 6 samples as bad" in epoch.line) == (policy == "skip")
    if policy == "skip":
        assert len(good) == len(rows) == len({*rows})
    else:
        assert len(rows) == NUM_FRAMES


def test_a_forked_process_reads_on(made: Path) -> None:
    """As the workers of a DataLoader do: a dataset that was read before a fork is read in the child."""
    dataset = open_dataset(made, delta_timestamps=DELTAS)

    def read() -> list[dict[str, bytes]]:
        samples = dataset.fetch([3, 20])
        assert all(isinstance(sample, Sample) for sample in samples)
        return [{name: bytes(data) for name, data in one.fields.items()} for one in samples]

    before = read()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if read() == before else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
