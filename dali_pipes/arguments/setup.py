"""Make the parts of a loader (its Setup) from its checked arguments."""

from dataclasses import dataclass
from typing import cast

import torch

from dali_pipes.arguments.choose import Choice, choose
from dali_pipes.arguments.dataset import require_there
from dali_pipes.arguments.flip_pairs import with_flip_pairs
from dali_pipes.arguments.helper_choice import HelperChoice, choose_helpers
from dali_pipes.arguments.loader_options import Options, require_fits_samples
from dali_pipes.arguments.order import find_order, make_steps, order_in_buckets
from dali_pipes.arguments.process_rank import Process
from dali_pipes.arguments.recipe import find_num_classes, require_boxes, require_fits
from dali_pipes.arguments.robot_fields import with_robot_fields
from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.recorder import Recorder
from dali_pipes.samples.fields import FieldReader, as_reader
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.samples.maps import DepthFrames, MapReader
from dali_pipes.samples.targets import TargetReader
from dali_pipes.stages.canvas_memory import View
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.streams.order import StreamOrder
from dali_pipes.steps.streams.steps import AnySteps, stream_steps
from dali_pipes.steps.variants import Variants, make_variants
from dali_pipes.video.frame_cache import FrameCache
from dali_pipes.video.source import columns_of_views, find_clips
from gpu_aug import compile_engine
from gpu_aug.engines.choose import EngineName
from gpu_aug.targets.maps import check_maps
from readers.cores import cores_of_rank

