"""Which rank this process is, and of how many: as told, from torch.distributed, Ray Train, or the environment."""

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch.distributed

from dali_pipes.errors import LoaderError

_NAMES = ("RANK", "WORLD_SIZE")
_GIVE = "give Loader(rank=..., world_size=...)"


@dataclass(frozen=True, slots=True)
class Process:
    """One process among those that share the steps.

    Attributes:
        rank: 0 <= rank < world_size.
        world_size: Number of processes.
        source: Who says so; "nobody" is rank 0 of 1.
    """

    rank: int
    world_size: int
    source: Literal["arguments", "mesh", "torch.distributed", "Ray Train", "environment", "nobody"]

    def __str__(self) -> str:
        told = {
            "arguments": "by rank= and world_size=",
            "mesh": "by mesh=",
            "environment": "by RANK and WORLD_SIZE",
        }
        how = told.get(self.source, f"by {self.source}")
        return f"rank {self.rank} of {self.world_size} ({how})"


class Ranks:
    """Settles which rank this process is when it is first needed, and notices when it changes later.

    A loader may be made before the process group; so nothing is settled when it is made.

    Args:
        rank: As told, or None to look around.
        world_size: As told, or None.
        mesh: A one-dimensional DeviceMesh of torch, whose processes share each step; not together with the others.

    Attributes:
        writes: Whether this process keeps the files of its rank: under a mesh several processes may have one rank.

    Raises:
        LoaderError: Only one of them is given, or they are impossible.
    """

    def __init__(self, rank: int | None, world_size: int | None, mesh: Any = None) -> None:
        self._told: Process | None = None
        self._settled: Process | None = None
        self.writes, self._has_first = True, True
        if mesh is not None:
            if rank is not None or world_size is not None:
                raise LoaderError(
                    f"mesh= says which rank this is, and so do rank={rank} and world_size={world_size}: give one of them"
                )
            self._told = _of_mesh(mesh)
            # The processes that differ in the other dimensions have the same samples: those beside process 0 write.
            self.writes = bool((mesh.mesh == 0).any())
            whole = getattr(mesh, "_get_root_mesh", None)  # torch has no public name for it
            self._has_first = whole is None or bool((whole().mesh == 0).any())
        if rank is None and world_size is None:
            return
        if rank is None or world_size is None:
            raise LoaderError(
                f"rank={rank}, world_size={world_size}: give both, or neither to ask torch.distributed"
            )
        for name, number in (("rank", rank), ("world_size", world_size)):
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                raise LoaderError(f"{name}={number!r} is not allowed; give a whole number")
        if not 0 <= rank < world_size:
            raise LoaderError(
                f"rank={rank} is not allowed with world_size={world_size}; ranks count from 0"
            )
        self._told = Process(int(rank), int(world_size), "arguments")

    def warn_of_files(self, *wanted: object, stacklevel: int) -> None:
        """Warn of files that nobody will write: they are wanted, and the whole mesh is without process 0.

        Which of its processes are alone with their samples, it does not say: meshes made one by one look the same.
        """
        if self._has_first or all(one is None for one in wanted):
            return
        warnings.warn(
            "audit= and ledger= write nothing here: the processes of mesh= that are beside process 0 write them, and this "
            "mesh is without process 0; in the processes that shall write, give rank= and world_size= instead of mesh=",
            UserWarning,
            stacklevel=stacklevel,
        )

    def now(self) -> Process:
        """Return what this process is at this moment, without settling it.

        Raises:
            LoaderError: The environment has half of it, or something impossible.
        """
        return self._told or _group() or _ray_train() or _environment() or Process(0, 1, "nobody")

    def guess(self) -> Process:
        """Return what this process is at this moment, 0 of 1 where the environment has half of one."""
        try:
            return self.now()
        except LoaderError:
            return Process(0, 1, "nobody")

    def expected(self) -> Process:
        """Return what was settled, else what holds at this moment, without settling it.

        Raises:
            LoaderError: As `settle` and `now`.
        """
        return self.now() if self._settled is None else self.settle()

    def settle(self) -> Process:
        """Return what holds for this loader from its first use on.

        Raises:
            LoaderError: A process group or the environment says otherwise than what was used before.
        """
        if self._settled is None:
            self._settled = self.now()
            if self._told is not None:
                _warn_of_others(self._told)
        elif self._told is None:
            self._require_unchanged(self._settled)
        return self._settled

    def other(self) -> Process | None:
        """Return what the process group or the environment says, where arguments say otherwise."""
        if self._told is None:
            return None
        found = found_process()
        mine = (self._told.rank, self._told.world_size)
        return None if found is None or (found.rank, found.world_size) == mine else found

    def _require_unchanged(self, used: Process) -> None:
        # A group that has ended since contradicts nothing, nor does the environment a group.
        found = _group()
        if found is None and used.source != "torch.distributed":
            found = _ray_train() or _environment()
        if found is not None and (found.rank, found.world_size) != (used.rank, used.world_size):
            raise LoaderError(
                f"this loader was used as {used}, but now this process is {found}: the ranks would not share the "
                f"epoch; call init_process_group before the loader's first use (len, a loop, its state), start the "
                f"script by torchrun, or {_GIVE}"
            )


