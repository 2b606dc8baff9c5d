"""Mixtures of LeRobot datasets with different cameras, frame rates, features and tasks."""

import json
import shutil
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from dali_pipes import Batch, Field, Loader, LoaderError
from gpu_aug import (
    ColorJitter,
    GaussianBlur,
    HorizontalFlip,
    Normalize,
    RandomResizedCrop,
    Recipe,
    Resize,
)
from readers import SelectionError, mix, open_dataset
from readers.datasets.mixture import Mixture
from readers.formats.lerobot.dataset import LeRobotDataset
from tests.support.lerobot import TASKS, TOP, WRIST, Robot
from tests.support.loaders import loader_maker
from tests.support.same_batches import images_by_index

FRONT = "observation.images.front"
CROPS = Recipe(
    [RandomResizedCrop((24, 32)), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4), Normalize()]
)
SMALL = Recipe([Resize((16, 24))])
ARM = Robot(lengths=(5, 3))
# Another rate; and the camera in common is not the first.
HAND = Robot(
    lengths=(4, 6), fps=30, sizes={FRONT: (24, 32), WRIST: (32, 48)}, files=((0,), (1,)), gop=3
)
load = loader_maker(SMALL, num_threads=2, last_batch="partial")


class Wide(Robot):
    """A robot with more joints, and with a feature of its own."""

    def values(self) -> dict[str, Any]:
        """The values of all frames."""
        own = super().values()
        more = {"effort": own["reward"], "remark": own["note"]}
        return own | more | {"action": np.tile(own["action"], 2)[:, :5]}


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of three datasets; ``wide`` has the pictures of ``arm``."""
    robots = {"arm": ARM, "hand": HAND, "wide": Wide(lengths=(5, 3), sizes={TOP: (48, 64)})}
    folder = tmp_path_factory.mktemp("robots")
    robots["arm"].files = robots["wide"].files = ((0, 1),)
    return {name: robot.write(folder / name) for name, robot in robots.items()}


def opened(root: Path, **options: Any) -> LeRobotDataset:
    """Open a dataset, with two pictures of each camera and three actions, at neighbouring frames of its rate."""
    plain = open_dataset(root, **options)
    step = 1 / plain.info.fps
    deltas = {camera: [-step, 0.0] for camera in plain.cameras} | {"action": [0, step, 2 * step]}
    return open_dataset(root, delta_timestamps=deltas, **options)


def both(roots: dict[str, Path], *names: str, **options: Any) -> Mixture:
    """Mix some datasets, ``arm`` and ``hand`` if none is named."""
    return mix([opened(roots[name]) for name in names or ("arm", "hand")], **options)


def test_a_batch_has_the_cameras_of_all_datasets(roots: dict[str, Path]) -> None:
    """Each sample has the pictures that it has alone, black ones of other cameras, and the times of its own rate."""
    mixture = both(roots, names=["arm", "hand"])
    alone = [images_by_index(load(part)) for part in mixture.datasets]
    columns = [[0, 1, 2, 3], [4, 5, 2, 3]]
    batches = list(load(mixture, batch_size=5))

    assert [*batches[0].cameras] == [TOP, WRIST, FRONT]
    assert batches[0].images.shape == (5, 6, 3, 16, 24)
    for batch in batches:
        assert batch.frames is not None
        assert batch.seconds is not None
        mask = batch["camera_mask"]
        for row, index in enumerate(batch.indices.tolist()):
            number = int(index >= len(mixture.datasets[0]))
            own, others = columns[number], sorted({*range(6)} - {*columns[number]})
            assert batch["dataset_index"][row] == number
            assert torch.equal(batch.images[row, own], alone[number][index - 8 * number])
            assert not batch.images[row, others].any()
            assert [mask[name][row].item() for name in (TOP, WRIST, FRONT)] == [
                not number,
                True,
                bool(number),
            ]
            assert batch.frames[row, others].tolist() == [-1, -1]
            steps = batch.seconds[row, own] * (10, 30)[number]
            assert torch.allclose(steps, batch.frames[row, own].double(), atol=1e-3)
            assert batch.keys[row].startswith(("arm/", "hand/")[number])
    assert load(mixture).replay(0, epoch=0).header["frames"] == [0, 0, 0, 0, -1, -1]


def test_draws_do_not_depend_on_cameras_that_others_have(roots: dict[str, Path]) -> None:
    """The first dataset's samples keep their indices in the mixture, and so their crops."""
    alone = images_by_index(load(opened(roots["arm"]), CROPS))
    mixed = images_by_index(load(both(roots), CROPS))

    for index, images in alone.items():
        assert torch.equal(mixed[index][:4], images)


