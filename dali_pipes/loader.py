"""Loader: the one place that owns threads, DALI pipelines, batches under way, and the state of a run."""

import os
import weakref
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.distributed

from dali_pipes.batch import Batch, Timings
from dali_pipes.choose import DecoderName, EngineChoice, choose
from dali_pipes.errors import LoaderError
from dali_pipes.faults import BadRecord, Ledger, Policy
from dali_pipes.feed import Feed, FeedOptions
from dali_pipes.finish import Finisher, Target
from dali_pipes.plan import LastBatch, Schedule
from dali_pipes.produce import CpuProducer, DaliProducer, Producer
from dali_pipes.state import VERSION, LoaderState, check_state
from dali_pipes.work import Work, Workshop
from gpu_aug import Normalize, Recipe, compile_engine
from readers import Dataset, Order

_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)


class Loader:
    """Decodes and augments a dataset; iterating it is one epoch.

    The samples, their order and their augmentation parameters depend on the dataset, the recipe, the seed
    and the epoch, and on nothing else: not on the engine, device, decoder, batch size, number of ranks or
    threads. The first loop is epoch 0 and every further loop the next one; a loop that was left early is
    not continued, unless its state is loaded.

    Args:
        dataset: What `readers.open_dataset` returns, or anything with its interface.
        recipe: What happens to each image.
        batch_size: Samples per rank and step.
        device: Where the batches end up and the engine runs; "auto" takes a GPU where there is one.
        decoder: "dali", or "cpu" for decoding without DALI; "auto" takes DALI where it is installed.
        engine: What carries out the recipe; "auto" takes Kornia.
        seed: Of the order and the draws, not negative.
        shuffle: "global" permutes the whole epoch, "none" keeps the dataset's order.
        rank: This process among `world_size`; None asks torch.distributed, and is 0 without it.
        world_size: Number of processes that share each step; None as for `rank`.
        dtype: torch.uint8, float16, bfloat16 or float32. Floats are in [0, 1] unless the recipe
            normalises; uint8 is for recipes that do not.
        channels_last: The memory format of the images; their shape is [B, 3, H, W] either way.
        last_batch: What becomes of an incomplete last batch: "drop" it, hand it over "partial", or "pad"
            it with repeated samples for which `batch.valid` is False.
        on_bad_sample: "raise", "replace" by another sample drawn from the dataset, or "skip", which makes
            the batch smaller. The number of steps stays the same on every rank.
        max_bad_samples: A run in which more different samples are bad on this rank is stopped; None
            allows one in a hundred, or a hundred, but never more than half of the dataset.
        ledger: A file that gets a line of JSON for every bad sample; None keeps them in memory only.
        num_threads: Decoding and augmenting threads; None takes the cores this process may use.
        prefetch: Batches that the decoder works on ahead of the one that is waited for; with DALI up to
            two more are on their way through the other stages.
        max_pixels: Images that claim more pixels count as bad and are not decoded.

    Attributes:
        device: The device that was chosen.
        decoder: The decoder that was chosen.
        engine: The engine that was chosen.
        timings: Where the time of the current epoch went.

    Raises:
        LoaderError: An argument that cannot work; the text says what would.
        MissingPackageError: A decoder that is not installed.
        gpu_aug.EngineError: A recipe that the engine cannot carry out exactly.
    """

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        *,
        batch_size: int,
        device: str | torch.device = "auto",
        decoder: DecoderName = "auto",
        engine: EngineChoice = "auto",
        seed: int = 0,
        shuffle: Literal["global", "none"] = "global",
        rank: int | None = None,
        world_size: int | None = None,
        dtype: torch.dtype = torch.bfloat16,
        channels_last: bool = True,
        last_batch: LastBatch = "drop",
        on_bad_sample: Policy = "raise",
        max_bad_samples: int | None = None,
        ledger: str | os.PathLike[str] | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        max_pixels: int = 100_000_000,
    ) -> None:
        _require_types(dataset, recipe)
        _require_positive(batch_size=batch_size, prefetch=prefetch, max_pixels=max_pixels)
        _require_one_of("shuffle", shuffle, ("global", "none"))
        _require_one_of("last_batch", last_batch, ("drop", "partial", "pad"))
        _require_one_of("on_bad_sample", on_bad_sample, ("raise", "replace", "skip"))
        _require_dtype(dtype, recipe)
        if not isinstance(seed, int) or seed < 0:
            raise LoaderError(f"seed={seed!r} is not allowed; give an integer of 0 or more")
        if num_threads is None:
            num_threads = _usable_cores()
        _require_positive(num_threads=num_threads)
        rank, world_size = _place(rank, world_size)

        choice = choose(device, decoder, engine)
        self.device, self.decoder, self.engine = choice.device, choice.decoder, choice.engine
        self.timings = Timings()
        self._reasons = choice.reasons
        self._schedule = _schedule(len(dataset), batch_size, rank, world_size, last_batch)
        order = Order(len(dataset), seed=seed, shuffle=shuffle)
        self._workshop = Workshop(
            dataset, recipe, order, seed, on_bad_sample, max_pixels, rank, self.timings
        )
        if max_bad_samples is not None and max_bad_samples < 0:
            raise LoaderError(f"{max_bad_samples=} is not allowed; give 0 or more, or None")
        if max_bad_samples is None:
            max_bad_samples = min(max(100, len(dataset) // 100), len(dataset) // 2)
        self._ledger = Ledger(on_bad_sample, max_bad_samples, Path(ledger) if ledger else None)
        memory_format = torch.channels_last if channels_last else torch.contiguous_format
        assert recipe.decode_size is not None
        self._target = Target(recipe.decode_size, recipe.fixed_size, dtype, memory_format, self.device)
        self._engine = compile_engine(self.engine, recipe, device=self.device)
        self._num_threads, self._prefetch = num_threads, prefetch
        self._feed: Feed | None = None
        self._epoch, self._consumed, self._began = 0, 0, False
        self._num_loops = 0
        self._live: weakref.ref[Generator[Batch]] | None = None

    def __len__(self) -> int:
        """Steps of a whole epoch, on this and every other rank."""
        return self._schedule.num_steps()

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch, or go on where a loaded state stands."""
        if self._began:
            self._epoch, self._consumed = self._epoch + 1, 0
        self._began = True
        self._num_loops += 1
        loop = self._run(self._epoch, self._consumed, self._num_loops)
        self._live = weakref.ref(loop)
        return loop

    @property
    def epoch(self) -> int:
        """The epoch of the present loop, or of the first one, or of the loaded state."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make the next loop this epoch; the place within it, from a loaded state, is kept."""
        if not isinstance(epoch, int) or epoch < 0:
            raise LoaderError(f"epoch={epoch!r} is not allowed; give an integer of 0 or more")
        if epoch != self._epoch or self._began:
            self._move_to(epoch, 0)

    def state_dict(self) -> LoaderState:
        """Where the run stands: what was handed over, not what is under way."""
        return {
            "version": VERSION,
            "dataset": self._workshop.dataset.fingerprint,
            "length": self._schedule.length,
            "recipe": self._workshop.recipe.fingerprint,
            "seed": self._workshop.seed,
            "shuffle": self._workshop.order.shuffle,
            "epoch": self._epoch,
            "consumed": self._consumed,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next loop go on where the state was taken, on any number of ranks.

        A state taken at the end of an epoch gives a loop without steps, then the next epoch.

        Raises:
            StateMismatchError: If the state belongs to another dataset, recipe, seed or version.
        """
        self._move_to(*check_state(state, self.state_dict()))

    @property
    def bad_samples(self) -> list[BadRecord]:
        """What the ledger holds: the bad samples this rank has met, in the order of the batches."""
        return list(self._ledger.records)

    def explain(self) -> str:
        """What was chosen and why, and what happens to an image, one line each."""
        recipe, schedule, target = self._workshop.recipe, self._schedule, self._target
        decode = ", ".join(map(str, recipe.decode_operations))
        batch = ", ".join(map(str, recipe.batch_leaves)) or "nothing"
        dtype = str(target.dtype).removeprefix("torch.")
        return "\n".join(
            [
                *self._reasons,
                f"decode stage: {decode} -> uint8 {[*target.canvas, 3]}",
                f"batch stage: {batch} -> {dtype} {[3, *target.size]}",
                f"order: {schedule.length} samples, shuffle: {self._workshop.order.shuffle}, steps: "
                f"{len(self)} of {schedule.global_batch}, rank {schedule.rank} of "
                f"{schedule.world_size}, last batch: {schedule.last_batch}",
                f"threads: {self._num_threads}, prefetch: {self._prefetch}",
            ]
        )

    def close(self) -> None:
        """End the loop that is under way, its threads and the DALI pipeline; a later loop builds anew."""
        live = self._live() if self._live is not None else None
        if live is not None:
            live.close()
        self._feed = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _move_to(self, epoch: int, consumed: int) -> None:
        self._epoch, self._consumed, self._began = epoch, consumed, False
        self._num_loops += 1  # a loop that is still under way has no say in the state any more

    def _run(self, epoch: int, consumed: int, loop: int) -> Generator[Batch]:
        self.timings.reset()
        producer, feed = self._producer()
        under_way = 0
        try:
            for plan in self._schedule.plans(epoch, consumed):
                producer.submit(plan)
                under_way += 1
                if under_way > producer.capacity:
                    yield self._hand_over(producer, loop)
                    under_way -= 1
            for _ in range(under_way):
                yield self._hand_over(producer, loop)
            # Only a pipeline with nothing left in it serves another epoch.
            self._feed = feed
        finally:
            producer.close()

    def _producer(self) -> tuple[Producer, Feed | None]:
        feed, self._feed = self._feed, None
        if self.decoder == "dali" and feed is None:
            on_gpu = self.device.type == "cuda"
            feed = Feed(
                FeedOptions(
                    batch_size=self._schedule.batch_size,
                    antialias=self._workshop.recipe.antialias,
                    device="mixed" if on_gpu else "cpu",
                    canvases=on_gpu,
                    canvas=self._target.canvas,
                    device_id=self.device.index if on_gpu else None,
                    num_threads=self._num_threads,
                    depth=self._prefetch,
                )
            )
        finisher = Finisher(self._engine, self._target, self.timings, self._num_threads)
        if feed is None:
            return CpuProducer(self._workshop, finisher, self._prefetch), None
        return DaliProducer(self._workshop, finisher, feed), feed

    def _hand_over(self, producer: Producer, loop: int) -> Batch:
        with self.timings.measure("wait"):
            work, images = producer.take()
        self._ledger.commit([record for _, record in sorted(work.records, key=lambda r: r[0])])
        if work.failure is not None:
            raise work.failure
        with self.timings.measure("copy"):
            batch = self._batch(work, images)
        if loop == self._num_loops:  # the state is that of the latest loop
            self._consumed = work.plan.consumed
        return batch

    def _batch(self, work: Work, images: torch.Tensor) -> Batch:
        labels = torch.from_numpy(work.labels)
        indices = torch.from_numpy(work.indices)
        valid = torch.from_numpy(work.plan.valid)
        keys = work.keys
        kept = np.flatnonzero([data is not None for data in work.data])
        if len(kept) < len(work):
            rows = torch.from_numpy(kept)
            images = images[rows.to(images.device)]
            labels, indices, valid = labels[rows], indices[rows], valid[rows]
            keys = [keys[row] for row in kept]
        if self.device.type == "cuda":
            labels = labels.pin_memory().to(self.device, non_blocking=True)
        return Batch(images, labels, indices, keys, valid)


def _schedule(
    length: int, batch_size: int, rank: int, world_size: int, last_batch: LastBatch
) -> Schedule:
    if length == 0:
        raise LoaderError("the dataset is empty; a loader needs at least one sample")
    schedule = Schedule(length, batch_size, rank, world_size, last_batch)
    if schedule.num_steps() == 0:
        raise LoaderError(
            f"an epoch has no full batch: {length} samples, batch_size={batch_size}, "
            f'world_size={world_size}; use a smaller batch, or last_batch="partial" or "pad"'
        )
    return schedule


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        raise LoaderError(
            f"rank={rank}, world_size={world_size}: give both, or neither to ask torch.distributed"
        )
    if rank is None or world_size is None:
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return 0, 1
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    if not 0 <= rank < world_size:
        raise LoaderError(
            f"rank={rank} is not allowed with world_size={world_size}; ranks count from 0"
        )
    return rank, world_size


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _require_types(dataset: Dataset, recipe: Recipe) -> None:
    if not hasattr(dataset, "fetch"):
        raise LoaderError(
            f"dataset={dataset!r} is not a dataset; give what readers.open_dataset(path) returns"
        )
    if not isinstance(recipe, Recipe):
        raise LoaderError(
            f"recipe={recipe!r} is not a Recipe; give Recipe([...]) or Recipe.preset(name)"
        )


def _require_positive(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise LoaderError(f"{name}={value!r} is not allowed; give an integer of 1 or more")


def _require_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        names = ", ".join(f'"{choice}"' for choice in allowed)
        raise LoaderError(f"{name}={value!r} is not known; allowed are {names}")


def _require_dtype(dtype: torch.dtype, recipe: Recipe) -> None:
    if dtype not in _DTYPES:
        names = ", ".join(str(allowed) for allowed in _DTYPES)
        raise LoaderError(f"dtype={dtype} is not supported; allowed are {names}")
    if dtype == torch.uint8 and any(isinstance(op, Normalize) for op in recipe.operations):
        raise LoaderError(
            "dtype=torch.uint8 cannot hold normalised values, and the recipe has Normalize; leave "
            "Normalize out, or use a floating dtype"
        )
