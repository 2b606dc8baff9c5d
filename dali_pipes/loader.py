"""Loader: the one place that owns threads, DALI pipelines, batches under way, and the state of a run."""

import atexit
import os
import warnings
import weakref
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from functools import cache, cached_property
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes import arguments, evaluation, names
from dali_pipes.audit import Audit, Tally
from dali_pipes.bad_samples import BadRecord, Ledger, Policy
from dali_pipes.batch import Batch, Timings
from dali_pipes.choose import DecoderName, choose
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.decode.dali.produce import PipelineProducer
from dali_pipes.decode.dali.user import DaliDecoder
from dali_pipes.explain import explain
from dali_pipes.labels import labels_of
from dali_pipes.pipeline.augment import Finisher, View
from dali_pipes.pipeline.fetch import Work, Workshop
from dali_pipes.pipeline.job import Job, make_job
from dali_pipes.pipeline.process import Helper, ProcessProducer
from dali_pipes.pipeline.produce import CpuProducer, DaliProducer, Producer
from dali_pipes.ranks import Ranks
from dali_pipes.schedule import LastBatch, Schedule
from dali_pipes.state import VERSION, LoaderState, RunIdentity, check_state, order_check
from dali_pipes.state_words import About, about, name_of, steps_of
from dali_pipes.targets import Kind, TargetReader, collate, upload
from dali_pipes.video import options
from dali_pipes.video.feed import ClipFeed, ClipFeedOptions
from dali_pipes.video.produce import DaliClipProducer
from dali_pipes.video.source import ClipSource, find_clips, require_clips
from gpu_aug import Recipe, compile_engine
from gpu_aug.engines.choose import EngineChoice
from gpu_aug.views import Views
from readers import Dataset
from readers.order import Shuffle

_LOOPS: weakref.WeakSet[Generator[Batch]] = weakref.WeakSet()


