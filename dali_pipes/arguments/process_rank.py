"""The rank of this process: from the arguments, torch.distributed, Ray Train, or the environment."""

import os
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import torch.distributed
from torch.distributed.device_mesh import DeviceMesh

from dali_pipes.arguments.values import refuse, require_integers
from dali_pipes.errors import LoaderError

_NAMES = ("RANK", "WORLD_SIZE")
"""Environment variables that torchrun and similar launchers set."""
_GIVE = "give Loader(rank=..., world_size=...)"


@dataclass(frozen=True, slots=True)
class Process:
    """The rank of a process, and the number of processes that share the steps.

    Attributes:
        rank: Rank of the process, 0 <= rank < world_size.
        world_size: Count of processes.
        source: Where rank and world size were found, as text for messages; "default" if nothing states them and the
            process is rank 0 of 1.
    """

    rank: int
    world_size: int
    source: str

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} (by {self.source})"


_ALONE = Process(0, 1, "default")


class Ranks:
    """Finds the rank of this process on first use, and raises if it changes later.

    A loader may be made before the process group, so its constructor fixes nothing.

    Args:
        rank: The rank; or a one-dimensional DeviceMesh of torch, whose processes share each step, without `world_size`;
            or None to use the process group and the environment.
        world_size: The count of processes; None to use the process group and the environment.

    Attributes:
        writes: Whether this process writes the files of its rank: in a mesh, several processes may have one rank.

    Raises:
        LoaderError: Only one of rank and world size is given, or they are invalid.
    """

    def __init__(self, rank: int | DeviceMesh | None, world_size: int | None) -> None:
        self._given: Process | None = None
        self._settled: Process | None = None
        self.writes, self._has_first = True, True
        if hasattr(rank, "get_local_rank"):  # duck typing: any kind of mesh
            mesh: Any = rank
            self._given = _of_mesh(mesh, world_size)
            # Processes that differ in other dimensions of the root mesh have equal samples; only those in the mesh of process 0 write.
            self.writes = bool((mesh.mesh == 0).any())
            # torch has no public name for the root mesh.
            root = getattr(mesh, "_get_root_mesh", None)
            self._has_first = root is None or bool((root().mesh == 0).any())
        elif rank is not None or world_size is not None:
            self._given = _of_numbers(rank, world_size)

    def warn_of_files(self, *paths: object, stacklevel: int) -> None:
        """Warn that these files will not be written by this process's mesh, because it does not contain process 0.

        The text does not say which processes have separate samples: separately created meshes cannot be distinguished.
        """
        if self._has_first or all(path is None for path in paths):
            return
        warnings.warn(
            "audit= and ledger= write nothing here: of a DeviceMesh given as rank=, the processes in the same mesh as "
            "process 0 write them, and this one is without process 0; in the processes that shall write, give numbers as "
            "rank= and world_size=",
            UserWarning,
            stacklevel=stacklevel,
        )

    def now(self) -> Process:
        """Return rank and world size at this moment, without fixing them.

        Raises:
            LoaderError: The environment has only one of rank and world size, or invalid ones.
        """
        return self._given or _group() or _ray_train() or _environment() or _ALONE

    def guess(self) -> Process:
        """Return rank and world size at this moment, or rank 0 of 1 if `now` raises.

        A process group may still be started before the loader's first use; if it is not, `settle` raises the error.
        """
        return self._given or found_process() or _ALONE

    def expected(self) -> Process:
        """Return the fixed rank and world size or, before they are fixed, those of this moment.

        Raises:
            LoaderError: A process group or the environment contradicts the fixed numbers, or the environment has only
                one of rank and world size, or invalid ones.
        """
        return self.now() if self._settled is None else self.settle()

    def settle(self) -> Process:
        """Fix rank and world size on the first call, and return them.

        Raises:
            LoaderError: A process group or the environment contradicts the fixed numbers.
        """
        if self._settled is None:
            self._settled = self.now()
            if self._given is not None:
                _warn_of_others(self._given)
        elif self._given is None:
            self._require_unchanged(self._settled)
        return self._settled

    def _require_unchanged(self, used: Process) -> None:
        # A group that has ended is no contradiction, and the environment does not contradict a group.
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
    """Return rank and world size of torch's default process group; None if no group is initialised."""
    group = torch.distributed
    if not (group.is_available() and group.is_initialized()):
        return None
    return Process(group.get_rank(), group.get_world_size(), "torch.distributed")


