"""The less common arguments of a Loader, grouped in value objects that check themselves."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dali_pipes.arguments.values import (
    refuse,
    require_integers,
    require_one_of,
    require_positive,
    require_share,
    require_truths,
)
from dali_pipes.errors import LoaderError
from dali_pipes.monitoring.metrics import Metric, as_metrics
from dali_pipes.monitoring.ranks.heartbeat_options import HeartbeatChoice, as_heartbeat
from dali_pipes.samples.image_fields import ImageFields, as_image_fields
from dali_pipes.samples.maps import Flow, MapReader, NumberMap, as_map_reader
from dali_pipes.samples.targets import KINDS, Kind
from dali_pipes.video.frame_cache import FRAME_CACHE_BYTES
from gpu_aug.files.limits import MAX_PIXELS
from gpu_aug.image_kind import Depth

HelperCount = bool | int | Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageOptions:
    """The images of a sample, and its targets and maps: ``Loader(images=ImageOptions(...))``.

    Args:
        fields: The fields of a sample that are its images: one, such as "left.png", or several, as a list or as a
            dictionary from names to fields. All have the same channels, depth and size, and get the same draws. The
            first is `batch.images`, and all are in `batch.fields` by name: ``batch["right"]``. None uses the first
            image of a sample.
        channels: Channels of a stored image: 1 for gray, 3 for RGB, 4 for RGBA, any number for TIFF and NumPy files.
            With 3 channels and a depth of 8, gray images become RGB and alpha is dropped, with a warning; otherwise an
            image with another number of channels is a bad sample. `batch.images` are [B, channels, H, W].
        depth: Bits per channel: 8; 16 for PNG, TIFF, PNM and NumPy files of uint16, and for AVIF, HEIC, JPEG XL and JPEG
            2000 of 9 to 16 bits, which become floats in [0, 1]; "float32" for TIFF, JPEG XL and NumPy files of float16 or
            float32, whose values do not change. With a depth of 8 and 3 channels, images of more bits keep their upper 8,
            with a warning; otherwise an image of another depth is a bad sample. Operations of the recipe that do not support such images raise an error that names them.
        maps: Depth, disparity and optical flow, which move like `batch.images`: a dictionary from names in
            `batch.fields` to `NumberMap` or `Flow`, such as ``{"depth": NumberMap("depth.png", scale=256)}``. A sample
            without the map, or whose map has another size than its image, is a bad sample. Not available for clips.
        targets: Which of "masks", "boxes" and "keypoints" are read from the samples' fields and moved like
            `batch.images`; "auto" reads all that the data has. They are stored as `mask.png` and `json`, in coordinates
            of the upright image. A sample whose targets are damaged, or do not fit its image, is bad. Not available for
            clips.
        max_pixels: Images with more pixels according to their header are bad samples and are not decoded.

    Raises:
        LoaderError: A value is not allowed.

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, images=ImageOptions(fields="jpg", targets=[]))
        >>> loader.peek().images.shape
        torch.Size([8, 3, 64, 64])
    """

    fields: str | Collection[str] | Mapping[str, str] | None = None
    channels: int = 3
    depth: Depth = 8
    maps: Mapping[str, NumberMap | Flow] | None = None
    targets: Literal["auto"] | Collection[Kind] = "auto"
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        require_positive(max_pixels=self.max_pixels)
        self.image_fields()
        self.target_kinds()
        self.map_reader()

    def image_fields(self) -> ImageFields:
        """Return the fields by name, with channels and depth of their images."""
        return as_image_fields(self.fields, self.channels, self.depth)

    def map_reader(self) -> MapReader:
        """Return the reader of the maps."""
        return as_map_reader(self.maps)

    def target_kinds(self) -> frozenset[str]:
        """Return the kinds of targets to read; all of KINDS for "auto"."""
        if self.targets == "auto":
            return frozenset(KINDS)
        is_collection = isinstance(self.targets, Collection) and not isinstance(self.targets, str)
        if not is_collection or not all(kind in KINDS for kind in self.targets):
            names = ", ".join(f'"{kind}"' for kind in KINDS)
            raise LoaderError(
                f'targets={self.targets!r} is not known; allowed are "auto", or some of {names}, such as '
                f'["boxes"], or [] for none'
            )
        return frozenset(self.targets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a loader makes its batches: ``Loader(execution=Execution(...))``.

    Which samples a batch has, their order and their draws do not depend on these arguments.

    Args:
        exact: Whether the fused engine resamples once per warp, as the other engines always do. Otherwise it resamples
            consecutive warps only once.
        decode: "fast" lets the CPU decoder decode JPEGs at half, a quarter or an eighth of their size if the crop is
            shrunk by at least twice that factor; pixels then differ slightly. "exact" decodes at full size, as DALI and
            clips always do.
        hw_decoder_load: With DALI on a GPU, the share of each batch, 0 to 1, that the GPU's JPEG engine decodes; DALI's
            kernels decode the others. With 1.0 the engine gets every file that it supports, with 0.0 none, and pixels
            depend on the file alone. In between (DALI's own default is 0.65) both work at once, which can be faster.
            But then the rows that the kernels get change from batch to batch, and their pixels differ slightly.
        cache: With decoder="cuda", "device" keeps the encoded bytes of JPEGs on the GPU, so that later epochs do not
            upload them again; files are added as long as more GPU memory is free than the cache takes. A file that
            changes is uploaded again. `Loader.close` frees the memory, except for bytes that running loops still read.
        prefetch: Count of batches prepared ahead (with helper processes, by each of them); with DALI up to two more
            are in the other stages. "auto" uses as many as keep all threads busy, at least 2 (1 above 96 MiB
            each), but at most 1 GiB of images and files. A pipeline of `from_dali` uses its own prefetch_queue_depth.
        helper_process: Count of separate processes that read, decode and, on a CPU, augment, with `num_threads`
            threads together; process k % count makes step k. The training process takes finished batches from shared
            memory, so Python code in the training loop does not slow the loader down, and each process has its own GIL.
            False or 0 uses threads of the training process; True starts one process for every 16 cores, at least one.
            "auto" uses threads up to 16 cores, and above that one process for every 16 cores, if the decoder is "cpu",
            images are read by index (no streams or clips) and dataset and recipe can be pickled; `Loader.explain`
            states the choice and its reason. The first loop starts the processes, which takes seconds. Later loops
            reuse them; they end with `close`, with the loader, or with a loop that is left early. They need
            decoder="cpu". Dataset and recipe are pickled, so their classes must be importable, not defined in the
            script itself; all processes share the memory of NumPy arrays in them.
        channels_last: Whether the memory format of the images is channels-last; their shape is [B, 3, H, W] in both
            cases, for clips [B, T, 3, H, W].
        frame_cache_bytes: Largest size in bytes of the decoded frames of videos that each process keeps for windows and
            clips of later batches, at least 0; 640x480 take 460 kB. `Stats.frames` has the hit rate.

    Raises:
        LoaderError: A value is not allowed.

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, execution=Execution(prefetch=4, channels_last=False))
        >>> loader.peek().images.is_contiguous()
        True
    """

    exact: bool = False
    decode: Literal["exact", "fast"] = "exact"
    hw_decoder_load: float = 1.0
    cache: Literal["device"] | None = None
    prefetch: int | Literal["auto"] = "auto"
    helper_process: HelperCount = "auto"
    channels_last: bool = True
    frame_cache_bytes: int = FRAME_CACHE_BYTES

    def __post_init__(self) -> None:
        require_integers(0, frame_cache_bytes=self.frame_cache_bytes)
        require_truths(exact=self.exact, channels_last=self.channels_last)
        require_one_of("decode", self.decode, ("exact", "fast"))
        require_share(hw_decoder_load=self.hw_decoder_load)
        require_one_of("cache", self.cache, (None, "device"))
        require_positive(prefetch=self.fewest_ahead)
        count = self.helper_process
        is_number = isinstance(count, int | np.integer | np.bool_) and count >= 0
        if not is_number and not (isinstance(count, str) and count == "auto"):
            raise LoaderError(
                f'helper_process={count!r} is not allowed; give "auto", True, False, or a number of processes'
            )

    @property
    def fewest_ahead(self) -> int:
        """Count of steps prepared ahead at least: with prefetch="auto", the count may grow during a loop."""
        return 2 if self.prefetch == "auto" else self.prefetch

    @property
    def is_fast(self) -> bool:
        """Whether JPEGs may be decoded at a smaller size."""
        return self.decode == "fast"

    def require_decoder(self, decoder: Any) -> None:
        """Raise if a setting is given that a decoder does not support.

        Raises:
            LoaderError: The decoder does not support it; the message names a decoder that does.
        """
        refuse(
            (
                self.is_fast and decoder not in ("auto", "cpu"),
                'decode="fast" is for decoder="cpu" alone, DALI decodes exactly in any case; leave one of them out',
            ),
            (
                self.hw_decoder_load != 1 and decoder != "dali",
                f'hw_decoder_load={self.hw_decoder_load!r} is for decoder="dali" alone; leave it out, and set that of '
                "a pipeline of your own there",
            ),
            (
                self.cache is not None and decoder != "cuda",
                f'cache="device" keeps on the GPU what decoder="cuda" decodes, and {decoder=}; name that decoder, or '
                "leave cache out",
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Files and reports of a running loader: ``Loader(monitoring=Monitoring(...))``.

    Args:
        heartbeat: Reports of progress between ranks, so that a warning names a late rank and the reason; and a report
            if a loop gets no batch, with a description of its threads. Both are warnings of the logger ``gpu_aug``.
            "auto" uses torch's process group if it has several ranks; a folder that all ranks share needs no group; a
            `Heartbeat` also sets times; None switches this off.
        metrics: A callable that receives the statistics of the epoch every 10 seconds and at the end of the loop; or an
            `Every`, which sets the interval; or an adapter of `dali_pipes.integrations.metrics`; or a list of these.
            They are called in the training thread after a batch. An exception is logged once, as a warning, and does
            not stop the run.
        audit: A file that gets one line of JSON for every step, with hashes of its samples; "{rank}" in its name stands
            for the rank. ``gpu-aug audit`` compares such files of two runs, on any number of ranks. None keeps only the
            latest hashes, in `Loader.audit`.
        ledger: A file that gets one line of JSON for every bad sample, and for every damaged clip that was still used
            (see Clips); "{rank}" in its name stands for the rank. None keeps the records in memory only.

    Raises:
        LoaderError: A value is not allowed.

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> files = Monitoring(audit="audit-{rank}.jsonl", ledger="bad-{rank}.jsonl")
        >>> loader = Loader(photos, recipe, batch_size=8, monitoring=files)
    """

    heartbeat: HeartbeatChoice = "auto"
    metrics: Metric | Sequence[Metric] | None = None
    audit: str | os.PathLike[str] | None = None
    ledger: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        as_heartbeat(self.heartbeat)
        as_metrics(self.metrics)
        # os.path.abspath supports bytes paths, too.
        files = [os.path.abspath(path) for path in (self.audit, self.ledger) if path is not None]  # noqa: PTH100
        if len(set(files)) < len(files):
            raise LoaderError(
                f"audit and ledger are both {os.fspath(self.audit or '')!r}; give each a file of its own"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockShuffle:
    """``shuffle="block"`` with a different window: ``Loader(shuffle=BlockShuffle(window=1024))``.

    Args:
        window: Count of samples in all open blocks together; "block" alone uses 4096, or 16 blocks if that is more.
            For a stream: size of the shuffle buffer in samples; "block" alone uses 4096.

    Raises:
        LoaderError: The window is not an integer of 1 or more.

    Example:
        >>> photos, recipe = open_dataset("photos/"), Recipe.imagenet_train(size=64)
        >>> loader = Loader(photos, recipe, batch_size=8, shuffle=BlockShuffle(window=16))
    """

    window: int

    def __post_init__(self) -> None:
        require_positive(window=self.window)