class Loader:
    """Decodes and augments a dataset; iterating it is one epoch.

    The samples, their order and their augmentation parameters depend on the dataset, the recipe, the seed
    and the epoch, and on nothing else: not on the engine, device, decoder, batch size, number of ranks or
    threads. The first loop is epoch 0 and every further loop the next one; a loop that was left early is
    not continued, unless its state is loaded. So ``next(iter(loader))`` uses up an epoch; `peek` does not.

    A loader is for training: it shuffles, and its batches are full. `Loader.eval` makes one for evaluation.

    Args:
        dataset: What `readers.open_dataset` returns, or anything with its interface. `Clips` of a dataset of
            videos, and selections and mixtures of them, give clips of T frames.
        recipe: What happens to each image; all frames of a clip are treated alike. Views make several pictures
            of each sample, which is read and decoded once. A recipe that mixes samples makes `batch.labels`
            soft; which samples are mixed follows from the order alone. All images of a view must end with one
            size.
        batch_size: Samples per rank and step.
        device: Where the batches are returned and the engine runs; "auto" takes a GPU if there is one: torch's
            current one, or before torch.cuda.set_device the one that LOCAL_RANK names, as torchrun sets it.
        decoder: "dali"; or "cpu" for our own decoder of baseline JPEGs, OpenCV for other images and FFmpeg for
            videos. "auto" takes DALI on a GPU if it is installed. What DALI is not trusted with is decoded on
            the CPU. `from_dali(pipeline)` decodes with a DALI pipeline of your own.
        engine: Which engine carries out the recipe; "auto" takes Kornia on a GPU and "fused" on a CPU.
        exact: Whether the fused engine resamples consecutive warps one by one, as the other engines always do,
            instead of once.
        decode: "fast" lets the CPU decoder decode JPEGs at half, a quarter or an eighth of their size if the
            crop is shrunk by at least twice as much; pixels then differ slightly. "exact" decodes at full size,
            as DALI and clips always do.
        seed: Seed of the order and the draws, not negative.
        shuffle: "global" permutes the whole epoch, "none" keeps the dataset's order, and "block" permutes
            blocks of neighbouring samples and mixes the samples of a few open blocks, for storage that is best
            read in large pieces; see readers.Order.
        shuffle_window: For "block": how many samples the open blocks hold together. None is 4096, or 16 blocks
            if that is more.
        rank: Rank of this process among `world_size`. None asks when it is first needed (by `len`, a loop, a
            state): the process group of torch.distributed, or without one RANK and WORLD_SIZE in the
            environment, as torchrun sets them, or else 0 of 1. What is found later must not contradict what was
            used.
        world_size: Number of processes that share each step; None as for `rank`. If both are given they hold
            whatever the process group says, for example fewer than it has, for models that are spread over
            processes.
        dtype: torch.uint8, float16, bfloat16 or float32. Floats are in [0, 1] unless the recipe
            normalises; uint8 is for recipes that do not.
        channels_last: The memory format of the images; their shape is [B, 3, H, W] either way, for clips
            [B, T, 3, H, W].
        last_batch: What happens to an incomplete last batch: "drop" leaves it out, "partial" returns it
            smaller, and "pad" fills it with repeated samples for which `batch.valid` is False.
        on_bad_sample: "raise", "replace" by another sample of the dataset, or "skip", which makes the batch
            smaller, possibly empty. The mean loss of an empty batch is NaN, so write
            ``if len(batch) == 0: continue``, or use "replace" if all ranks must step together. The number of
            steps stays the same on every rank.
        max_bad_samples: A run in which more different samples are bad on this rank is stopped. None is 1 % of
            the dataset, at least 100, but at most half of it.
        ledger: A file that gets one line of JSON for every bad sample, and for every damaged clip that was kept
            (see Clips); "{rank}" in its name stands for the rank. None keeps them in memory only.
        audit: A file that gets one line of JSON for every step, with hashes of its samples; "{rank}" in its
            name stands for the rank. ``gpu-aug audit`` compares such files of two runs, on any number of ranks.
            None keeps only the latest hashes, in `audit`.
        num_threads: Decoding and augmenting threads; None is the number of cores this process may use.
        prefetch: Batches that the decoder prepares ahead; with DALI up to two more are in the other stages. A
            pipeline of `from_dali` uses its own prefetch_queue_depth.
        max_pixels: Images that claim more pixels are bad samples and are not decoded.
        targets: Which of "masks", "boxes" and "keypoints" are read from the samples' fields and returned, moved
            as `batch.images` are; "auto" takes all that the data has. See TargetReader for how they are stored:
            `mask.png`, `json`, in coordinates of the upright image. If they are damaged or do not fit their
            image the sample is bad. Clips have none.
        helper_process: Whether a separate process reads, decodes and, on a CPU, augments with `num_threads`
            threads of its own. This process takes finished batches out of shared memory, so Python code that
            computes here does not slow the loader down. The batches are the same. The process is started by the
            first loop, which takes seconds, serves later loops, and ends with `close`, with the loader, or with
            a loop that is left early. It needs decoder="cpu". Dataset and recipe are pickled, so their classes
            must be importable, not defined in the script itself.

    Attributes:
        device: The device that was chosen.
        decoder: The decoder that was chosen.
        engine: The engine that was chosen.
        timings: How long reading, decoding, augmenting, copying and waiting took in the current epoch.
        schedule: The steps of an epoch. Replacing it changes them from the next loop on. No other attribute can
            be set: make another loader.

    Raises:
        LoaderError: An argument that cannot work; the text says what would. Later: a rank or world size that
            contradicts the one that was used.
        MissingPackageError: A decoder that is not installed.
        gpu_aug.RecipeError: A recipe whose images can have different sizes; in a loop, one that cannot
            move the targets that the data has.
        gpu_aug.EngineError: A recipe that the engine cannot carry out exactly.

    Example:
        >>> photos = open_dataset("photos/")
        >>> loader = Loader(photos, Recipe.imagenet_train(size=64), batch_size=8, seed=0)
        >>> for images, labels in loader:                  # one epoch
        ...     loss = images.mean()                       # your training step
        >>> state = loader.state_dict()                    # save it with the model
        >>> loader.load_state_dict(state)
        >>> loader.epoch
        1
    """

    @names.known_keywords
    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe | Views,
        *,
        batch_size: int,
        device: str | torch.device = "auto",
        decoder: DecoderName | DaliDecoder = "auto",
        engine: EngineChoice = "auto",
        exact: bool = False,
        decode: Literal["exact", "fast"] = "exact",
        seed: int = 0,
        shuffle: Shuffle = "global",
        shuffle_window: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        dtype: torch.dtype = torch.float32,
        channels_last: bool = True,
        last_batch: LastBatch = "drop",
        on_bad_sample: Policy = "raise",
        max_bad_samples: int | None = None,
        ledger: str | os.PathLike[str] | None = None,
        audit: str | os.PathLike[str] | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        max_pixels: int = 100_000_000,
        targets: Literal["auto"] | Collection[Kind] = "auto",
        helper_process: bool = False,
    ) -> None:
        arguments.require_dataset(dataset)
        views = arguments.as_views(recipe)
        arguments.require_positive(batch_size=batch_size, prefetch=prefetch, max_pixels=max_pixels)
        arguments.require_one_of("decode", decode, ("exact", "fast"))
        arguments.require_one_of("last_batch", last_batch, ("drop", "partial", "pad"))
        arguments.require_one_of("on_bad_sample", on_bad_sample, ("raise", "replace", "skip"))
        arguments.require_dtype(dtype, views)
        arguments.require_not_negative(seed=seed)
        seed = int(seed)  # numpy's are no JSON
        arguments.require_truths(
            exact=exact, channels_last=channels_last, helper_process=helper_process
        )
        arguments.require_in_use(
            decode=decode,
            decoder=decoder,
            on_bad_sample=on_bad_sample,
            max_bad_samples=max_bad_samples,
        )
        arguments.require_two_files(audit, ledger)
        if num_threads is None:
            num_threads = arguments.usable_cores()
        arguments.require_positive(num_threads=num_threads)
        self._ranks = Ranks(rank, world_size)
        clips = find_clips(dataset)
        options.require_fits(clips, targets=targets, decode=decode)
        kinds = arguments.target_kinds(targets if clips is None else [])
        reader = TargetReader(views.recipes[0], kinds)

        choice = choose(device, decoder, engine)
        self.device, self.decoder, self.engine = choice.device, choice.decoder, choice.engine
        self.timings = Timings()
        self._reasons = choice.reasons
        self._recipe = recipe
        order = arguments.order_of(dataset, seed, shuffle, shuffle_window)
        self._settings: tuple[int, int, LastBatch, int] = (
            len(order),
            batch_size,
            last_batch,
            views.group,
        )
        self._schedule: Schedule | None = None
        self._workshop = Workshop(
            dataset, views, order, seed, on_bad_sample, max_pixels, reader, self.timings
        )
        require_clips(views, self._workshop.clips)
        # What cannot work is said at once, though the place is settled by the first use.
        place = self._ranks.guess()
        budget = arguments.budget_of(max_bad_samples, len(dataset))
        self._ledger = Ledger(on_bad_sample, budget, ledger, place.rank)
        self._audit = Audit(audit, place.rank)
        schedule = arguments.schedule(*self._settings, place)
        self._audit.require_own_file(place)
        evaluation.warn_of_training(dataset, views, order, schedule, stacklevel=4)
        arguments.check_labels_of_views(views)
        self._num_classes = arguments.num_classes_of(views.recipes[0], dataset)
        memory_format = torch.channels_last if channels_last else torch.contiguous_format
        self._views = tuple(
            View(
                view,
                compile_engine(self.engine, view, device=self.device, exact=exact),
                dtype,
                memory_format,
                self.device,
                self._workshop.num_frames,
            )
            for view in views.recipes
        )
        self._pipeline = decoder if isinstance(decoder, DaliDecoder) else None
        if self._pipeline is not None:
            self._pipeline.require_fits(schedule.largest, clips=self._workshop.clips is not None)
        self._num_threads, self._prefetch = num_threads, prefetch
        self._fast, self._exact = decode == "fast", exact
        self._job: Job | None = None
        if helper_process:
            self._job = make_job(
                self._workshop,
                self._views,
                schedule.largest,
                decoder=self.decoder,
                engine=self.engine,
                exact=exact,
                fast=self._fast,
                num_threads=num_threads,
                prefetch=prefetch,
            )
        self._kept: Feed | ClipFeed | Helper | None = None
        self._epoch, self._consumed, self._began = 0, 0, False
        self._ended: int | None = None  # the epoch at whose end the loaded state was taken
        self._num_loops = self._num_taken = 0
        self._said = False
        self._live: weakref.ref[Generator[Batch]] | None = None

    @classmethod
    def eval(
        cls,
        dataset: Dataset,
        recipe: Recipe | Views,
        *,
        batch_size: int,
        last_batch: Literal["partial", "pad"] = "partial",
        **options: Any,
    ) -> Self:
        """Make a loader for evaluation: every sample once, in the dataset's order, on any number of ranks.

        All ranks take the same number of steps. Count rows by ``batch.valid``, which is right under both::

            right += (scores.argmax(1) == batch.labels).cpu()[batch.valid].sum()
            total += batch.valid.sum()

        and add up both numbers over the ranks.

        Args:
            dataset: As for Loader; no mixture by weights.
            recipe: As for Loader; it should draw nothing at random.
            batch_size: As for Loader.
            last_batch: "partial" returns what is left, so that the last batch of a rank may be smaller,
                possibly empty, and every row counts. "pad" gives all batches one size, with rows that are not
                valid.
            options: All other arguments of Loader but `shuffle`. on_bad_sample="skip" leaves bad samples out of
                the counts, "replace" is not allowed.

        Raises:
            LoaderError: As Loader, or samples would be left out or come twice.
        """
        evaluation.require_options(last_batch, options)
        loader = cls(
            dataset,
            recipe,
            batch_size=batch_size,
            shuffle="none",
            last_batch=last_batch,
            **options,
        )
        evaluation.require_all_once(dataset, loader._workshop.order)
        evaluation.warn_of_draws(recipe)
        return loader

    def __len__(self) -> int:
        """Steps of a whole epoch, on this and every other rank."""
        return self.schedule.num_steps()

    def __iter__(self) -> Iterator[Batch]:
        """Begin the next epoch, or go on where a loaded state stands."""
        place = self._ranks.settle()
        if self._began:
            self._warn_of_a_short_loop()
        self._epoch, self._consumed = self._next(self.schedule)
        if not self._began:
            self._audit.begin(self._epoch, self._consumed, place, lambda: self._identity)
        self._began, self._ended, self._num_taken = True, None, 0
        self._num_loops += 1
        loop = self._run(self._epoch, self._consumed, self._num_loops)
        self._live = weakref.ref(loop)
        _LOOPS.add(loop)
        return loop

    def peek(self) -> Batch:
        """Return the batch that the next loop will begin with, without beginning it.

        It is made anew by that loop; state, epoch, audit and ledger do not know of it. Before the loader's first use
        (len, a loop, its state) it is that of this process's present rank, which may be another one afterwards.

        Raises:
            BadSampleError: As in that loop.
            LoaderError: The loader decodes by `from_dali`, whose pipeline is in use by a loop.
        """
        schedule = self._expected
        plan = next(schedule.plans(*self._next(schedule)))
        producer, keep = self._producer()
        try:
            producer.submit(plan)
            work, images = producer.take()
            self._ledger.judge(self._records(work))
            if work.failure is not None:
                raise work.failure
            batch = self._batch(work, images)
            if not self._is_looping():  # else what that loop has is kept
                self._kept = keep
        finally:
            producer.close()
            if isinstance(keep, Helper) and keep is not self._kept:
                keep.close()
        return batch

    @property
    def schedule(self) -> Schedule:
        """The steps of an epoch on this rank."""
        place = self._ranks.settle()
        if self._schedule is None:
            self._audit.require_own_file(place)
            self._schedule = arguments.schedule(*self._settings, place)
        return self._schedule

    @schedule.setter
    def schedule(self, schedule: Schedule) -> None:
        self._schedule = schedule

    @property
    def epoch(self) -> int:
        """The epoch of the present loop, or of the first one, or where a loaded state goes on."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Make the next loop this epoch; the position within it, from a loaded state, is kept."""
        arguments.require_epoch(epoch)
        if epoch == self._ended:
            warnings.warn(
                f"the loaded state stands at the end of epoch {epoch}, so set_epoch({epoch}) goes through that epoch "
                f"once more; go on with loader.epoch, which is {self._epoch}",
                stacklevel=2,
            )
        if epoch != self._epoch or self._began:
            self._move_to(int(epoch), 0)

    def state_dict(self) -> LoaderState:
        """Where the run stands: what was handed over, not what is under way."""
        self._ranks.settle()
        return {
            **self._identity,
            "epoch": self._epoch,
            "consumed": self._consumed,
            "about": self._about,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next loop go on where the state was taken, on any number of ranks.

        A state taken at the end of an epoch, or with fewer samples left than one step of this loader takes,
        continues with the next epoch. To continue with another recipe on purpose, put its fingerprint into the
        state: ``{**state, "recipe": recipe.fingerprint}``.

        Raises:
            StateMismatchError: If the state belongs to another dataset, recipe, seed or version.
        """
        epoch, consumed = check_state(state, self.state_dict())
        if self.schedule.num_steps(consumed) > 0:
            self._move_to(epoch, consumed)
        else:
            self._move_to(epoch + 1, 0)
            self._ended = epoch

    @property
    def bad_samples(self) -> list[BadRecord]:
        """What the ledger holds: the bad samples this rank has met, and the clips that were kept though damaged."""
        return list(self._ledger.records)

    @property
    def audit(self) -> Tally:
        """Hashes of what this rank was handed, for a comparison with another run."""
        return self._audit.tally

    def explain(self) -> str:
        """What was chosen and why, and what happens to an image, one line each.

        Before the loader's first use (len, a loop, its state) the rank is the present one, which nothing settles yet.
        """
        where = "all in one helper process, " if self._job is not None else ""
        ahead = f"prefetch: {self._prefetch}"
        if self._pipeline is not None:
            ahead = f"prefetch: {self._pipeline.depth}, the pipeline's own prefetch_queue_depth"
        sizes = "decoded at a smaller size where they are shrunk a lot (fast)"
        exactly = 'decoded exactly, as DALI does under decode="fast", too' * self._fast
        fast = sizes if self._fast and self.decoder == "cpu" else exactly or "decoded exactly"
        warps = ", warps one by one" if self._exact or self.engine != "fused" else ""
        decoded = f"images {fast}"
        if self._workshop.clips is not None:
            on_gpu = self.device.type == "cuda"
            decoded = options.describe(self._workshop.clips, self.decoder, on_gpu=on_gpu)
        return explain(
            self._reasons,
            self._views,
            self._expected,
            self._workshop,
            self._num_classes,
            f"{decoded}{warps}\nthreads: {self._num_threads}, {where}{ahead}",
            self._ranks,
        )

    def close(self) -> None:
        """End the loop under way, its threads, the DALI pipeline and the helper process; a later loop builds anew."""
        live = self._live() if self._live is not None else None
        if live is not None:
            live.close()
        if isinstance(self._kept, Helper):
            self._kept.close()
        self._kept = None

    def __repr__(self) -> str:
        _, batch_size, last_batch, _ = self._settings
        if self._schedule is not None:  # which may have been replaced
            batch_size, last_batch = self._schedule.batch_size, self._schedule.last_batch
        return (
            f"Loader({name_of(self._workshop.dataset)}, [{steps_of(self._recipe)}], {batch_size=}, "
            f"shuffle={self._workshop.order.name!r}, {last_batch=}, epoch={self._epoch}, "
            f"{self.decoder}+{self.engine} on {self.device})"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        first = name in ("device", "decoder", "engine", "timings") and name not in vars(self)
        own = type(self) is not Loader and not names.is_known(Loader, name)
        if not (name.startswith("_") or first or own or name == "schedule"):
            names.refuse_attribute(self, name, value)
        super().__setattr__(name, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @cached_property
    def _identity(self) -> RunIdentity:
        """What a state must agree with."""
        order = self._workshop.order
        length = len(order)  # a schedule that was replaced may end an epoch earlier
        return {
            "version": VERSION,
            "dataset": self._workshop.dataset.fingerprint,
            "length": length,
            "recipe": self._recipe.fingerprint,
            "seed": self._workshop.seed,
            "shuffle": order.name,
            "order": order_check(lambda positions: order.places(0, positions), length),
        }

    @cached_property
    def _about(self) -> About:
        return about(self._workshop.dataset, self._recipe)

    @property
    def _expected(self) -> Schedule:
        """The steps as they are, or will be if this process has its present rank when the loader is first used."""
        if self._schedule is not None:
            return self.schedule
        return arguments.schedule(*self._settings, self._ranks.expected())

    def _next(self, schedule: Schedule) -> tuple[int, int]:
        """Epoch and consumed positions of the next loop."""
        if self._began or schedule.num_steps(self._consumed) <= 0:
            return self._epoch + 1, 0
        return self._epoch, self._consumed

    def _is_looping(self) -> bool:
        """Whether the latest loop is still there and not at its end."""
        live: Any = self._live() if self._live is not None else None
        return live is not None and live.gi_frame is not None

    def _warn_of_a_short_loop(self) -> None:
        """Say once that a look at the first batch has used up an epoch."""
        left = self._num_taken == 1 and self._consumed < self.schedule.length
        if left and not self._said and not self._is_looping():
            self._said = True
            warnings.warn(
                f"the loop before this one was left after its first batch, and every loop is an epoch, so epoch "
                f"{self._epoch} is over and this is epoch {self._epoch + 1}; to look at a batch use loader.peek(), to go "
                f"on within an epoch keep the iterator",
                stacklevel=3,
            )

    def _move_to(self, epoch: int, consumed: int) -> None:
        self._epoch, self._consumed, self._began, self._ended = epoch, consumed, False, None
        self._num_loops += 1  # a loop that is still under way has no say in the state any more

    def _run(self, epoch: int, consumed: int, loop: int) -> Generator[Batch]:
        self.timings.reset()
        producer, keep = self._producer()
        under_way = 0
        try:
            for plan in self.schedule.plans(epoch, consumed):
                producer.submit(plan)
                under_way += 1
                if under_way > producer.capacity:
                    yield self._hand_over(producer, loop)
                    under_way -= 1
            for _ in range(under_way):
                yield self._hand_over(producer, loop)
            # Only a pipeline or process with nothing left in it serves another epoch.
            self._kept = keep
        finally:
            producer.close()
            if isinstance(keep, Helper) and keep is not self._kept:
                keep.close()

    def _producer(self) -> tuple[Producer, Feed | ClipFeed | Helper | None]:
        """Return what makes the batches of a loop, and what of it serves later ones."""
        kept, self._kept = self._kept, None
        if self._job is not None:
            helper = kept if isinstance(kept, Helper) else Helper(self._job)
            return ProcessProducer(helper, self._views, self.timings), helper
        if self._pipeline is not None:
            self._pipeline.begin()
            end_loops_at_exit("dali")
            finisher = Finisher(self._views, self.timings, self._num_threads)
            return PipelineProducer(self._workshop, finisher, self._pipeline), None
        if self.decoder == "dali" and self._workshop.clips is not None:
            clip_feed = kept if isinstance(kept, ClipFeed) else self._clip_feed()
            finisher = Finisher(self._views, self.timings, self._num_threads)
            return DaliClipProducer(self._workshop, finisher, clip_feed), clip_feed
        feed = kept if isinstance(kept, Feed) else None
        if self.decoder == "dali" and feed is None:
            on_gpu = self.device.type == "cuda"
            feed = Feed(
                FeedOptions(
                    batch_size=self._expected.largest,
                    antialias=tuple(view.recipe.antialias for view in self._views),
                    device="mixed" if on_gpu else "cpu",
                    canvases=on_gpu,
                    canvas=tuple(view.recipe.decode_size for view in self._views),
                    device_id=self.device.index if on_gpu else None,
                    num_threads=self._num_threads,
                    depth=self._prefetch,
                )
            )
            end_loops_at_exit("dali")
        finisher = Finisher(self._views, self.timings, self._num_threads)
        if feed is None:
            end_loops_at_exit("cpu")
            return CpuProducer(self._workshop, finisher, self._prefetch, fast=self._fast), None
        return DaliProducer(self._workshop, finisher, feed), feed

    def _clip_feed(self) -> ClipFeed:
        end_loops_at_exit("dali")
        on_gpu = self.device.type == "cuda"
        return ClipFeed(
            ClipFeedOptions(
                batch_size=self._expected.largest,
                backend="mixed" if on_gpu else "cpu",
                device_id=self.device.index if on_gpu else None,
                num_threads=self._num_threads,
                depth=self._prefetch,
            )
        )

    def _hand_over(self, producer: Producer, loop: int) -> Batch:
        with self.timings.measure("wait"):
            work, images = producer.take()
        self._ledger.commit(self._records(work))
        if work.failure is not None:
            raise work.failure
        with self.timings.measure("copy"):
            batch = self._batch(work, images)
        if loop == self._num_loops:  # the state is that of the latest loop
            self._audit.count(work)
            self._consumed = work.plan.consumed
            self._num_taken += 1
        return batch

    def _records(self, work: Work) -> list[BadRecord]:
        """What goes into the ledger: of samples that others hand over, only what ends the run."""
        own = set(work.plan.rows.tolist())
        everything = self._ledger.policy == "raise" or work.failure is not None
        records = sorted(work.records, key=lambda record: record[0])
        return [record for row, record in records if row in own or (everything and not record.kept)]

    def _batch(self, work: Work, images: Sequence[torch.Tensor]) -> Batch:
        """Take this rank's rows that are not lost."""
        kept = np.array([work.data[row] is not None for row in work.plan.rows.tolist()], bool)
        rows = work.plan.rows[kept]
        found = [work.found[row] for row in rows.tolist()]
        if self._workshop.clips is not None:
            num_frames = self._workshop.num_frames
            images = [view.view(len(work), num_frames, *view.shape[1:]) for view in images]
        views = tuple(take_rows(view, rows) for view in images)
        return Batch(
            images=views[0],
            labels=upload(
                torch.from_numpy(labels_of(work, self._views[0].recipe, self._num_classes)[rows]),
                self.device,
            ),
            indices=torch.from_numpy(work.indices[rows]),
            keys=[work.keys[row] for row in rows.tolist()],
            valid=torch.from_numpy(work.plan.valid[kept]),
            views=views,
            **clip_columns(work, rows, self._workshop.clips),
            **collate(found, self._views[0].recipe.fixed_size, self.device),
        )


def clip_columns(work: Work, rows: NDArray[np.int64], clips: ClipSource | None) -> dict[str, Any]:
    """Return what a batch says of its clips, nothing where samples are images."""
    if clips is None:
        return {}
    return {
        "frames": torch.from_numpy(work.frames[rows]),
        "seconds": torch.from_numpy(work.seconds[rows]),
        "videos": [work.keys[row].rpartition("#")[0] for row in rows.tolist()],
        "video_numbers": torch.from_numpy(clips.videos(work.indices[rows])),
    }


@cache
def end_loops_at_exit(decoder: Literal["cpu", "dali"]) -> None:  # noqa: ARG001 - once for each
    """See to it that loops which are still there end before Python's modules, and before DALI.

    What is registered last is called first: for "dali" call it when DALI is loaded.
    """

    def end_all() -> None:
        for loop in list(_LOOPS):
            loop.close()

    atexit.register(end_all)


def take_rows(images: torch.Tensor, rows: NDArray[np.int64]) -> torch.Tensor:
    """Return some rows of a batch, without a copy where they follow one another."""
    if len(rows) == 0:
        return images[:0]
    first, last = int(rows[0]), int(rows[-1])
    if np.array_equal(rows, np.arange(first, last + 1)):
        return images[first : last + 1]
    return images.index_select(0, upload(torch.from_numpy(rows), images.device))