def _group() -> Process | None:
    """Return what the default process group says."""
    group = torch.distributed
    if not (group.is_available() and group.is_initialized()):
        return None
    return Process(group.get_rank(), group.get_world_size(), "torch.distributed")


def _ray_train() -> Process | None:
    """Return what Ray Train says, if this is one of its workers."""
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        rank, world_size = context.get_world_rank(), context.get_world_size()
    except (RuntimeError, AttributeError):  # no worker, or a module that is not imported to its end
        return None
    return None if rank is None else Process(rank, world_size, "Ray Train")


def _of_mesh(mesh: Any) -> Process:
    """Return the place of this process in a one-dimensional mesh."""
    dimensions = getattr(mesh, "ndim", None)
    if dimensions is None or not hasattr(mesh, "get_local_rank"):
        raise LoaderError(
            f"mesh={mesh!r} is not allowed; give a DeviceMesh of torch, or rank= and world_size="
        )
    if dimensions != 1:
        raise LoaderError(
            f"mesh has {dimensions} dimensions, {', '.join(mesh.mesh_dim_names or ['without names'])}, and nothing says "
            "which of them share the data; give one, such as mesh['dp'], or join several: "
            "mesh['dp_replicate', 'dp_shard']._flatten('dp')"
        )
    return Process(mesh.get_local_rank(), mesh.size(), "mesh")


def _environment() -> Process | None:
    """Return what torchrun, and launchers like it, say."""
    texts = [os.environ.get(name) for name in _NAMES]
    if texts == [None, None]:
        return None
    said = " and ".join(
        f"{name} is {'not set' if text is None else repr(text)}"
        for name, text in zip(_NAMES, texts, strict=True)
    )
    try:
        rank, world_size = (None if text is None else int(text) for text in texts)
    except ValueError:
        raise LoaderError(f"{said} in the environment: not whole numbers; {_GIVE}") from None
    if rank is None or world_size is None:
        if world_size == 1 or rank == 0:  # what one process alone may have
            return None
        raise LoaderError(
            f"{said} in the environment, and there is no process group, so nothing says which part of the data is "
            f"for this process; {_GIVE}, or call init_process_group before the loader's first use"
        )
    if not 0 <= rank < world_size:
        raise LoaderError(f"{said} in the environment, but ranks count from 0; {_GIVE}")
    return Process(rank, world_size, "environment")


def found_process() -> Process | None:
    """Return what the process group or the environment says, None where that is nothing or half of it."""
    try:
        return _group() or _ray_train() or _environment()
    except LoaderError:
        return None


def _warn_of_others(told: Process) -> None:
    """Warn where the processes that there are cannot share the epoch evenly; half as many shares are usual."""
    found = found_process()
    if found is not None and found.world_size % told.world_size:
        warnings.warn(
            f"{told}, but this process is {found}, so {told.world_size} shares do not go evenly to "
            f"{found.world_size} processes: some samples are seen more often than others or by nobody; leave rank and "
            f"world_size out, unless each process has several loaders",
            stacklevel=4,
        )
