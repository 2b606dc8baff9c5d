"""Columns of LeRobot datasets in batches: tensors of the declared dtype and shape, and texts."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dali_pipes import Execution
from gpu_aug import Recipe, Resize
from readers import open_dataset
from tests.support.lerobot import TOP, Robot, change_info
from tests.support.loaders import loader_maker

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
# The shape [] is written as [1] by lerobot; both are single numbers.
SHAPES = ((), (1, 1), (2,), (2, 3), (2, 1, 3), (2, 1, 3, 2), (0,))
load = loader_maker(Recipe([Resize((8, 8))]), num_threads=2, last_batch="partial")


def column(dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Numbers of every frame that differ from those of all others, up to the extremes of the type."""
    values = np.arange(LENGTH * max(1, int(np.prod(shape)))).reshape(LENGTH, -1)
    if dtype == "bool":
        values = values % 3 == 0
    elif "int" in dtype:
        values = np.iinfo(dtype).max - values.astype(dtype)
    return values[:, : int(np.prod(shape))].astype(dtype).reshape(LENGTH, *shape)


LENGTH = 8
NAMES = {f"{dtype}{list(shape)}": (dtype, shape) for dtype in DTYPES for shape in SHAPES}
COLUMNS = {name: column(*kind) for name, kind in NAMES.items()}


@dataclass
class Columns(Robot):
    """A dataset with a column of every dtype and shape."""

    lengths: tuple[int, ...] = (5, 3)
    files: tuple[tuple[int, ...], ...] = ((0, 1),)
    sizes: Any = field(default_factory=lambda: {TOP: (16, 16)})
    codec: str = "mpeg4"

    def values(self) -> dict[str, NDArray[Any]]:
        """The values of all frames."""
        return {**super().values(), **COLUMNS}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset; half of its single numbers are declared with the shape []."""
    made = Columns().write(tmp_path_factory.mktemp("robot"))
    features = json.loads((made / "meta/info.json").read_text())["features"]
    for name in [f"{dtype}[]" for dtype in DTYPES[::2]]:
        features[name]["shape"] = []
    change_info(made, features=features)
    return made


@pytest.mark.parametrize(
    ("window", "helper"),
    [(None, False), ([0.1, -0.2, 0.0], False), ([0.0], True)],
    ids=["frames", "windows", "of a helper process"],
)
def test_columns_are_tensors_of_their_dtype_and_shape(
    root: Path, window: Any, helper: bool
) -> None:
    """[B, *shape] or [B, T, *shape] and [B, T] of padding, of every dtype and up to four dimensions."""
    deltas = None if window is None else dict.fromkeys([*NAMES, "note"], window)
    pads = [f"{name}_is_pad" for name in deltas or ()]
    dataset = open_dataset(root, delta_timestamps=deltas)
    execution = Execution(helper_process=helper)
    with load(dataset, fields=[*NAMES, *pads, "note"], execution=execution) as loader:
        batches = list(loader)
    offsets = np.rint(np.array(window or [0.0]) * 10).astype(int)

    for batch in batches:
        index = batch.indices.numpy()
        stop = np.where(index < 5, 5, 8)[:, None]
        rows = index[:, None] + offsets
        clamped = np.clip(rows, np.where(index < 5, 0, 5)[:, None], stop - 1)
        for name, (dtype, _) in NAMES.items():
            wanted = COLUMNS[name][clamped if window else index]
            found = batch.fields[name]
            assert isinstance(found, torch.Tensor)
            assert (str(found.dtype), tuple(found.shape)) == (f"torch.{dtype}", wanted.shape), name
            assert np.array_equal(found.numpy(), wanted), name
        for name in pads:
            assert torch.equal(
                torch.as_tensor(batch.fields[name]), torch.as_tensor(rows != clamped)
            )
        notes = [[f"note {row}" for row in each] for each in clamped.tolist()]
        texts = batch.fields["note"]
        assert (
            [json.loads(text) for text in texts] == notes
            if window
            else texts == [n for [n] in notes]
        )
    assert sum(map(len, batches)) == LENGTH
