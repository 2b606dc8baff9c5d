"""Processes that share a model share its samples: the data dimension of a mesh decides who gets what."""

import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.device_mesh import init_device_mesh

from dali_pipes import Loader, LoaderError, Monitoring
from dali_pipes.runs.audit_check import check_audit
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from tests.support.adapters import MemoryDataset

LENGTH = 24


def make_loader(pictures: list[bytes], **options: Any) -> Loader:
    return Loader(
        MemoryDataset(pictures, LENGTH),
        Recipe([RandomResizedCrop(8), HorizontalFlip()]),
        batch_size=4,
        device="cpu",
        decoder="cpu",
        num_threads=1,
        **options,
    )


def work(rank: int, shape: tuple[int, ...], pictures: list[bytes], folder: Path) -> None:
    """Be one process of a mesh, and write down what it was handed."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    size = torch.Size(shape).numel()
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size
    )
    names = ("dp_replicate", "dp_shard", "tp")[-len(shape) :]
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    assert mesh._get_root_mesh() is mesh
    data = mesh["dp_shard"] if len(shape) == 2 else mesh["dp_replicate", "dp_shard"]._flatten("dp")
    loader = make_loader(
        pictures, rank=data, monitoring=Monitoring(audit=folder / "audit-{rank}.jsonl")
    )
    seen = [
        (batch.indices.tolist(), hashlib.sha256(batch.images.numpy().tobytes()).hexdigest())
        for batch in loader
    ]
    found = {"group": data.get_local_rank(), "seen": seen, "state": loader.state_dict()}
    (folder / f"seen-{rank}.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.long
@pytest.mark.parametrize("shape", [(2, 2), (2, 1), (1, 2), (2, 1, 2)], ids=str)
def test_one_group_has_one_stream_of_samples(
    jpeg: Any, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """Processes of one place in the data dimension get the same samples and bits; the places partition the epoch."""
    pictures = [jpeg(12, 14, seed=number) for number in range(3)]
    size = torch.Size(shape).numel()
    processes.spawn(work, (shape, pictures, tmp_path), nprocs=size)
    found = [json.loads((tmp_path / f"seen-{rank}.json").read_text()) for rank in range(size)]
    groups = {one["group"]: one["seen"] for one in found}

    assert all(one["seen"] == groups[one["group"]] for one in found)
    assert all(one["state"] == found[0]["state"] for one in found)
    assert len(groups) == size // shape[-1]
    indices = [index for seen in groups.values() for some, _ in seen for index in some]
    assert sorted(indices) == list(range(LENGTH))
    assert len(list(tmp_path.glob("audit-*.jsonl"))) == len(groups)
    assert check_audit(tmp_path / "audit-*.jsonl").once


class Mesh:
    """What a DeviceMesh says of itself, at place 1 of 2."""

    ndim, mesh_dim_names, mesh = 1, ("dp",), torch.tensor([1, 3])

    def get_local_rank(self) -> int:
        """The place."""
        return 1

    def size(self) -> int:
        """The number of places."""
        return 2


def test_rank_is_that_in_the_mesh(jpeg: Any, tmp_path: Path) -> None:
    """Rank and size come from the mesh; a process that is not beside process 0 keeps no files of its own."""
    loader = make_loader(
        [jpeg(12, 14)], rank=Mesh(), monitoring=Monitoring(audit=tmp_path / "run-{rank}.jsonl")
    )
    list(loader)

    assert (loader.steps.rank, loader.steps.world_size) == (1, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_mesh_without_process_0_says_that_it_writes_nothing(jpeg: Any, tmp_path: Path) -> None:
    """Only where files were wanted; the place of a process in a whole mesh with process 0 is no reason to warn."""
    part, rest = Mesh(), Mesh()
    rest._get_root_mesh = lambda: rest  # type: ignore[attr-defined]
    part._get_root_mesh = lambda: SimpleNamespace(mesh=torch.arange(4))  # type: ignore[attr-defined]

    with pytest.warns(UserWarning, match=r"write nothing here: .* without process 0; .* rank="):
        make_loader(
            [jpeg(12, 14)], rank=rest, monitoring=Monitoring(audit=tmp_path / "run-{rank}.jsonl")
        )
    make_loader([jpeg(12, 14)], rank=rest)
    make_loader(
        [jpeg(12, 14)], rank=part, monitoring=Monitoring(audit=tmp_path / "run-{rank}.jsonl")
    )


def test_contradictions(jpeg: Any) -> None:
    """Rank beside a mesh, a mesh of two dimensions and what is no mesh are refused."""
    whole = Mesh()
    whole.ndim, whole.mesh_dim_names = 2, ("dp", "tp")  # type: ignore[assignment]
    with pytest.raises(LoaderError, match="has the number of processes, and so does world_size=2"):
        make_loader([jpeg(12, 14)], rank=Mesh(), world_size=2)
    with pytest.raises(LoaderError, match=r"2 dimensions, dp, tp, and nothing says .*mesh\['dp'\]"):
        make_loader([jpeg(12, 14)], rank=whole)
    with pytest.raises(LoaderError, match="rank=3, world_size=None: give both"):
        make_loader([jpeg(12, 14)], rank=3)


class Context:
    """What Ray Train tells a worker."""

    def get_world_rank(self) -> int:
        """Its rank."""
        return 1

    def get_world_size(self) -> int:
        """The number of workers."""
        return 3


def test_rank_of_ray_train(jpeg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no process group, a worker of Ray Train has the rank that Ray says; asked at the first use."""

    class Train:
        """Stands for ray.train."""

        context: Any = None

        def get_context(self) -> Any:
            """As ray.train does it."""
            if self.context is None:
                raise RuntimeError("`get_context` cannot be used outside of a training function")
            return self.context

    train = Train()
    monkeypatch.setitem(sys.modules, "ray.train", train)
    loader, early = make_loader([jpeg(12, 14)]), make_loader([jpeg(12, 14)])
    assert early.steps.world_size == 1
    train.context = Context()

    assert (loader.steps.rank, loader.steps.world_size) == (1, 3)
    with pytest.raises(LoaderError, match=r"now this process is rank 1 of 3 \(by Ray Train\)"):
        len(early)
