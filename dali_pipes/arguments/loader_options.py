"""The arguments of a loader that affect its batches, and their checks against each other and the samples."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from dali_pipes.arguments.choose import DecoderName
from dali_pipes.arguments.dataset import require_dataset, require_no_videos
from dali_pipes.arguments.options import Execution, ImageOptions
from dali_pipes.arguments.order import ShuffleChoice, require_batch_size, require_sizes
from dali_pipes.arguments.values import (
    refuse,
    require_integers,
    require_one_of,
    require_positive,
)
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.samples.image_fields import ImageFields
from dali_pipes.steps.schedule import LastBatch
from dali_pipes.steps.variants import AnyRecipe, MultiScale, OfCameras, RecipeOf, Variants
from dali_pipes.video.source import ClipSource, camera_groups, require_fits_clips
from gpu_aug.engines.choose import EngineChoice
from readers import Dataset
from readers.order.buckets import Buckets, Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The arguments of a `Loader` that affect its batches; helper processes and Ray workers get a copy."""

    dataset: Dataset  # may also be a Stream, which the checks accept
    recipe: AnyRecipe | OfCameras | RecipeOf
    batch_size: int | Mapping[Size, int]
    buckets: Buckets | None
    sizes: MultiScale | None
    device: str | torch.device
    decoder: DecoderName | DaliDecoder
    engine: EngineChoice
    seed: int
    shuffle: ShuffleChoice
    dtype: torch.dtype
    last_batch: LastBatch
    on_bad_sample: Literal["raise", "replace", "skip"]
    max_bad_samples: int | None
    num_threads: int | None
    fields: Iterable[str] | Mapping[str, Any] | None
    workers: RayWorkers | None
    images: ImageOptions
    execution: Execution

    @property
    def user_pipeline(self) -> DaliDecoder | None:
        """The user's DALI pipeline, if `decoder` is the result of `from_dali`; else None."""
        return self.decoder if isinstance(self.decoder, DaliDecoder) else None

    def bad_sample_limit(self, length: int) -> int:
        """Return how many different samples out of `length` may be bad; see Loader."""
        if self.max_bad_samples is None:
            return min(max(100, length // 100), length // 2)
        return self.max_bad_samples

    def check(self) -> None:
        """Check the arguments as far as possible without the dataset and without this machine's properties.

        Raises:
            LoaderError: An argument is invalid; the message says what is allowed.
        """
        require_sizes(self.buckets, self.sizes)
        require_dataset(self.dataset)
        require_batch_size(self.batch_size, self.buckets)
        require_one_of("last_batch", self.last_batch, ("drop", "partial", "pad"))
        require_one_of("on_bad_sample", self.on_bad_sample, ("raise", "replace", "skip"))
        require_integers(0, seed=self.seed)
        if self.num_threads is not None:
            require_positive(num_threads=self.num_threads)
        if self.max_bad_samples is not None:
            require_integers(0, max_bad_samples=self.max_bad_samples)
        self.execution.require_decoder(self.decoder)
        has_workers = self.workers is not None
        helper_process = self.execution.helper_process
        refuse(
            (
                self.max_bad_samples is not None and self.on_bad_sample == "raise",
                f'max_bad_samples={self.max_bad_samples} is for on_bad_sample="replace" or "skip", and "raise" '
                "ends with the first; leave it out, or choose one of these",
            ),
            (
                has_workers and not isinstance(self.workers, RayWorkers),
                f"workers={self.workers!r} is not allowed; give RayWorkers(count) of "
                "dali_pipes.integrations.ray.workers, or num_threads for threads of this process",
            ),
            (
                has_workers and helper_process not in (False, "auto"),
                f"{helper_process=} and workers= both make the batches outside this process; leave one of them out",
            ),
            (
                has_workers and self.num_threads is not None,
                f"num_threads={self.num_threads} is for threads of this machine, and workers= makes the batches on "
                "others; give RayWorkers(..., num_cpus=...), as many threads each has",
            ),
        )


def require_fits_samples(
    options: Options, images: ImageFields, variants: Variants, clips: ClipSource | None
) -> None:
    """Raise if arguments do not apply to the samples: to clips, or to images that are not RGB of 8 bits.

    Also raise if the samples are videos that are not wrapped in Clips.
    """
    if clips is not None:
        _require_images_of_clips(options, images)
    elif options.images.fields is None:
        require_no_videos(options.dataset)
    for views in variants.views:
        require_fits_clips(views, clips, options.decoder)
    refuse(
        (
            len({camera_groups(views, clips) for views in variants.views}) > 1,
            "the recipes of a run have different groups of cameras, and a batch has one form; give all recipes one order "
            "of the same groups",
        ),
        (
            bool(images.names) and any(len(views.recipes) > 1 for views in variants.views),
            f"images={list(images.names)} is not supported with Views: name each image by its field or by its view. Give "
            "one recipe, or one field",
        ),
        (
            options.execution.is_fast and not images.is_usual,
            f'decode="fast" is for one RGB image of 8 bits, and asked for is {images}; use decode="exact"',
        ),
    )


def _require_images_of_clips(options: Options, images: ImageFields) -> None:
    """Raise if an argument was given that applies to images only, although the samples are clips."""
    targets = options.images.targets
    refuse(
        (
            options.buckets is not None,
            "buckets= is for images, and samples are clips here; choose one size for all clips",
        ),
        (
            targets != "auto" and bool(targets),
            f"targets={targets!r} is not supported for clips: masks, boxes and keypoints belong to one image. Use "
            'targets=[] or "auto", which takes none, and read them by batch.keys',
        ),
        (
            options.execution.is_fast,
            'decode="fast" is not supported for clips: videos cannot be decoded at a smaller size; use decode="exact"',
        ),
        (
            not images.is_usual,
            f"frames of clips are RGB of 8 bits, and asked for is {images}; leave channels, depth and fields out of "
            "ImageOptions",
        ),
        (
            bool(options.images.maps),
            "maps are not supported for clips: a map belongs to one image; leave maps out",
        ),
    )
