"""A disk that is full under the audit or the ledger stops the loop in words, and loses no step and no line."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dali_pipes import Loader, LoaderError, Monitoring
from dali_pipes.runs import journal
from gpu_aug import RandomResizedCrop, Recipe
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8)])
WRITE = os.write


@pytest.mark.parametrize("name", ["audit", "ledger"])
def test_a_full_disk(
    tmp_path: Path, jpeg: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The file is named with what to do; once there is room the run goes on with the batch that was not handed over."""
    dataset = make_small(jpeg, 12)
    dataset.images[5] = b""
    options: dict[str, Any] = {"batch_size": 4, "device": "cpu", "decoder": "cpu"}
    files: dict[str, Any] = {name: tmp_path / "run-{rank}.jsonl"}
    options |= {"shuffle": "none", "on_bad_sample": "skip", "monitoring": Monitoring(**files)}
    loader = Loader(dataset, RECIPE, **options)
    loop = iter(loader)
    assert next(loop).indices.tolist() == [0, 1, 2, 3]
    room = [10]

    def write(descriptor: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return WRITE(descriptor, data[: room.pop()])

    monkeypatch.setattr(journal.os, "write", write)
    state = loader.state_dict()
    said = rf"{name}='.*run-{{rank}}.jsonl': .*run-0.jsonl cannot be written \(No space left on device\).*make room"
    with pytest.raises(LoaderError, match=said):
        next(loop)
    assert (loader.state_dict(), loader.audit.steps) == (state, 1)

    monkeypatch.undo()
    again = Loader(dataset, RECIPE, **options)
    again.load_state_dict(state)
    assert [batch.indices.tolist() for batch in again] == [[4, 6, 7], [8, 9, 10, 11]]
    lines = (tmp_path / "run-0.jsonl").read_text().splitlines()
    whole = [json.loads(line) for line in lines if line.endswith("}")]
    assert len(whole) == len(lines) - 1  # the torn one stands alone
    if name == "ledger":
        assert [line["index"] for line in whole] == [5]
    else:
        assert [line["start"] for line in whole if "start" in line] == [0, 4, 8]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_device_without_room(jpeg: Callable[..., bytes]) -> None:
    """As the system itself says it, with the first line that is written."""
    loader = Loader(
        make_small(jpeg, 8),
        RECIPE,
        batch_size=4,
        device="cpu",
        monitoring=Monitoring(audit="/dev/full"),
    )
    with pytest.raises(LoaderError, match=r"audit='/dev/full'.*No space left on device"):
        next(iter(loader))


def test_a_folder_is_no_file(jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    """It is noticed before the run."""
    for name in ("audit", "ledger"):
        files: dict[str, Any] = {name: tmp_path}
        with pytest.raises(LoaderError, match=f"{name}=.* it is a folder; name a file in it"):
            Loader(make_small(jpeg, 8), RECIPE, batch_size=4, monitoring=Monitoring(**files))
