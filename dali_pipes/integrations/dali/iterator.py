"""Iterate over loaders with DALI's interfaces DALIGenericIterator and DALIClassificationIterator."""

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch

from dali_pipes.batch import Batch
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.dali.arguments import (
    LastBatchPolicy,
    as_loaders,
    last_batch_of,
    plain_steps,
    reschedule,
    resets_itself,
)
from dali_pipes.loader import Loader
from dali_pipes.state import LoaderState

_LOGGER = logging.getLogger(f"gpu_aug.{__name__}")

# Outputs that are chosen by name, not by position; "mask" is common in DALI scripts.
_BY_NAME = {"mask": "masks"} | {
    name: name for name in Batch.__dataclass_fields__ if name not in ("images", "views", "labels")
}


class DALIGenericIterator:
    """Iterates over loaders as `nvidia.dali.plugin.pytorch.DALIGenericIterator` iterates over pipelines.

    Each step is a list with a dictionary of tensors per loader. Arguments have DALI's order, names and defaults. Differences:

    - Every epoch starts at the beginning of its order and, except with DROP, contains every sample. In DALI this holds
      for readers with `pad_last_batch`, whose `size` and length these iterators have; other readers read ahead into the
      next epoch, which then lacks those samples or is shorter.
    - DROP leaves out less than a step. In DALI, moving shards with `pad_last_batch` return padding instead of samples.
    - A step is a slice of the epoch's order, and each rank has a part of it. A DALI rank has a contiguous shard of the
      epoch, and another shard in the next epoch. The count of samples of each step does not differ.
    - A state can be loaded on any number of ranks. A state from the end of an epoch continues with the next epoch for
      every `auto_reset`; in DALI an epoch without steps comes first.

    Args:
        pipelines: A Loader, or a list of loaders: different ranks of one run, one for each device of this process.
            Their `last_batch` is replaced by `last_batch_policy`.
        output_map: Names of the outputs. "masks" or "mask", "boxes", "valid", "indices" and the other attributes of a
            Batch are chosen by name, at any position, except "images", "views" and "labels". The first of the remaining
            names are the recipe's views, such as "data" for a recipe with one view. The next name is the labels, int32
            [B, 1] (float32 [B, num_classes] if samples are mixed; vectors as in a Batch).
        size: Samples of an epoch over these loaders together; -1 for all. A smaller number ends each epoch early. All
            samples divided by the number of ranks, rounded up or down, also means all samples. Fractions are rounded
            down.
        reader_name: Accepted and ignored: a loader knows its number of samples. (Without it and without `size`, DALI's
            iterator over a reader has no length and no end.)
        auto_reset: True or "yes" starts the next epoch at the end of each epoch. With False, None or "no", `reset()` or
            `iter()` starts it.
        fill_last_batch: Deprecated: True is FILL, False is PARTIAL.
        dynamic_shape: Accepted and ignored, as by DALI.
        last_batch_padded: Accepted and ignored: no epoch continues into the next one.
        last_batch_policy: LastBatchPolicy of this module or of DALI. FILL adds samples from the start of the epoch's
            order, where DALI repeats the last sample or reads on; the output "valid" marks them.
        prepare_first_batch: Whether to make the first batch now instead of on the first request.

    Attributes:
        batch_size: Samples per loader and step.
        output_map: The names of the outputs.
        size: Count of samples of an epoch: the argument, or the largest share of a rank (with DROP the smallest).

    Raises:
        LoaderError: An argument is not allowed; the message says which values are.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for data in DALIGenericIterator(loader, ["images", "labels"]):
        ...     images, labels = data[0]["images"], data[0]["labels"]
    """

    def __init__(
        self,
        pipelines: Loader | Sequence[Loader],
        output_map: Sequence[str],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,  # noqa: ARG002
        last_batch_padded: bool = False,  # noqa: ARG002
        last_batch_policy: Any = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        if reader_name and size != -1:
            raise LoaderError(
                f"{reader_name=} and {size=} exclude each other; leave one of them out"
            )
        if isinstance(output_map, str) or len(set(output_map)) < len(output_map):
            raise LoaderError(
                f'{output_map=} is not allowed; give a list of different names, such as ["data", "label"]'
            )
        size = int(size)  # may be a float, because scripts divide by the number of ranks
        self.output_map = list(output_map)
        self._resets_itself = resets_itself(auto_reset)
        self._loaders = as_loaders(pipelines)
        reschedule(self._loaders, last_batch_of(last_batch_policy, fill_last_batch), size)
        self._steps = plain_steps(self._loaders[0])
        self.batch_size = self._steps.batch_size
        self.size = self._full_size() if size == -1 else size
        self._began = False
        self._prepared: tuple[list[LoaderState], list[dict[str, Any]]] | None = None
        self._begin()
        if prepare_first_batch:
            self._prepare()

    def __len__(self) -> int:
        """Return the number of steps of a full epoch."""
        self._require_same_ranks()
        return self._steps.num_steps()

    def __iter__(self) -> Self:
        """Start the next epoch if the present one has ended; within an epoch, continue it, like DALI."""
        self._require_same_ranks()
        if self._began:
            self.reset()
        return self

    def __next__(self) -> list[dict[str, Any]]:
        """Return the next step: for each loader, a dictionary with the names of `output_map`."""
        if not self._began:
            self._require_same_ranks()
        self._began = True
        if self._prepared is not None:
            (_, step), self._prepared = self._prepared, None
            return step
        if self._left == 0:
            if self._resets_itself:
                self.reset()
            raise StopIteration
        return self._take()

    def next(self) -> list[dict[str, Any]]:
        """Return the next step: for each loader, a dictionary with the names of `output_map`; like `next(iterator)`."""
        return next(self)

    def reset(self) -> None:
        """Start the next epoch. Like in DALI, this does nothing before all steps of the present one are taken."""
        if self._left or self._prepared is not None:
            _LOGGER.warning(
                "reset() before the end of an epoch is ignored; take its other steps first"
            )
            return
        for loop in self._loops:
            # Runs the loop to its end, so that the loader reuses its pipeline in the next epoch.
            next(loop, None)
        for loader in self._loaders:
            loader.set_epoch(loader.epoch + 1)
        self._begin()

    def checkpoints(self) -> list[bytes]:
        """Return the state of each loader; it counts delivered batches, not prefetched ones.

        To resume, load one of them into each new loader before making an iterator:
        ``loader.load_state_dict(json.loads(checkpoint))``. Each of them works for any number of ranks.
        """
        states = self._states() if self._prepared is None else self._prepared[0]
        return [json.dumps(state).encode() for state in states]

    def _prepare(self) -> None:
        states = self._states()
        self._prepared = states, self._take()

    def _states(self) -> list[LoaderState]:
        states = [loader.state_dict() for loader in self._loaders]
        # If a loader raised, the loaders before it have returned a batch of a step that was not delivered.
        consumed = min(state["consumed"] for state in states)
        return [{**state, "consumed": consumed} for state in states]

    def _full_size(self) -> int:
        least, rest = divmod(self._steps.length, self._steps.world_size)
        return least if self._steps.last_batch == "drop" else least + (rest > 0)

    def _begin(self) -> None:
        """Start iterating at the position of the loaders; if that is the end of an epoch, at the next epoch."""
        self._began = False
        self._left: int = self._steps.num_steps(self._loaders[0].state_dict()["consumed"])
        if self._left <= 0:
            for loader in self._loaders:
                loader.set_epoch(loader.epoch + 1)
            self._left = self._steps.num_steps()
        self._loops: list[Iterator[Batch]] = []

    def _require_same_ranks(self) -> None:
        """Raise if the process group was made after the iterator; the property `steps` checks that."""
        for loader in self._loaders:
            loader.steps  # noqa: B018 - raises

    def _take(self) -> list[dict[str, Any]]:
        self._left -= 1
        try:
            self._loops = self._loops or [iter(loader) for loader in self._loaders]
            return [self._named(next(loop)) for loop in self._loops]
        except Exception:
            self._left = 0  # a loader that raised makes no more batches in this epoch
            raise

    def _named(self, batch: Batch) -> dict[str, Any]:
        """Return the outputs of a batch by name."""
        in_turn = [*batch.views, _column(batch.labels)]
        named: dict[str, Any] = {}
        for name in self.output_map:
            if name in _BY_NAME:
                named[name] = getattr(batch, _BY_NAME[name])
            elif in_turn:
                named[name] = in_turn.pop(0)
            elif name in Batch.__dataclass_fields__:
                named[name] = getattr(batch, name)
            else:
                raise LoaderError(
                    f"output_map={self.output_map}: after {len(batch.views)} for images and one for labels there is no "
                    f"{name!r}; allowed are {', '.join(Batch.__dataclass_fields__)}"
                )
        if len(in_turn) > 1:
            raise LoaderError(
                f"output_map={self.output_map} has too few names; the recipe has {len(batch.views)} views, name each, "
                f"and then the labels"
            )
        return named


class DALIClassificationIterator(DALIGenericIterator):
    """A DALIGenericIterator with `output_map` ["data", "label"], for a recipe with one view.

    Its arguments are those of DALIGenericIterator without `output_map`.

    Example:
        >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
        >>> for data in DALIClassificationIterator(loader, auto_reset=True):
        ...     images, labels = data[0]["data"], data[0]["label"]
    """

    def __init__(
        self,
        pipelines: Loader | Sequence[Loader],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        dynamic_shape: bool | None = False,
        last_batch_padded: bool = False,
        last_batch_policy: Any = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        super().__init__(
            pipelines,
            ["data", "label"],
            size,
            reader_name,
            auto_reset,
            fill_last_batch,
            dynamic_shape,
            last_batch_padded,
            last_batch_policy,
            prepare_first_batch,
        )

    def _named(self, batch: Batch) -> dict[str, Any]:
        if len(batch.views) > 1:
            raise LoaderError(
                f"a DALIClassificationIterator returns one view, but the recipe has {len(batch.views)}; use "
                f'DALIGenericIterator(loader, ["view0", "view1", "label"])'
            )
        return super()._named(batch)


def _column(labels: torch.Tensor | list[torch.Tensor]) -> torch.Tensor | list[torch.Tensor]:
    """Return labels as DALI's readers do: class numbers as int32 [B, 1], vectors unchanged."""
    if isinstance(labels, list):
        return labels
    return labels if labels.is_floating_point() else labels.to(torch.int32)[:, None]
