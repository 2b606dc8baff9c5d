"""What the kernels say of the last steps is heard as well: at the end of a loop, and where one is left."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dali_pipes import Loader, LoaderError
from dali_pipes.decode.cuda_jpeg.decoder import _Verdicts
from dali_pipes.jpeg.checkpoints import find_all_checkpoints
from dali_pipes.jpeg.status import LEFT_OVER
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset
from tests.support.cuda_jpegs import on_the_cpu
from tests.support.jpegs import encode, picture

SOUND = 4
"""Files whose checkpoints are right; those of the last one are not."""


@pytest.fixture
def loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loader]:
    """One step, whose last file has checkpoints with other DC values."""
    root = tmp_path / "data"
    root.mkdir()
    for number in range(SOUND + 1):
        data = encode(picture(90, 70, number), "4:2:0")
        (root / f"{number:03}.jpg").write_bytes(data)

    def find(files: Any, *rest: Any) -> Any:
        found = find_all_checkpoints(files, *rest)
        for (address, num_bytes), one in zip(files.tolist(), found, strict=True):
            if ctypes.string_at(address, num_bytes) == data:
                one.rows["dc"][::2] += (
                    100  # so that all intervals have a wrong end, whatever the crop needs
                )
        return found

    monkeypatch.setenv("GPU_AUG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("dali_pipes.decode.cuda_jpeg.known.find_all_checkpoints", find)
    with on_the_cpu():
        yield Loader(
            open_dataset(root, labels=[0] * (SOUND + 1)),
            Recipe([RandomResizedCrop(32)]),
            batch_size=SOUND + 1,
            decoder="cuda",
            device="cpu",
            shuffle="none",
        )


def test_the_last_step_of_an_epoch_is_heard(loader: Loader) -> None:
    """An epoch of one step ends with the error; it names the file, and no other one."""
    with pytest.raises(LoaderError, match=r'sound.*004\.jpg.*use decoder="cpu"') as told:
        list(loader)

    assert not any(f"{number:03}.jpg" in str(told.value) for number in range(SOUND))


def test_the_last_step_of_a_loop_that_is_left_is_heard(loader: Loader) -> None:
    """Closing the loader raises, and leaves nothing open."""
    loop = iter(loader)
    next(loop)

    with pytest.raises(LoaderError, match=r"004\.jpg"):
        loader.close()
    loader.close()
    assert list(loop) == []


class _Late:
    """An event that has not come; who waits for it finds the verdicts copied."""

    def __init__(self, statuses: NDArray[np.int32]) -> None:
        self._statuses = statuses

    def query(self) -> bool:
        """Whether it has come."""
        return False

    def synchronize(self) -> None:
        """The host waits."""
        self._statuses[1] = LEFT_OVER


def test_the_end_waits_for_verdicts_that_are_under_way() -> None:
    """On a GPU they come late."""
    statuses = np.zeros(2, np.int32)
    verdicts = _Verdicts(_Late(statuses), statuses, ["good", "bad"].__getitem__, torch.empty(0))

    assert not verdicts.have_come()
    verdicts.require_good()
    verdicts.wait()
    with pytest.raises(LoaderError, match=r"the scan ends too late\) that are sound: bad;"):
        verdicts.require_good()
