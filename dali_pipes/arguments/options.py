"""The arguments of a loader together, and what a loader is made of once they are checked."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch

from dali_pipes.arguments import checks as arguments
from dali_pipes.arguments import sizing
from dali_pipes.arguments.choose import Choice, DecoderName, choose, choose_for_clips
from dali_pipes.arguments.first_samples import require_no_videos, require_there
from dali_pipes.arguments.helper_choice import HelperChoice, HelperCount, choose_helpers
from dali_pipes.arguments.process_rank import Process
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.monitoring.ranks.heartbeat import HeartbeatChoice, as_heartbeat
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.samples.fields import FieldReader, as_reader
from dali_pipes.samples.image_fields import ImageFields, as_image_fields
from dali_pipes.samples.maps import Flow, MapReader, NumberMap, as_map_reader
from dali_pipes.samples.targets import Kind, TargetReader
from dali_pipes.stages.canvases import View
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.steps.schedule import LastBatch
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.streams.order import StreamOrder
from dali_pipes.steps.streams.steps import AnySteps, stream_steps
from dali_pipes.steps.variants import AnyRecipe, MultiScale, RecipeOf, make_variants
from dali_pipes.video.source import ClipSource, find_clips, require_clips, require_fits_cameras
from gpu_aug import compile_engine
from gpu_aug.engines.choose import EngineChoice, EngineName
from gpu_aug.image_kind import Depth
from gpu_aug.views import Views
from readers import Dataset
from readers.buckets import Buckets, Size
from readers.cores import cores_of_rank
from readers.order import Shuffle

# A step that waits for the GPU holds its files, a pinned copy of them, and canvases on the GPU: 90 MB for 256 photographs.
_MOST_READ_AHEAD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of a Loader, which tells what they mean."""

    dataset: Dataset  # or a Stream, which the checks let pass
    recipe: AnyRecipe | RecipeOf
    batch_size: int | Mapping[Size, int]
    buckets: Buckets | None
    sizes: MultiScale | None
    device: str | torch.device
    decoder: DecoderName | DaliDecoder
    engine: EngineChoice
    exact: bool
    decode: Literal["exact", "fast"]
    hw_decoder_load: float
    cache: Literal["device"] | None
    seed: int
    shuffle: Shuffle
    shuffle_window: int | None
    rank: int | None
    world_size: int | None
    dtype: torch.dtype
    channels_last: bool
    last_batch: LastBatch
    on_bad_sample: Literal["raise", "replace", "skip"]
    max_bad_samples: int | None
    ledger: str | os.PathLike[str] | None
    audit: str | os.PathLike[str] | None
    num_threads: int | None
    prefetch: int | Literal["auto"]
    max_pixels: int
    targets: Literal["auto"] | Collection[Kind]
    fields: Iterable[str] | Mapping[str, Any] | None
    channels: int
    depth: Depth
    images: str | Iterable[str] | Mapping[str, str] | None
    maps: Mapping[str, NumberMap | Flow] | None
    helper_process: HelperCount
    workers: RayWorkers | None
    heartbeat: HeartbeatChoice

    @property
    def user_pipeline(self) -> DaliDecoder | None:
        """The user's own pipeline, where one decodes."""
        return self.decoder if isinstance(self.decoder, DaliDecoder) else None

    @property
    def fewest_ahead(self) -> int:
        """Steps that are worked on ahead, where that number cannot be changed while a loop runs."""
        return 2 if self.prefetch == "auto" else self.prefetch

    @property
    def fast(self) -> bool:
        """Whether JPEGs may be decoded at a smaller size."""
        return self.decode == "fast"

    def check(self) -> None:
        """Refuse what cannot work, whatever the dataset and the machine.

        Raises:
            LoaderError: The text says what would work.
        """
        arguments.require_dataset(self.dataset)
        given = self.num_threads
        threads: dict[str, Any] = {} if given is None else {"num_threads": given}
        sizing.check_batch_size(self.batch_size, self.buckets)
        if not isinstance(self.batch_size, Mapping):
            threads["batch_size"] = self.batch_size
        arguments.require_positive(
            prefetch=self.fewest_ahead,
            max_pixels=self.max_pixels,
            **threads,
        )
        arguments.require_one_of("decode", self.decode, ("exact", "fast"))
        arguments.require_one_of("last_batch", self.last_batch, ("drop", "partial", "pad"))
        arguments.require_one_of("on_bad_sample", self.on_bad_sample, ("raise", "replace", "skip"))
        arguments.require_cache(self.cache, self.decoder)
        arguments.require_not_negative(seed=self.seed)
        arguments.require_share(hw_decoder_load=self.hw_decoder_load)
        arguments.require_truths(exact=self.exact, channels_last=self.channels_last)
        arguments.require_helper_process(self.helper_process)
        arguments.require_in_use(
            decode=self.decode,
            decoder=self.decoder,
            hw_decoder_load=self.hw_decoder_load,
            on_bad_sample=self.on_bad_sample,
            max_bad_samples=self.max_bad_samples,
        )
        arguments.require_two_files(self.audit, self.ledger)
        arguments.require_workers(
            self.workers, helper_process=self.helper_process, num_threads=self.num_threads
        )
        as_heartbeat(self.heartbeat)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a loader is made of.

    Attributes:
        options: Its arguments.
        choice: What was chosen for every "auto".
        fetcher: The first stage of its pipelines.
        variants: What is made of every sample under each of the run's recipes.
        num_threads: Decoding and augmenting threads of a process that does that.
        num_classes: How many classes mixed labels have; None where that need not be known.
        helpers: How many helper processes make the batches, and why.
    """

    options: Options
    choice: Choice
    fetcher: Fetcher
    variants: tuple[tuple[View, ...], ...]
    num_threads: int
    num_classes: int | None
    helpers: HelperChoice

    @property
    def views(self) -> tuple[View, ...]:
        """What is made of every sample under the first recipe."""
        return self.variants[0]

    @property
    def steps_read_ahead(self) -> int:
        """Steps that threads read and plan ahead of a GPU that decodes; one takes a thread about 10 ms."""
        if self.options.prefetch != "auto":
            return self.options.prefetch
        return max(2, min(_MOST_READ_AHEAD, self.num_threads // 2))

    @property
    def threads_of_all(self) -> int:
        """Decoding and augmenting threads of all workers, or of this machine where there are none."""
        if (workers := self.options.workers) is not None:
            return workers.count * workers.num_threads
        return self.num_threads * max(1, self.helpers.count)

    def steps(self, process: Process) -> AnySteps:
        """Return the steps of an epoch on a process.

        Raises:
            LoaderError: There are none.
        """
        options, fetcher = self.options, self.fetcher
        if isinstance(fetcher, StreamFetcher):
            return stream_steps(
                fetcher.stream_order.stream,
                cast(int, options.batch_size),
                options.last_batch,
                fetcher.variants,
                process,
            )
        return sizing.make_steps(
            fetcher.order,
            fetcher.variants,
            options.batch_size,
            options.last_batch,
            fetcher.seed,
            process,
        )


def make_setup(options: Options, recorder: Recorder) -> Setup:
    """Check the arguments of a loader, and make what it consists of.

    Raises:
        LoaderError: An argument that cannot work.
        MissingPackageError: A decoder that is not installed.
        gpu_aug.RecipeError: A recipe whose images can have different sizes.
        gpu_aug.EngineError: A recipe that the engine cannot carry out exactly.
    """
    sizes = sizing.sizes_of(options.buckets, options.sizes)
    options.check()
    variants = make_variants(options.recipe, sizes)
    clips = find_clips(options.dataset)
    sizing.require_images(variants, clips=clips is not None)
    if clips is None and options.images is None:
        require_no_videos(options.dataset)
    _require_fits_clips(clips, targets=options.targets, decode=options.decode)
    sizing.check_variants(variants)
    for views in variants.views:
        arguments.require_dtype(options.dtype, views)
        require_clips(views, clips)
        require_fits_cameras(views, clips, options.decoder)
        arguments.check_labels_of_views(views)
    kinds = arguments.target_kinds(options.targets if clips is None else [])
    images = as_image_fields(options.images, options.channels, options.depth)
    for views in variants.views:
        arguments.require_kind(images.kind, views, options.dtype)
        _require_fits_images(images, options, views, clips)
    choice = choose(options.device, options.decoder, options.engine, images)
    if clips is not None and clips.cameras:
        choice = choice.decoding_on_cpu("the pictures of several cameras and moments make a clip")
    elif clips is not None:
        choice = choose_for_clips(choice, options.decoder)
    fields = as_reader(options.fields, getattr(options.dataset, "field_types", None))
    maps = as_map_reader(options.maps, [views.recipes[0] for views in variants.views])
    _require_no_clips_with_maps(maps, clips)
    _require_other_names(images, fields, maps)
    require_there(options.dataset, fields, images, maps)
    seed = int(options.seed)  # numpy's are no JSON
    order = arguments.order_of(options.dataset, seed, options.shuffle, options.shuffle_window)
    if isinstance(order, StreamOrder) and sizes is not None:
        raise LoaderError(
            "buckets= and sizes= need samples that can be read at random, and this is a stream: leave them out, or make "
            "shards with gpu-aug pack"
        )
    if options.buckets is not None:
        order = sizing.order_in_buckets(
            options.dataset,
            order,
            options.buckets,
            seed=seed,
            shuffle=options.shuffle,
            field=images.fields[0][1] if images.fields else None,
        )
    kind = StreamFetcher if isinstance(order, StreamOrder) else Fetcher
    fetcher = kind(
        options.dataset,
        variants,
        order,
        seed,
        options.on_bad_sample,
        options.max_pixels,
        TargetReader(variants.first, kinds, maps),
        recorder,
        fields,
        images,
    )
    labelled = [views.recipes[0] for views in variants.views]
    num_classes = arguments.num_classes_of(labelled, options.dataset)
    compiled = make_views(options, fetcher, choice.engine, choice.device)
    num_threads = options.num_threads or cores_of_rank()
    helpers = HelperChoice(0, "")
    if options.workers is None:
        helpers = choose_helpers(options.helper_process, num_threads, choice, fetcher, compiled)
    num_threads = max(1, num_threads // max(1, helpers.count))
    return Setup(options, choice, fetcher, compiled, num_threads, num_classes, helpers)


def make_views(
    options: Options, fetcher: Fetcher, engine: EngineName, device: torch.device
) -> tuple[tuple[View, ...], ...]:
    """Make what carries out the recipe of every view on a device, for each of the run's recipes."""
    memory_format = torch.channels_last if options.channels_last else torch.contiguous_format
    return tuple(
        tuple(
            View(
                recipe,
                compile_engine(
                    engine, recipe, device=device, exact=options.exact, kind=fetcher.images.kind
                ),
                options.dtype,
                memory_format,
                device,
                fetcher.images_per_row,
                fetcher.images.kind,
            )
            for recipe in views.recipes
        )
        for views in fetcher.variants.views
    )


