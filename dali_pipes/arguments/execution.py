"""Execution: how a loader makes its batches, which changes no sample, no order and no draw."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dali_pipes.arguments.values import (
    require_one_of,
    require_positive,
    require_share,
    require_truths,
)
from dali_pipes.errors import LoaderError

HelperCount = bool | int | Literal["auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a loader makes its batches: ``Loader(execution=Execution(...))``. Samples, order and draws do not depend on it.

    Args:
        exact: Whether the fused engine resamples consecutive warps one by one, as the other engines always do,
            instead of once.
        decode: "fast" lets the CPU decoder decode JPEGs at half, a quarter or an eighth of their size if the
            crop is shrunk by at least twice as much; pixels then differ slightly. "exact" decodes at full size,
            as DALI and clips always do.
        hw_decoder_load: With DALI on a GPU, the share of each batch, 0 to 1, that the GPU's JPEG engine decodes; its
            kernels decode the others. With 1.0 the engine gets every file that it supports, with 0.0 none, and pixels
            depend on the file alone. In between (DALI's own default is 0.65) both work at once, which can be faster,
            but the rows that the kernels get change from batch to batch, and their pixels differ slightly.
        cache: With decoder="cuda", "device" leaves the encoded bytes of JPEGs on the GPU, so that later epochs do not
            upload them again: as long as more GPU memory is free than they take. A file that changes is uploaded anew.
            `Loader.close` frees the memory, except for what other running loops still read.
        prefetch: Batches prepared ahead, by each helper process if there are any; with DALI up to two more are in
            the other stages. "auto" is as many as keep all threads at work, at least 2, but at most 1 GiB of images and
            files. A pipeline of `from_dali` uses its own prefetch_queue_depth.
        helper_process: How many separate processes read, decode and, on a CPU, augment, with `num_threads` threads
            together; process k modulo their number makes step k. The training process takes finished batches from
            shared memory, so Python code of the training loop does not slow the loader down, and the threads of each
            process have an interpreter of their own. False or 0 uses threads of the training process; True starts one
            process for every 16 cores, at least one. "auto" uses threads up to 16 cores, and above that one process for
            every 16, if the decoder is "cpu", images are read at random (no streams or clips) and dataset and recipe
            can be pickled; `Loader.explain` says which and why. The first loop starts the processes, which takes
            seconds; later loops reuse them, and they end with `close`, with the loader, or with a loop
            that is left early. They need decoder="cpu". Dataset and recipe are pickled, so their classes must be
            importable, not defined in the script itself; all processes share the memory of NumPy arrays in them.
        channels_last: The memory format of the images; their shape is [B, 3, H, W] either way, for clips
            [B, T, 3, H, W].

    Raises:
        LoaderError: A value that is not allowed.

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

    def __post_init__(self) -> None:
        require_truths(exact=self.exact, channels_last=self.channels_last)
        require_one_of("decode", self.decode, ("exact", "fast"))
        require_share(hw_decoder_load=self.hw_decoder_load)
        require_one_of("cache", self.cache, (None, "device"))
        require_positive(prefetch=self.fewest_ahead)
        _require_helper_process(self.helper_process)

    @property
    def fewest_ahead(self) -> int:
        """Steps prepared ahead where that number cannot change while a loop runs."""
        return 2 if self.prefetch == "auto" else self.prefetch

    @property
    def is_fast(self) -> bool:
        """Whether JPEGs may be decoded at a smaller size."""
        return self.decode == "fast"

    def require_decoder(self, decoder: Any) -> None:
        """Refuse settings that a decoder does not have.

        Raises:
            LoaderError: The text says which decoder has them.
        """
        if self.is_fast and decoder not in ("auto", "cpu"):
            raise LoaderError(
                'decode="fast" is for decoder="cpu" alone, DALI decodes exactly in any case; leave one of them out'
            )
        if self.hw_decoder_load != 1 and decoder != "dali":
            raise LoaderError(
                f'hw_decoder_load={self.hw_decoder_load!r} is for decoder="dali" alone; leave it out, and set that of '
                "a pipeline of your own there"
            )
        if self.cache is not None and decoder != "cuda":
            raise LoaderError(
                f'cache="device" keeps on the GPU what decoder="cuda" decodes, and {decoder=}; name that decoder, or '
                "leave cache out"
            )


def _require_helper_process(value: Any) -> None:
    is_number = isinstance(value, int | np.integer | np.bool_) and value >= 0
    if not is_number and not (isinstance(value, str) and value == "auto"):
        raise LoaderError(
            f'helper_process={value!r} is not allowed; give "auto", True, False, or a number of processes'
        )