def test_a_missing_camera_has_the_size_of_the_others(roots: dict[str, Path]) -> None:
    """A recipe that works on the pictures' own size makes black ones of this size; several sizes are refused."""
    late = Recipe([HorizontalFlip(), Resize((8, 8))])
    arm, hand = (open_dataset(roots[name], cameras=WRIST) for name in ("arm", "hand"))
    with pytest.raises(LoaderError, match="the cameras have 24x32 and 32x48 pixels"):
        load(mix([arm, open_dataset(roots["hand"])]), late)
    renamed = open_dataset(roots["arm"], cameras=TOP, rename={WRIST: TOP, TOP: WRIST})
    [batch] = load(mix([renamed, hand]), late, batch_size=18)

    assert batch.images.shape == (18, 2, 3, 8, 8)
    is_first = batch["dataset_index"] == 0
    assert torch.equal(batch.images.flatten(2).any(2), torch.stack([is_first, ~is_first], 1))


def test_padding_of_a_missing_camera(roots: dict[str, Path]) -> None:
    """``CAMERA_is_pad`` is true for samples without the camera, and tells the ends of episodes for others."""
    names = [f"{camera}_is_pad" for camera in (TOP, WRIST)]
    for batch in load(both(roots), fields=[*names, "frame_index"], batch_size=6):
        first = batch["frame_index"] == 0
        at_ends = torch.stack([first, torch.zeros_like(first)], 1)
        is_lacking = ~batch.camera_mask[TOP]
        assert torch.equal(batch[names[0]], at_ends | is_lacking[:, None])
        assert torch.equal(batch[names[1]], at_ends)


def test_a_renamed_camera_is_one_camera(roots: dict[str, Path]) -> None:
    """Datasets that name a camera differently share it; its pictures are those under the stored name."""
    hand = opened(roots["hand"], rename={FRONT: TOP})
    [batch] = load(mix([opened(roots["arm"]), hand]), batch_size=18)
    plain = images_by_index(load(opened(roots["hand"])))

    assert [*batch.cameras] == [TOP, WRIST]
    assert all(mask.all() for mask in batch.camera_mask.values())
    for row, index in enumerate(batch.indices.tolist()):
        if index >= 8:
            assert torch.equal(batch.images[row], plain[index - 8])


FIELDS_REFUSED = {
    "other shapes": (
        "action",
        {},
        r"is float32 \[5\] in .*wide, float32 \[3\] in .*hand, .*, shape=\(5,\), pad=0\)",
    ),
    "missing number": (
        "effort",
        {},
        r"is float64 \[\] in .*wide, missing in .*hand, .*float64, shape=\(\), default=np.zeros\(\(\)\)",
    ),
    "missing text": (
        "remark",
        {},
        r"is text \[\] in .*wide, missing in .*hand, .*Field\(str, default=\"\"\)",
    ),
    "other windows": (
        "reward",
        {"reward": [0.0, 0.1]},
        r"is float64 \[2\] in .*wide, float64 \[\] in .*hand, .*delta_timestamps of one length.*Field\(function\)",
    ),
    "padding that one dataset does not tell": (
        f"{TOP}_is_pad",
        {TOP: [0.0]},
        r"is bool \[1\] in .*wide, missing in .*hand, missing in .*arm",
    ),
}


@pytest.mark.parametrize("case", FIELDS_REFUSED)
def test_fields_that_make_no_tensor_are_refused(case: str, roots: dict[str, Path]) -> None:
    """When the loader is made, with the datasets, their shapes and a declaration that works."""
    field, deltas, says = FIELDS_REFUSED[case]
    parts = [open_dataset(roots["wide"], delta_timestamps=deltas)]
    parts += [open_dataset(roots[name]) for name in ("hand", "arm")]
    with pytest.raises(LoaderError, match=f"the field '{field}' {says}"):
        load(mix(parts), fields=[field])


