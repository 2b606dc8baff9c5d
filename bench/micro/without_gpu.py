"""Make loaders that do the host's work for a GPU on a machine without a GPU: pixels and launches are left out."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal
from unittest.mock import patch

import torch

from dali_pipes import Loader
from dali_pipes.arguments.choose import available_decoders, choose
from dali_pipes.decode.cuda_jpeg.on_cpu import NoKernels
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from gpu_aug import Recipe
from readers import Dataset

LEFT_OUT = (
    "DALI decodes and resamples nothing: its pipeline has all inputs and gives black canvases, on the CPU",
    "nothing is copied to a GPU or pinned, no kernel is launched, and nothing waits for events",
    "the threads of DALI and of the driver do not hold the lock",
)
HostDecoder = Literal["cpu", "cuda", "dali"]


def host_decoders() -> list[HostDecoder]:
    """Return the decoders whose host part can run here: GPU decoders need Triton, and "dali" needs DALI."""
    if find_spec("triton") is None:
        return ["cpu"]
    return ["cpu", "cuda"] if available_decoders()["dali"] else ["cpu", "cuda", "dali"]


def host_loader(
    dataset: Dataset, decoder: HostDecoder, *, num_threads: int | None, batch_size: int
) -> Loader:
    """Return a CPU loader with one of the decoders; GPU decoders only work inside a `without_gpu` block."""

    def build() -> Loader:
        return Loader(
            dataset,
            Recipe.imagenet_train_jitter(size=224),
            batch_size=batch_size,
            device="cpu",
            decoder="cpu",
            engine="fused",
            num_threads=num_threads,
            dtype=torch.bfloat16,
        )

    if decoder == "cpu":
        return build()
    from gpu_aug.engines.fused.triton import run

    def choose_decoder(device: Any, _decoder: Any, *rest: Any) -> Any:
        return replace(choose(device, "cpu", *rest), decoder=decoder)

    with (
        patch("dali_pipes.arguments.setup.choose", choose_decoder),
        patch("gpu_aug.engines.fused.cpu.run.run_program", run.run_program),
    ):
        return build()


@contextmanager
def without_gpu() -> Iterator[None]:
    """Launch no kernels inside the block, and let DALI make no pixels."""
    if host_decoders() == ["cpu"]:
        yield
        return
    from gpu_aug.engines.fused.triton import kernels

    graph = "dali_pipes.decode.dali.graph"
    with (
        patch.object(kernels, "run_pass", _NoLaunch()),
        patch.object(kernels, "sum_gray", _NoLaunch()),
        patch.object(torch.cuda, "device_of", lambda _: nullcontext()),
        patch("dali_pipes.decode.cuda_jpeg.on_gpu.gpu_kernels", lambda _: NoKernels()),
        patch("dali_pipes.stages.dali_feeds.Feed", _GpuFeed),
        patch(f"{graph}.decode", _no_pixels),
        patch(f"{graph}.render_canvas", _black),
    ):
        yield


class _NoLaunch:
    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *_, **__: None


class _GpuFeed(Feed):
    """DALI's pipeline of a loader on a GPU, which runs on the CPU here."""

    def __init__(self, options: FeedOptions) -> None:
        super().__init__(replace(options, device="mixed", canvases=True))


def _no_pixels(encoded: Any, _start: Any, _shape: Any, **_options: Any) -> Any:
    """Return a graph node for three bytes of each file as an image of one pixel."""
    from nvidia.dali import fn

    return fn.reshape(fn.slice(encoded, 0, 3, axes=[0]), shape=[1, 1, 3])


def _black(image: Any, *pairs: Any, antialias: bool) -> Any:
    """Return a graph node for a canvas filled with the pixel of `image`; the last of `pairs` is the canvas's size."""
    from nvidia.dali import fn

    del antialias
    *others, canvas = pairs
    return fn.slice(
        image,
        start=[0, 0],
        shape=canvas + 0 * sum(others),
        axes=[0, 1],
        out_of_bounds_policy="pad",
    )