def _require_fits_clips(clips: ClipSource | None, *, targets: object, decode: str) -> None:
    """Refuse what cannot be done with clips; None stands for images, which can have it all."""
    if clips is None:
        return
    if targets != "auto" and targets:
        raise LoaderError(
            f"targets={targets!r} is not supported for clips, whose masks, boxes and keypoints would differ from "
            f'frame to frame; use targets=[] or "auto", which takes none, and read them by batch.keys'
        )
    if decode == "fast":
        raise LoaderError(
            'decode="fast" is not supported for clips: videos cannot be decoded at a smaller size; use '
            'decode="exact"'
        )


def _require_fits_images(
    images: ImageFields, options: Options, views: Views, clips: ClipSource | None
) -> None:
    """Refuse what cannot be done with other images than one RGB image of 8 bits."""
    if images.is_usual:
        return
    if clips is not None:
        raise LoaderError(
            f"frames of clips are RGB of 8 bits, and asked for is {images}; leave channels, depth and images out"
        )
    if options.decode == "fast":
        raise LoaderError(
            f'decode="fast" is for one RGB image of 8 bits, and asked for is {images}; use decode="exact"'
        )
    if images.names and len(views.recipes) > 1:
        raise LoaderError(
            f"images={list(images.names)} is not supported with Views, whose images would have two names; give one "
            "recipe, or one field"
        )


def _require_no_clips_with_maps(maps: MapReader, clips: ClipSource | None) -> None:
    if maps and clips is not None:
        raise LoaderError(
            "maps are not supported for clips, whose frames would have one each; leave maps out"
        )


def _require_other_names(images: ImageFields, fields: FieldReader, maps: MapReader) -> None:
    """Refuse one name for two things in a batch."""
    names = [*images.names, *fields.fields, *(name for name, _ in maps.maps)]
    for name in names:
        if names.count(name) > 1:
            raise LoaderError(
                f"{name!r} is twice among the names of images, fields and maps; give one of them another name"
            )