def test_fields_of_several_units_are_refused(roots: dict[str, Path]) -> None:
    """A field that one dataset normalizes by another formula than the others; a Field takes it all the same."""
    modes = [{"action": "mean_std"}, {"action": "mean_std"}, {"action": "min_max"}, None]
    for name in ("arm", "hand"):
        stats = {"action": {key: [n] * 3 for n, key in enumerate(("min", "mean", "max", "std"))}}
        (roots[name] / "meta/stats.json").write_text(json.dumps(stats))
    first, *others = (
        opened(roots["arm" if n == 0 else "hand"], normalize=m) for n, m in enumerate(modes)
    )

    load(mix([first, others[0]]), fields=["action"])
    for other, how in zip(others[1:], ("min_max", "none"), strict=True):
        with pytest.raises(
            LoaderError, match=f"'action' is normalized differently, mean_std in .*arm, {how} in"
        ):
            load(mix([first, other]), fields=["action"])
        load(
            mix([first, other]),
            fields={"action": Field(np.ndarray, dtype=torch.float32, shape=(3, 3))},
        )


def test_declared_fields_are_filled_up(roots: dict[str, Path]) -> None:
    """The declaration that an error proposes gives arrays of one shape, and a default where the feature is missing."""
    fields = {
        "action": Field(np.ndarray, dtype=torch.float32, shape=(3, 5), pad=-1),
        "effort": Field(np.ndarray, dtype=torch.float64, shape=(), default=np.zeros(())),
        "action_is_pad": None,
    }
    [batch] = load(both(roots, "wide", "hand"), fields=fields, batch_size=18)
    is_hand = batch["dataset_index"] == 1

    assert batch["action_is_pad"].shape == (18, 3)
    assert torch.equal((batch["action"][..., 3:] == -1).all(2).all(1), is_hand)
    assert not batch["effort"][is_hand].any()
    assert batch["effort"][~is_hand].any()
    small = {"action": Field(np.ndarray, torch.float32, (3, 4), pad=0)}
    with pytest.raises(LoaderError, match=r"dataset 1 .*shape \[3, 5\], declared is \[3, 4\]"):
        load(both(roots, "hand", "wide"), fields=small)


def test_windows_of_several_lengths_are_refused(roots: dict[str, Path]) -> None:
    """A camera has one number of pictures in a batch; the error names the datasets."""
    parts = [opened(roots["arm"]), open_dataset(roots["hand"])]
    says = rf"the pictures of {WRIST} in a sample are 2 in .*arm, 1 in .*hand, which make no batch"
    with pytest.raises(LoaderError, match=says):
        load(mix(parts))