def _ray_train() -> Process | None:
    """Return rank and world size from Ray Train if this process is a Ray Train worker; else None."""
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        rank, world_size = context.get_world_rank(), context.get_world_size()
    except (RuntimeError, AttributeError):  # not a worker, or ray.train is still being imported
        return None
    return None if rank is None else Process(rank, world_size, "Ray Train")


def _of_numbers(rank: Any, world_size: Any) -> Process:
    if rank is None or world_size is None:
        raise LoaderError(
            f"rank={rank}, world_size={world_size}: give both, or neither to ask torch.distributed; one dimension of a "
            "DeviceMesh, such as mesh['dp'], is a rank= as well"
        )
    require_integers(0, rank=rank, world_size=world_size)
    if rank >= world_size:
        raise LoaderError(
            f"rank={rank} is not allowed with world_size={world_size}; ranks count from 0"
        )
    return Process(int(rank), int(world_size), "rank= and world_size=")


def _of_mesh(mesh: DeviceMesh, world_size: int | None) -> Process:
    """Return the rank of this process in a one-dimensional mesh."""
    names = ", ".join(mesh.mesh_dim_names or ["without names"])
    refuse(
        (
            world_size is not None,
            f"rank= is a DeviceMesh, which has the number of processes, and so does world_size={world_size}: leave "
            "world_size out",
        ),
        (
            mesh.ndim != 1,
            f"rank= is a DeviceMesh of {mesh.ndim} dimensions, {names}, and nothing says which of them share the data; "
            "give one, such as mesh['dp'], or join several: mesh['dp_replicate', 'dp_shard']._flatten('dp')",
        ),
    )
    return Process(mesh.get_local_rank(), mesh.size(), "the DeviceMesh of rank=")


def _environment() -> Process | None:
    """Return rank and world size from the environment, as set by torchrun and similar launchers."""
    texts = [os.environ.get(name) for name in _NAMES]
    rank, world_size = (
        int(text) if text is not None and text.isdecimal() else None for text in texts
    )
    if rank is not None and world_size is not None and rank < world_size:
        return Process(rank, world_size, "RANK and WORLD_SIZE")
    # A single process may have only one of the variables.
    if texts == [None, None] or (None in texts and (world_size == 1 or rank == 0)):
        return None
    said = " and ".join(
        f"{name} is {'not set' if text is None else repr(text)}"
        for name, text in zip(_NAMES, texts, strict=True)
    )
    raise LoaderError(
        f"{said} in the environment, and there is no process group, so nothing says which part of the data is for this "
        f"process: both are integers, and ranks count from 0; {_GIVE}, or call init_process_group before the loader's "
        "first use"
    )


def found_process() -> Process | None:
    """Return rank and world size from the process group or the environment; None if neither states both."""
    try:
        return _group() or _ray_train() or _environment()
    except LoaderError:
        return None


def _warn_of_others(given: Process) -> None:
    """Warn if the given world size does not divide the number of launched processes, so that they cannot share evenly."""
    found = found_process()
    if found is not None and found.world_size % given.world_size:
        warnings.warn(
            f"{given}, but this process is {found}, so {given.world_size} shares do not go evenly to "
            f"{found.world_size} processes: some samples are seen more often than others, or never; leave rank and "
            f"world_size out, unless each process has several loaders",
            stacklevel=4,
        )
