"""Ranks taken from torch.distributed, with real processes."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

from readers import open_dataset
from tests.support.forks import forks

RANK = """
import json, warnings
import torch.distributed as dist
from dali_pipes import Loader
from gpu_aug import RandomResizedCrop, Recipe
from readers import open_dataset

warnings.simplefilter("ignore")

def run(folder, store, rank):
    recipe = Recipe([RandomResizedCrop(16)])
    loader = Loader(open_dataset(folder), recipe, batch_size=4, device="cpu", last_batch="partial")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    seen = [batch.indices.tolist() for batch in loader]
    dist.destroy_process_group()
    return json.dumps([int(rank), seen], separators=(",", ":"))
"""


def test_ranks_share_an_epoch(tmp_path: Path, jpeg: Callable[..., bytes]) -> None:
    """Two processes of a process group, made after their loaders, have as many steps each and share the samples."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(21):
        (folder / f"{number:02d}.jpg").write_bytes(jpeg(20, 30, seed=number))
    with forks(RANK) as processes:
        for rank in (0, 1):
            processes.start(folder, tmp_path / "store", rank)
        answers = sorted(json.loads(word) for [word] in processes.answers())
    ranks = [seen for _, seen in answers]

    assert [len(steps) for steps in ranks] == [3, 3]
    received = list(itertools.chain(*itertools.chain(*ranks)))
    assert sorted(received) == list(range(len(open_dataset(folder))))
    assert received != sorted(received)