@pytest.fixture
def retold(roots: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of ``hand`` with other tasks, of which number 1 is left out."""
    root = shutil.copytree(roots["hand"], tmp_path / "retold")
    table = pa.table({"task_index": [0, 2, 1], "task": ["wipe", "pour", "stack"]}).slice(0, 2)
    pq.write_table(table, root / "meta/tasks.parquet")
    return root


def test_tasks_of_datasets_are_never_confused(roots: dict[str, Path], retold: Path) -> None:
    """Numbers of different tasks are refused or moved apart; the texts are right in any case."""
    parts = [opened(roots["arm"]), opened(retold, episodes=[1])]
    with pytest.raises(SelectionError, match=r'different classes.*labels="offset"'):
        mix(parts)
    mixture = mix(parts, labels="offset")
    [batch] = load(mixture, fields=["task"], batch_size=14)

    assert mixture.class_names == (*TASKS, "wipe", "(no task 1)", "pour")
    assert isinstance(batch.labels, torch.Tensor)
    assert [mixture.class_names[label] for label in batch.labels.tolist()] == batch["task"]
    assert {*batch["task"]} == {*TASKS[1:], "pour"}
    with pytest.raises(
        LoaderError, match=r"'task_index' mean different texts.*take the texts, 'task'"
    ):
        load(mixture, fields=["task_index"])


def rows_of(batches: Iterable[Batch]) -> Counter[Any]:
    """Return how often each row occurs: its index, its pictures, and which cameras and dataset it has."""
    return Counter(
        (
            index,
            images.numpy().tobytes(),
            *(mask[row].item() for mask in batch.camera_mask.values()),
        )
        for batch in batches
        for row, (index, images) in enumerate(
            zip(batch.indices.tolist(), batch.images, strict=True)
        )
    )


def test_exact_resume_on_other_ranks(roots: dict[str, Path]) -> None:
    """A mixture whose weights change continues with the same samples, crops and masks, from one rank to two."""

    def run(**options: Any) -> Loader:
        weights = {0: [0.75, 0.25], 1: [0.25, 0.75]}
        mixture = both(roots, weights=weights)
        return load(mixture, CROPS, seed=3, fields=["action"], last_batch="drop", **options)

    whole = run(batch_size=6)
    epochs = [list(whole), list(whole)]
    first = run(batch_size=6)
    begun = list(islice(first, 2))
    state = first.state_dict()
    ranks = [run(batch_size=3, rank=rank, world_size=2) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    rest = [batch for rank in ranks for batch in rank]

    assert rows_of([*begun, *rest]) == rows_of(epochs[0])
    assert rows_of(batch for rank in ranks for batch in rank) == rows_of(epochs[1])
    counts = [sum((b["dataset_index"] == 0).sum().item() for b in epoch) for epoch in epochs]
    assert [count / 18 for count in counts] == pytest.approx([0.75, 0.25], abs=0.1)


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_a_missing_video_costs_its_windows_alone(
    roots: dict[str, Path], tmp_path: Path, policy: str
) -> None:
    """Of one camera and file of one dataset; a substitute of another dataset has that one's cameras."""
    hand = shutil.copytree(roots["hand"], tmp_path / "hand")
    (hand / f"videos/{FRONT}/chunk-000/file-001.mp4").unlink()
    loader = load(
        mix([opened(roots["arm"]), opened(hand)]), on_bad_sample=policy, max_bad_samples=18
    )
    batches = list(loader)
    indices = [index for batch in batches for index in batch.indices.tolist()]

    assert sorted({record.index for record in loader.bad_samples}) == list(range(12, 18))
    assert {*indices} == {*range(12)}
    assert len(indices) == (12 if policy == "skip" else 18)
    for batch in batches:
        number = batch["dataset_index"]
        assert torch.equal(number, (batch.indices >= 8).long())
        assert torch.equal(batch.camera_mask[FRONT], number == 1)
        assert torch.equal(batch.cameras[FRONT].flatten(1).any(1), number == 1)


def test_selections_of_mixtures(roots: dict[str, Path]) -> None:
    """Parts, tasks, episodes and balanced tasks keep each sample's pictures and dataset."""
    mixture = both(roots)
    whole = images_by_index(load(mixture))
    for part, indices in (
        (mixture.where("label == 'wait'"), [5, 6, 7, *range(12, 18)]),
        (mixture.take([17, 0, 9]), [17, 0, 9]),
        (mix([opened(roots["arm"], episodes=[1]), mixture.datasets[1]]), range(5, 18)),
        (mix([mixture.datasets[0].take(8), mixture.datasets[1]]).balanced(), range(18)),
    ):
        batches = list(load(part, shuffle="none"))
        for batch in batches:
            own = torch.tensor([indices[index] for index in batch.indices.tolist()])
            assert torch.equal(batch.images, torch.stack([whole[n] for n in own.tolist()]))
            assert torch.equal(batch["dataset_index"], (own >= 8).long())
    single = load(mixture.datasets[0]).peek()
    assert "dataset_index" not in single
    assert all(mask.all() for mask in single.camera_mask.values())


def test_explain_names_the_datasets_without_a_camera(roots: dict[str, Path]) -> None:
    """Whoever reads it sees which pictures are black."""
    text = load(both(roots)).explain()
    assert f"camera {TOP}: frames 0 to 1 of each clip, black for {roots['hand']}" in text
    assert f"camera {WRIST}: frames 2 to 3 of each clip\n" in text


def test_a_group_without_its_first_camera_has_the_size_of_the_others(tmp_path: Path) -> None:
    """Whole pictures are blurred before they are resized, so that their canvases have the camera's own size."""
    sizes = {TOP: (48, 64), FRONT: (32, 48), WRIST: (32, 48)}
    lacking = {TOP: (48, 64), WRIST: (32, 48)}
    roots = [
        Robot(lengths=(3,), sizes=own, files=((0,),)).write(tmp_path / str(number))
        for number, own in enumerate((sizes, lacking))
    ]
    every, some = map(open_dataset, roots)
    blurred = Recipe([GaussianBlur((3, 3), (1.0, 1.0)), Resize((16, 24))])
    recipes = {TOP: SMALL, (FRONT, WRIST): blurred}
    mixed = load(mix([every, some]), recipes, shuffle="none")
    alone = load(some, {TOP: SMALL, WRIST: blurred}, shuffle="none")
    found = torch.cat([batch.cameras[WRIST] for batch in mixed])

    assert blurred.decode_size is None
    assert torch.equal(found[3:], torch.cat([batch.cameras[WRIST] for batch in alone]))