# Limits memory: a step that waits for the GPU holds its files, a pinned copy, and canvases on the GPU (90 MB for 256 photographs).
_MOST_READ_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Setup:
    """The configuration of a loader.

    Attributes:
        options: The loader's arguments.
        choice: Device, decoder and engine, with every "auto" replaced.
        fetcher: The first stage, which reads samples and draws their parameters.
        variants: For each recipe of the run, its views with their engines.
        num_threads: Count of decoding and augmenting threads of each process that makes batches.
        num_classes: Count of classes, if labels are mixed; None if it is not needed.
        helpers: How many helper processes make the batches, with the reason.
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
        """The views of the first recipe."""
        return self.variants[0]

    @property
    def steps_read_ahead(self) -> int:
        """Count of steps that threads read and plan ahead of a decoding GPU; a step takes a thread about 10 ms."""
        prefetch = self.options.execution.prefetch
        if prefetch != "auto":
            return prefetch
        return max(2, min(_MOST_READ_AHEAD, self.num_threads // 2))

    @property
    def threads_of_all(self) -> int:
        """Count of decoding and augmenting threads of all Ray workers; without Ray workers, of this machine."""
        if (workers := self.options.workers) is not None:
            return workers.count * workers.num_threads
        return self.num_threads * max(1, self.helpers.count)

    def steps(self, process: Process) -> AnySteps:
        """Return the steps of an epoch for a process.

        Raises:
            LoaderError: The epoch has no steps.
        """
        options, fetcher = self.options, self.fetcher
        if isinstance(fetcher, StreamFetcher):
            # Not a dictionary, because there are no buckets.
            batch_size = cast(int, options.batch_size)
            return stream_steps(
                fetcher.stream_order.stream,
                batch_size,
                options.last_batch,
                fetcher.variants,
                process,
            )
        return make_steps(
            fetcher.order,
            fetcher.variants,
            options.batch_size,
            options.last_batch,
            fetcher.seed,
            process,
        )


def make_setup(options: Options) -> Setup:
    """Check the arguments of a loader and make its parts.

    Raises:
        LoaderError: An argument is invalid.
        MissingPackageError: The decoder is not installed.
        gpu_aug.RecipeError: The recipe's images can have different sizes.
        gpu_aug.EngineError: The engine cannot run the recipe exactly.
    """
    options.check()
    sizes = options.buckets if options.sizes is None else options.sizes
    variants = make_variants(options.recipe, sizes)
    clips = find_clips(options.dataset)
    images = options.images.image_fields()
    require_fits_samples(options, images, variants, clips)
    require_fits(variants, images.kind, options.dtype)
    choice = choose(options.device, options.decoder, options.engine, images, clips)
    is_clips = clips is not None
    kinds = frozenset() if is_clips else options.images.target_kinds()
    require_boxes(variants.recipes, options.dataset, kinds, is_clips=is_clips)
    variants = with_flip_pairs(variants, options.dataset, kinds)
    fetcher = _make_fetcher(options, images, variants, kinds)
    # Called here because its stacklevel counts the calls from the user's line to this one.
    num_classes = find_num_classes([views.recipes[0] for views in variants.views], options.dataset)
    views = make_views(options, fetcher, choice.engine, choice.device)
    num_threads = options.num_threads or cores_of_rank()
    helpers = HelperChoice(0, "")
    if options.workers is None:
        asked = options.execution.helper_process
        helpers = choose_helpers(asked, num_threads, choice, fetcher, views)
    num_threads = max(1, num_threads // max(1, helpers.count))
    return Setup(options, choice, fetcher, views, num_threads, num_classes, helpers)


def make_views(
    options: Options, fetcher: Fetcher, engine: EngineName, device: torch.device
) -> tuple[tuple[View, ...], ...]:
    """Return for each recipe of the run its views, compiled for a device."""
    execution, images = options.execution, fetcher.images
    memory_format = torch.channels_last if execution.channels_last else torch.contiguous_format
    columns = range(fetcher.images_per_row)
    return tuple(
        tuple(
            View(
                recipe,
                compile_engine(
                    engine, recipe, device=device, exact=execution.exact, kind=images.kind
                ),
                options.dtype,
                memory_format,
                device,
                shown,
                images.kind,
            )
            for recipe, shown in zip(
                views.recipes, columns_of_views(views, fetcher.clips, columns), strict=True
            )
        )
        for views in fetcher.variants.views
    )


def _make_fetcher(
    options: Options, images: ImageFields, variants: Variants, kinds: frozenset[str]
) -> Fetcher:
    """Return the fetcher, which knows the order of the samples and reads their fields, targets and maps."""
    dataset = options.dataset
    given = with_robot_fields(options.fields, dataset)
    fields = as_reader(given, getattr(dataset, "field_types", None))
    maps = options.images.map_reader()
    clips = find_clips(dataset)
    if clips is not None:
        depths = clips.depths.items()
        maps = MapReader(tuple((name, DepthFrames(one.stop - one.start)) for name, one in depths))
    for views in variants.views if maps else ():
        check_maps(views.recipes[0], vectors=bool(maps.vectors))
    _require_different_names(images, fields, maps)
    require_there(dataset, fields, images, maps)
    seed = int(options.seed)  # JSON has no NumPy integers
    order = find_order(dataset, seed, options.shuffle)
    is_stream = isinstance(order, StreamOrder)
    if is_stream and variants.sizes is not None:
        raise LoaderError(
            "buckets= and sizes= need samples that can be read at random, and this is a stream: leave them out, or make "
            "shards with gpu-aug pack"
        )
    if options.buckets is not None:
        field = images.fields[0][1] if images.fields else None
        order = order_in_buckets(
            dataset, order, options.buckets, seed=seed, shuffle=options.shuffle, field=field
        )
    return (StreamFetcher if is_stream else Fetcher)(
        dataset,
        variants,
        order,
        seed,
        options.on_bad_sample,
        options.images.max_pixels,
        TargetReader(variants.first, kinds, maps),
        Recorder(),
        fields,
        images,
        FrameCache(options.execution.frame_cache_bytes),
    )


def _require_different_names(images: ImageFields, fields: FieldReader, maps: MapReader) -> None:
    """Raise if two entries of a batch would share a name."""
    names = [*images.names, *fields.fields, *(name for name, _ in maps.maps)]
    for name in names:
        if names.count(name) > 1:
            raise LoaderError(
                f"{name!r} is twice among the names of images, fields and maps; give one of them another name"
            )
