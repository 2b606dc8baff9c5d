"""Define Loader, which yields the batches of a training run, and saves and restores the position of the run."""

import logging
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal, NoReturn, Self, cast

import torch
from torch.distributed.device_mesh import DeviceMesh

from dali_pipes.arguments import names
from dali_pipes.arguments.choose import DecoderName
from dali_pipes.arguments.explain import describe, explain
from dali_pipes.arguments.loader_options import Options
from dali_pipes.arguments.options import Execution, ImageOptions, Monitoring
from dali_pipes.arguments.order import ShuffleChoice, warn_of_small_buckets
from dali_pipes.arguments.process_rank import Ranks
from dali_pipes.arguments.recipe import (
    check_evaluation,
    require_evaluation_options,
    warn_of_training,
)
from dali_pipes.arguments.setup import Setup, make_setup
from dali_pipes.arguments.values import require_epoch, require_one_of
from dali_pipes.batch import Batch
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.monitoring.headroom import Headroom, TrainingStep, measure_headroom
from dali_pipes.monitoring.loop import LoopMeter, Scope
from dali_pipes.monitoring.metrics import Metrics, as_metrics
from dali_pipes.monitoring.ranks.heartbeat_options import as_heartbeat
from dali_pipes.monitoring.ranks.rank_table import RankTable
from dali_pipes.monitoring.ranks.watch import Watch
from dali_pipes.monitoring.stats import Stats
from dali_pipes.runs.audit import Audit, Tally
from dali_pipes.runs.bad_samples import BadRecord, Ledger, Policy
from dali_pipes.runs.replay import replay
from dali_pipes.runs.replay_result import Replay
from dali_pipes.runs.weight_history import continued, history_of, saved_history, setup_of_state
from dali_pipes.stages.assemble import batch_of, no_batch
from dali_pipes.stages.endings import LOOPS
from dali_pipes.stages.loops import Loops
from dali_pipes.stages.production import Production
from dali_pipes.state import (
    About,
    LoaderState,
    RunIdentity,
    check_state,
    describe_dataset,
    describe_draws,
    describe_recipe,
    identity_of,
)
from dali_pipes.steps.epochs import Epochs
from dali_pipes.steps.schedule import BucketSteps, LastBatch, total
from dali_pipes.steps.streams.order import UNKNOWN
from dali_pipes.steps.streams.steps import AnySteps, StreamSteps
from dali_pipes.steps.variants import AnyRecipe, MultiScale, OfCameras, RecipeOf
from gpu_aug.engines.choose import EngineChoice
from readers import Dataset
from readers.datasets.stream import Stream
from readers.order.buckets import Buckets, Size

_log = logging.getLogger(f"gpu_aug.{__name__}")


