"""torch's distributed checkpoints, and trainers built on them such as torchtitan, keep a loader as any other state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.stateful import Stateful

from dali_pipes import Loader, Monitoring
from gpu_aug import RandomResizedCrop, Recipe
from tests.support.adapters import MemoryDataset

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable")


def make_loader(pictures: list[bytes], rank: int, world_size: int, **options: Any) -> Loader:
    return Loader(
        MemoryDataset(pictures, 24),
        Recipe([RandomResizedCrop(8)]),
        batch_size=12 // world_size,
        device="cpu",
        decoder="cpu",
        num_threads=1,
        rank=rank,
        world_size=world_size,
        **options,
    )


@pytest.mark.parametrize("audited", [False, True])
def test_goes_on_from_a_distributed_checkpoint(
    jpeg: Callable[..., bytes], tmp_path: Path, audited: bool
) -> None:
    """A loader is Stateful: saved by one of two ranks, loaded by three, which go on where the two stood."""
    pictures = [jpeg(12, 14, seed=number) for number in range(3)]
    options = {"monitoring": Monitoring(audit=tmp_path / "run-{rank}.jsonl")} if audited else {}
    first = make_loader(pictures, 0, 2, **options)
    next(iter(first))
    assert isinstance(first, Stateful)
    dcp.save({"loader": first, "weight": torch.ones(3)}, checkpoint_id=tmp_path / "saved")
    ranks = [
        make_loader(pictures, rank, 3, monitoring=Monitoring(audit=tmp_path / "run-{rank}.jsonl"))
        for rank in range(3)
    ]
    for rank in ranks:
        dcp.load({"loader": rank}, checkpoint_id=tmp_path / "saved")
    got = [index for rank in ranks for batch in rank for index in batch.indices.tolist()]
    order = [index for batch in make_loader(pictures, 0, 1) for index in batch.indices.tolist()]

    assert got == order[12:]
    assert ranks[0].state_dict()["attempt"][:2] == ("1-" if audited else "0-")
