"""Numbers in data that no array holds: a bad sample in words, and never the end of a run or another number."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Batch, Loader
from gpu_aug import Recipe, Resize
from gpu_aug.errors import TargetsError
from gpu_aug.targets.targets import KeypointParams, Targets
from readers import open_dataset
from tests.support.annotated import put
from tests.support.small import make_small

RECIPE = Recipe([Resize((16, 16))], keypoints=KeypointParams(remove_invisible=False))
GOOD = {"boxes": [[1, 2, 9, 9]], "labels": [3], "keypoints": [[4, 5]], "keypoint_labels": [-1]}
LARGE = {
    "400 digits": 10**400,
    "10**26": 10**26,
    "2**63": 2**63,
    "2**64 - 1": 2**64 - 1,
    "-2**63 - 1": -(2**63) - 1,
}


def run(dataset: Any) -> tuple[list[Batch], list[str]]:
    """All batches under "skip", and the reasons of what was skipped."""
    with Loader.eval(
        dataset, RECIPE, batch_size=2, device="cpu", on_bad_sample="skip", max_bad_samples=9
    ) as loader:
        return list(loader), [record.reason for record in loader.bad_samples]


def run_json(folder: Path, jpeg: Callable[..., bytes], text: str) -> tuple[list[Batch], list[str]]:
    """Run over two images, of which the second has a good json beside it and the first this text."""
    texts = {"0.json": text, "1.json": json.dumps(GOOD)}
    images = {f"{number}.jpg": jpeg(20, 24, seed=number) for number in range(2)}
    return run(open_dataset(put(folder, texts | images)))


@pytest.mark.parametrize("number", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize(
    ("name", "beside"), [("labels", []), ("keypoint_labels", [-1])]
)  # numpy makes float64 of a large number and -1
def test_labels_of_boxes_and_keypoints(
    tmp_path: Path, jpeg: Callable[..., bytes], name: str, number: int, beside: list[int]
) -> None:
    """The neighbour keeps its own, and the reason names the range."""
    labels = [number, *beside]
    copies = {key: value * len(labels) for key, value in GOOD.items() if "labels" not in key}
    [batch], [reason] = run_json(tmp_path, jpeg, json.dumps({**copies, name: labels}))

    assert f"{name} must be a list of whole numbers from -2**63 to 2**63 - 1, got" in reason
    assert (batch.indices.tolist(), batch.box_labels[0].tolist()) == ([1], [3])


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *(
            ("boxes", number)
            for number in ("1" + "0" * 400, "1" + "0" * 5000, "1e39", "1e999", "NaN")
        ),
        *(("keypoints", number) for number in ("1" + "0" * 400, "-1e300", "-Infinity")),
    ],
)
def test_coordinates(tmp_path: Path, jpeg: Callable[..., bytes], name: str, number: str) -> None:
    """What float32 cannot hold makes a bad sample of its image alone."""
    text = json.dumps({name: [["here", *GOOD[name][0][1:]]]}).replace('"here"', number)
    [batch], [reason] = run_json(tmp_path, jpeg, text)

    assert reason.startswith(
        ("boxes must be", "keypoints must be", "the field 'json': it cannot be read")
    )
    assert batch.indices.tolist() == [1]


def test_the_largest_labels_stay(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """2**63 - 1 and -2**63 are handed over as they are."""
    largest = [2**63 - 1, -(2**63)]
    [batch], bad = run_json(
        tmp_path, jpeg, json.dumps({**GOOD, "boxes": GOOD["boxes"] * 2, "labels": largest})
    )

    assert bad == []
    assert batch.box_labels[0].tolist() == largest


@pytest.mark.parametrize(
    "labels", [[2**63], [2**64 - 1], [2**63, -1], [10**26], np.array([2**63], np.uint64)], ids=str
)
def test_targets_without_a_loader(labels: Any) -> None:
    """Targets themselves refuse them, as lists and as arrays."""
    with pytest.raises(
        TargetsError, match=r"from -2\*\*63 to 2\*\*63 - 1, got one of (64|87) bits"
    ):
        Targets(boxes=[[0, 0, 1, 1]] * len(labels), box_labels=labels)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        *[(number, "2**63 or more") for name, number in LARGE.items() if name[0] != "-"],
        (-2, "negative"),
        (float("nan"), "not a whole number"),
        (float("inf"), "not a whole number"),
        (2.5, "not a whole number"),
        ("cat", "not a whole number"),
    ],
    ids=str,
)
def test_a_dataset_that_does_not_look(jpeg: Callable[..., bytes], label: Any, said: str) -> None:
    """A label that a dataset of somebody's own hands over is checked by the loader."""
    dataset = make_small(jpeg, 3)
    dataset.labels[1] = label
    batches, [reason] = run(dataset)

    assert said in reason
    assert [batch.labels.tolist() for batch in batches] == [[0], [2]]


@pytest.mark.parametrize("label", [2, np.int64(2), np.uint8(2), 2.0, torch.tensor(2)], ids=repr)
def test_whole_numbers_of_any_type(jpeg: Callable[..., bytes], label: Any) -> None:
    """Numbers of numpy and torch are labels as well."""
    dataset = make_small(jpeg, 1)
    dataset.labels[0] = label
    [batch], bad = run(dataset)

    assert (batch.labels.tolist(), bad) == ([2], [])