class Loader:
    """Decodes and augments a dataset; each loop over it is one epoch.

    Samples, their order and their augmentation parameters depend only on the dataset, the recipe, the seed and the
    epoch, not on engine, device, decoder, batch size, number of ranks or threads. The first loop is epoch 0, and every
    further loop is the next epoch, even if the previous loop was left early, unless its state is loaded. So
    ``next(iter(loader))`` uses up an epoch; `peek` does not.

    A Loader is for training: it shuffles, and its batches are full. `Loader.eval` makes one for evaluation.

    Args:
        dataset: The result of `readers.open_dataset`, also with ``format="stream"``, or an object with its interface.
            `Clips` of a dataset of videos, their selections and mixtures, and LeRobot datasets give clips of T frames.
        recipe: The operations on each image; all frames of a clip get equal operations and draws. `Views` make several
            pictures of each sample, which is read and decoded once. A recipe that mixes samples makes `batch.labels`
            soft. All images of a view must have one final size. A `Schedule` has recipes by epoch. For the cameras of a
            LeRobot dataset, `CameraRecipes` or their argument, a dictionary, have a recipe and draws for each group of
            cameras. With `buckets` or `sizes`: a function of the size (height, width) that returns one of these.
        batch_size: Samples per rank and step; with `buckets` also a dictionary with one for each size, as from
            ``buckets.batch_sizes(pixels=...)``.
        buckets: Sizes from which each sample gets the one that best suits its shape; all samples of a step, on all
            ranks, have one size. `last_batch` applies to each bucket. Sizes that the data does not list are read from
            the headers once.
        sizes: Sizes that change within an epoch, for multi-scale training; after a resume with another batch size, the
            step before the next change can be smaller.
        device: Where batches are returned and the engine runs. "auto" uses a GPU if there is one: torch's current
            device, or before torch.cuda.set_device that of LOCAL_RANK, as set by torchrun.
        decoder: "cpu" is our own decoder for baseline JPEGs, OpenCV for other images and FFmpeg for videos. "cuda"
            decodes baseline JPEGs on a GPU to exactly the same pixels as "cpu"; in the first epoch the CPU reads each
            file's codes once, and stores seek points in the cache folder. "dali" is NVIDIA DALI. Both leave other files
            to the CPU. "auto" uses the decoder that was measured to be fastest, see `explain`. `from_dali(pipeline)`
            decodes with your own DALI pipeline.
        engine: The implementation that runs the recipe; "auto" uses "fused", and Kornia for images that are not RGB.
        seed: Seed of the order and the draws, at least 0. Two runs with the default see the same order and draws.
        shuffle: "global" permutes the epoch, "none" keeps the dataset's order, and "block" permutes blocks of
            neighbouring samples and mixes the samples of a few open blocks, for storage that is best read in large
            pieces; `BlockShuffle` sets the number of samples. For streams "none" or "block", which permutes their
            shards and shuffles in a buffer.
        rank: Rank of this process among `world_size`. With None it is found on first use (`len`, a loop, a state): from
            torch's process group, else Ray Train, else RANK and WORLD_SIZE in the environment, as set by torchrun, else
            it is 0 of 1. These must not contradict it later. One dimension of a DeviceMesh, such as ``mesh["dp"]``,
            shares each step among its processes; processes that differ in other dimensions get the same samples, and
            audit and ledger are written by the processes that share a mesh with process 0.
        world_size: Count of processes that share each step. Given values of `rank` and `world_size` override the
            process group; for example `world_size` may be smaller, for models that are spread over several processes.
        dtype: torch.uint8, float16, bfloat16 or float32. Floats are in [0, 1] unless the recipe normalises; uint8
            requires a recipe that does not.
        last_batch: Handling of an incomplete last batch: "drop" leaves it out, "partial" returns it smaller, and "pad"
            fills it with repeated samples for which `batch.valid` is False.
        on_bad_sample: "raise", "replace" by another sample of the dataset, or "skip", which makes the batch smaller,
            possibly empty. The mean loss of an empty batch is NaN, so write ``if len(batch) == 0: continue``, or use
            "replace" if all ranks must step together. The number of steps is the same on every rank.
        max_bad_samples: The run stops when more different samples than this are bad on this rank. None is 1 % of the
            dataset, at least 100, but at most half of it.
        num_threads: Threads that decode and augment, in all helper processes together. None is the number of cores that
            this process may use, divided by LOCAL_WORLD_SIZE (ranks on this machine, set by torchrun and Ray Train)
            unless the process is bound to some of the cores.
        fields: Further fields of the samples for `batch.fields`: names, such as ``["caption"]``, read as text (``json``
            as JSON, NumPy files as arrays), or a dictionary from names to `Field` or to its first argument:
            ``{"caption": str, "meta": "json", "tokens": tokenize}``; None stands for the name alone. A sample with an
            unreadable field is bad.
        workers: `RayWorkers`, which make the batches on other machines of a Ray cluster; see docs/clusters.md.
            They need decoder="cpu", and data and a recipe that can be pickled, with paths or URLs that those machines
            can reach.
        images: `ImageOptions`: the fields with images, their channels and depth, maps, targets, the largest image.
        execution: `Execution`: helper processes, batches prepared ahead, exact or fast decoding, memory format.
        monitoring: `Monitoring`: audit, ledger, metrics, and the heartbeat between ranks.

    Attributes:
        device: The chosen device.
        decoder: The chosen decoder.
        engine: The chosen engine.
        steps: The steps of an epoch. Setting it takes effect with the next loop. Other attributes cannot be set: make
            another Loader.

    Raises:
        LoaderError: An argument is invalid; the message says what is allowed. Later: a rank or world size contradicts
            the one in use.
        MissingPackageError: The decoder is not installed.
        gpu_aug.RecipeError: The recipe's images can have different sizes; in a loop, it cannot move the targets of the data.
        gpu_aug.EngineError: The engine cannot run the recipe exactly.

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
        dataset: Dataset | Stream,
        recipe: AnyRecipe | OfCameras | RecipeOf,
        *,
        batch_size: int | Mapping[Size, int],
        buckets: Buckets | None = None,
        sizes: MultiScale | None = None,
        device: str | torch.device = "auto",
        decoder: DecoderName | DaliDecoder = "auto",
        engine: EngineChoice = "auto",
        seed: int = 0,
        shuffle: ShuffleChoice = "global",
        rank: int | DeviceMesh | None = None,
        world_size: int | None = None,
        dtype: torch.dtype = torch.float32,
        last_batch: LastBatch = "drop",
        on_bad_sample: Policy = "raise",
        max_bad_samples: int | None = None,
        num_threads: int | None = None,
        fields: Iterable[str] | Mapping[str, Any] | None = None,
        workers: RayWorkers | None = None,
        images: ImageOptions = ImageOptions(),  # noqa: B008 - frozen
        execution: Execution = Execution(),  # noqa: B008 - frozen
        monitoring: Monitoring = Monitoring(),  # noqa: B008 - frozen
    ) -> None:
        given = locals()
        options = Options(**{field: given[field] for field in Options.__slots__})
        self._setup = setup = make_setup(options)
        choice, fetcher = setup.choice, setup.fetcher
        order = fetcher.order
        self._recorder = recorder = fetcher.recorder
        self.device, self.decoder, self.engine = choice.device, choice.decoder, choice.engine
        self._ranks = ranks = Ranks(rank, world_size)
        ranks.warn_of_files(monitoring.audit, monitoring.ledger, stacklevel=4)
        # Invalid ranks raise here, although the rank is only fixed on first use.
        process = ranks.guess()
        limit = options.bad_sample_limit(len(order))
        ledger = monitoring.ledger if ranks.writes else None
        self._ledger = Ledger(on_bad_sample, limit, ledger, process.rank)
        self._audit = Audit(monitoring.audit, process.rank, writes=ranks.writes)
        self._steps: AnySteps | None = None
        steps = setup.steps(process)
        self._audit.require_own_file(process)
        warn_of_training(options.dataset, fetcher.variants, order, steps, stacklevel=4)
        warn_of_small_buckets(steps, stacklevel=4)
        self._watch = Watch(
            as_heartbeat(monitoring.heartbeat),
            recorder,
            f"{len(order)} samples, {batch_size}, {shuffle}",
            describe_draws(options.dataset, fetcher.seed),
        )
        self._meter = meter = LoopMeter(recorder, setup.threads_of_all)
        self._production = Production(setup, steps)
        self._epochs = epochs = Epochs()
        # The callables refer to meter and epochs, not to the loader: a reference cycle would delay freeing it.
        metrics = Metrics(
            as_metrics(monitoring.metrics), lambda scope: meter.stats(scope, epochs.epoch)
        )
        self._loops = Loops(
            setup, self._production, epochs, self._ledger, self._audit, meter, metrics, self._watch
        )
        _log.info("made %r: %s", self, "; ".join(choice.reasons))

    @classmethod
    def eval(
        cls,
        dataset: Dataset | Stream,
        recipe: AnyRecipe | OfCameras | RecipeOf,
        *,
        batch_size: int | Mapping[Size, int],
        last_batch: Literal["partial", "pad"] = "partial",
        **options: Any,
    ) -> Self:
        """Make a loader for evaluation: every sample once, in the dataset's order, on any number of ranks.

        All ranks take the same number of steps. Count the valid rows, and sum both numbers over the ranks::

            right += (scores.argmax(1) == batch.labels).cpu()[batch.valid].sum()
            total += batch.valid.sum()

        Args:
            dataset: The dataset, as for Loader; a weighted mixture is not allowed.
            recipe: The recipe, as for Loader; it should draw nothing at random.
            batch_size: Samples per rank and step, as for Loader.
            last_batch: "partial" allows the last batch of a rank to be smaller, possibly empty; "pad" gives all batches
                one size, with rows that are not valid.
            options: The other keywords of Loader except `shuffle`. on_bad_sample="skip" leaves bad samples out of the
                counts; "replace" is not allowed.

        Raises:
            LoaderError: An argument is invalid, or samples would be left out or repeated.
        """
        require_evaluation_options(last_batch, options)
        options |= {"batch_size": batch_size, "shuffle": "none", "last_batch": last_batch}
        loader = cls(dataset, recipe, **options)
        fetcher = loader._setup.fetcher
        check_evaluation(loader._setup.options.dataset, fetcher.order, fetcher.variants)
        return loader

    def __len__(self) -> int:
        """Return the number of steps of a full epoch, which is the same on every rank.

        Raises:
            TypeError: The data is a stream of unknown length.
        """
        if self.steps.length == UNKNOWN:
            raise TypeError(
                "the number of steps is known at the end of the stream only; say how many samples an epoch has, as in "
                'open_dataset(..., format="stream", samples_per_epoch=1_000_000)'
            )
        return self.steps.num_steps()

    def __iter__(self) -> Generator[Batch]:
        """Start the next epoch when the first batch is requested, or continue from a loaded state.

        A loop that yields no batch does not count as an epoch: trainers make such loops.
        """
        self.steps  # noqa: B018 - an error is raised here, not with the first batch
        return self._loop()

    def _loop(self) -> Generator[Batch]:
        """Yield the batches of the next loop, and close it as soon as the caller leaves it."""
        loop = self._begin()
        try:
            for batch in loop:
                yield batch
                if loop not in LOOPS:
                    raise LoaderError(
                        "this loop was begun before a fork, and its threads and helper processes serve the parent "
                        "process; begin a loop in the process that uses it (for batch in loader), or pass on batches"
                    )
        finally:
            if loop in LOOPS:
                loop.close()

    def _begin(self) -> Generator[Batch]:
        """Start the next loop: the next epoch, or the rest of the epoch of a loaded state."""
        process, epochs, steps = self._ranks.settle(), self._epochs, self.steps
        epochs.warn_of_a_short_loop(steps.length)
        is_next_epoch = epochs.began  # the next epoch belongs to the same attempt
        number = epochs.begin(steps)
        if not is_next_epoch:
            consumed = steps.consumed_ranges(epochs.consumed)
            self._audit.begin(epochs.epoch, consumed, process, lambda: self._identity)
        loop = self._loops.run(steps, process, number)
        epochs.set_loop(loop)
        LOOPS.add(loop)
        return loop

    def peek(self) -> Batch:
        """Return the first batch of the next loop, without starting that loop.

        State, epoch, audit and ledger do not change, and the loop makes the batch again. Before the loader's first use
        (len, a loop, its state), the rank is not fixed; the batch is that of the present rank.

        Raises:
            BadSampleError: A bad sample ends the run, as it would in that loop.
            LoaderError: A loop is using the pipeline of `from_dali`, or a stream ends before that batch.
        """
        steps = self._expected
        plan = next(steps.plans(*self._epochs.upcoming(steps)))
        source = self._production.open(steps.largest)
        try:
            source.start(plan)
            batch = batch_of(*source.take(), self._setup, self._ledger.judge)
            if self._epochs.running_loop() is None:  # a running loop keeps its production
                self._production.keep(source)
        finally:
            self._production.stop(source)
        if batch is None:
            raise no_batch(self._setup)
        return batch

    def replay(self, index: int, epoch: int, *, repeat: int = 0, view: int = 0) -> Replay:
        """Make one row of a batch again, with its draws and the picture after each operation.

        The decoder and engine are those of a loop, so on a CPU the row is bit-identical; on a GPU it may differ by
        rounding, because libraries choose algorithms by batch size. The picture after an operation is the one that the
        loader would return if the recipe ended there. A `BatchFunction` only gets this row and its possible mixing
        partners. State and statistics do not change.

        Args:
            index: Index of the sample in the dataset, as in `batch.indices`.
            epoch: The epoch, counted from 0, as in `Loader.epoch`.
            repeat: Index of the occurrence of the sample within the epoch, from 0: weighted mixtures repeat samples.
            view: Index of the view, if the recipe has several.

        Raises:
            LoaderError: The epoch has fewer occurrences of the sample; or the data is a stream; or the decoder is a
                pipeline of `from_dali`.
            BadSampleError: The sample is bad, so no batch contains it.

        Example:
            >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=64), batch_size=8)
            >>> found = loader.replay(3, epoch=2)
            >>> [step.name for step in found.steps], found.row.isnan().any().item()
            (['RandomResizedCrop', 'HorizontalFlip', 'Normalize'], False)
        """
        return replay(self._setup, index, epoch, repeat=repeat, view=view)

    def headroom(
        self, step: TrainingStep, *, steps: int = 20, rounds: int = 5, kept: int = 4
    ) -> Headroom:
        """Measure the speedup of training if its input took no time.

        Your training step runs alternately on batches from memory, which stand for an infinitely fast input, and on
        fresh first batches of the next epochs, so that a drift of the machine cancels out. The step really trains, also
        on repeated samples: give it a spare model. State, epoch, audit, ledger and statistics do not change. Call it on
        all ranks: each makes the same number of steps.

        Args:
            step: Your training step: takes a `Batch`, which it must not change in place.
            steps: Count of steps in one measurement.
            rounds: Count of measurements of each kind.
            kept: Count of batches in memory.

        Raises:
            LoaderError: An argument is not allowed, the step changes its batch, an epoch has no batch, or a loop is
                using the pipeline of `from_dali`.
            BadSampleError: A bad sample ends the run, as it would in a loop.

        Example:
            >>> loader = Loader(open_dataset("photos/"), Recipe.imagenet_train(size=32), batch_size=8)
            >>> weight = torch.zeros(3 * 32 * 32, 2, requires_grad=True)
            >>> def step(batch):
            ...     scores = batch.images.flatten(1) @ weight
            ...     torch.nn.functional.cross_entropy(scores, batch.labels).backward()
            >>> found = loader.headroom(step, steps=3, rounds=2)
            >>> found                                          # a verdict in one sentence
            ...
            >>> found.gain > 0
            True
        """
        expected = self._expected
        return measure_headroom(
            self._production,
            expected,
            self._epochs.upcoming(expected),
            step,
            num_steps=steps,
            rounds=rounds,
            kept=kept,
        )

    @property
    def steps(self) -> AnySteps:
        """The steps of an epoch on this rank. Reading it fixes the rank."""
        process = self._ranks.settle()
        if self._steps is None:
            self._audit.require_own_file(process)
            self._steps = self._setup.steps(process)
        return self._steps

    @steps.setter
    def steps(self, steps: AnySteps) -> None:
        self._steps = steps

    @property
    def epoch(self) -> int:
        """The epoch of the latest loop; before any loop, or after loading a state, that of the next loop."""
        return self._epochs.epoch

    @property
    def batch_sampler(self) -> SimpleNamespace:
        """An object on which Lightning sets the epoch: it calls ``loader.batch_sampler.sampler.set_epoch(epoch)``.

        After a state was loaded, the loader counts epochs itself and ignores these calls.
        """
        # Not `loader.sampler`, which Lightning's overfit_batches would report as replaced.
        return SimpleNamespace(sampler=self._epochs)

    @property
    def dataset(self) -> NoReturn:
        """Raise, to stop code that would build a torch DataLoader without the recipe (``accelerate.skip_first_batches``).

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(
            "a Loader has no attribute 'dataset', from which accelerate's skip_first_batches and others make a new "
            "DataLoader: to resume within an epoch, call loader.load_state_dict(state) before the loop (accelerate: "
            "register_for_checkpointing(loader), then load_state)"
        )

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next loop; if a loaded state lies inside this epoch, keep the state's position."""
        require_epoch(epoch)
        self._epochs.choose(int(epoch))

    def state_dict(self) -> LoaderState:
        """Return the position of the run: the samples that the loop received, not prefetched ones."""
        self._ranks.settle()
        consumed = self._epochs.consumed
        state: dict[str, Any] = {
            **self._identity,
            "epoch": self._epochs.epoch,
            "consumed": total(consumed),
            "about": self._about,
            "attempt": self._audit.attempts.latest,
        }
        if isinstance(self.steps, BucketSteps):
            state["buckets"] = list(self.steps.consumed_of_each(consumed))
        if history_of(self._setup):
            state["weights"] = saved_history(self._setup)
        if isinstance(self.steps, StreamSteps):
            state["stream"] = self.steps.state(self._epochs.epoch, total(consumed))
        return cast(LoaderState, state)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next loop continue at a saved state, on any number of ranks.

        If the epoch has fewer samples left than one step of this loader takes, the next epoch follows. To change the
        recipe on purpose, put its fingerprint into the state: ``{**state, "recipe": loader.state_dict()["recipe"]}``. If the
        dataset is a mixture that had other weights when the state was saved, a warning names both: the new weights hold from the
        state's position on, and each dataset of the mixture continues with its next sample.

        Raises:
            StateMismatchError: The state belongs to another dataset, recipe, seed or version.
        """
        lengths = self.steps.order.lengths if isinstance(self.steps, BucketSteps) else ()
        saved = setup_of_state(self._setup, state)
        # Described with the saved weights: other weights are no reason for an error, which names what else differs.
        about = {**self._about, "dataset": describe_dataset(saved.options.dataset)}
        own = {**self.state_dict(), **identity_of(saved), "about": about}
        epoch, consumed = check_state(state, own, lengths)
        self._use(continued(saved, self._setup, epoch, total(consumed)))
        self._audit.attempts.latest = state.get("attempt", "")
        over = isinstance(self.steps, StreamSteps) and self.steps.load(state)
        if self.steps.num_steps(consumed) > 0 and not over:
            self._epochs.move_to(epoch, consumed)
        else:
            self._epochs.move_to(epoch + 1, 0, ended=epoch)
        self._epochs.loaded = True
        consumed = total(self._epochs.consumed)
        _log.info(
            "a state was loaded: epoch %d goes on after %s samples", self.epoch, f"{consumed:,}"
        )

    @property
    def bad_samples(self) -> list[BadRecord]:
        """The records of the ledger: bad samples on this rank, and damaged clips that were still used."""
        return list(self._ledger.records)

    @property
    def audit(self) -> Tally:
        """Hashes of the samples that this rank received, to compare with another run."""
        return self._audit.tally

    def stats(self, scope: Scope = "epoch") -> Stats:
        """Return statistics: the work of the stages, the waiting of the training loop, and its bottleneck. Print them.

        Loops that run at the same time are counted together.

        Args:
            scope: "epoch" is the current loop, or the last one; "run" is all loops since the loader was made.

        Raises:
            LoaderError: The scope is unknown.
        """
        require_one_of("scope", scope, ("epoch", "run"))
        return replace(
            self._meter.stats(scope, self._epochs.epoch), workers=self._production.machines
        )

    def ranks(self) -> RankTable:
        """Return the progress of all ranks that send reports, and which of them are late; print the result."""
        return self._watch.ranks(self._ranks.expected())

    def explain(self) -> str:
        """Return a text with all choices and their reasons, and the stages of an image, one per line."""
        machines = self._production.machines
        return "\n".join(explain(self._setup, self._expected, machines))

    def close(self) -> None:
        """End the current loop, its threads, the DALI pipeline, helper processes and workers; a later loop starts new ones."""
        try:
            live = self._epochs.running_loop()
            if live is not None and live in LOOPS:
                live.close()
        finally:
            self._production.close()

    def __repr__(self) -> str:
        return describe(self._setup, self._steps, self.epoch)

    def __setattr__(self, name: str, value: Any) -> None:
        first = name in ("device", "decoder", "engine") and name not in vars(self)
        own = type(self) is not Loader and not names.is_known(Loader, name)
        if not (name.startswith("_") or first or own or name == "steps"):
            names.refuse_attribute(self, name, value)
        super().__setattr__(name, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _use(self, setup: Setup) -> None:
        """Make further loops with a setup that differs in the weights that the order has had."""
        if history_of(setup) == history_of(self._setup):
            return
        if self._epochs.running_loop() is None:  # a running loop uses its production to the end
            self._production.close()
        self._setup, self._production = setup, Production(setup, self.steps)
        # New loops, because a running loop returns its helper processes, which have the old order, to its own production.
        self._loops = replace(self._loops, setup=setup, production=self._production)
        vars(self).pop("_identity", None)  # a cached property

    @cached_property
    def _identity(self) -> RunIdentity:
        return identity_of(self._setup)

    @cached_property
    def _about(self) -> About:
        dataset, variants = self._setup.options.dataset, self._setup.fetcher.variants
        return {"dataset": describe_dataset(dataset), "recipe": describe_recipe(variants)}

    @property
    def _expected(self) -> AnySteps:
        """The steps in use; before the loader's first use, the steps of the present rank, which stays open."""
        if self._steps is not None:
            return self.steps
        return self._setup.steps(self._ranks.expected())
