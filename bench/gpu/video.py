"""Step: how fast clips become training batches, and how busy NVDEC is with them."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.gpu.our_loader import Decoder, decoders, endless
from bench.gpu.rows import Rows
from bench.gpu.scale import Scale, Size, measure_rate
from bench.video.making import make_videos
from dali_pipes import Loader
from dali_pipes.video.clips import Clips
from gpu_aug.presets import video_train
from readers.video import VideoFolderDataset

_SIZES: tuple[Size, ...] = ((256, 340), (720, 1280), (1080, 1920))


def video(scale: Scale, _data: Path, rows: Rows) -> None:
    """Clips of 16 frames at stride 4 through the loader by each decoder."""
    for size in _SIZES if scale.on_gpu else _SIZES[:1]:
        with TemporaryDirectory() as root:
            folder = write(Path(root), size, scale)
            for decoder in decoders():
                title = f"{decoder}, h264 at {size[1]}x{size[0]}"
                with rows.measure(title, "clips/s") as row, loader_for_clips(scale, folder, decoder) as loader:  # fmt: skip
                    batches = endless(loader)
                    measure_rate(row, lambda batches=batches: next(batches).images, scale)  # type: ignore[misc]


def write(folder: Path, size: Size, scale: Scale) -> Path:
    """Write videos into a folder and return it."""
    count, seconds = (8, 4.0) if scale.on_gpu else (2, 3.0)
    make_videos(folder, size=size, count=count, seconds=seconds)
    return folder


def loader_for_clips(scale: Scale, folder: Path, decoder: Decoder) -> Loader:
    """Our loader of clips, as people train with it."""
    side = scale.side
    recipe = video_train(side, shorter=(side * 8 // 7, side * 10 // 7))
    options: dict[str, Any] = {"batch_size": min(scale.batch_size, 32), "engine": "fused"}
    options |= {"decoder": decoder, "device": scale.device, "dtype": torch.bfloat16}
    clips = Clips(VideoFolderDataset(folder), num_frames=16, stride=4, clips_per_video=64)
    return Loader(clips, recipe, **options)


def until(seconds: float) -> Iterator[None]:
    """Go on, once at least, until so much time is over."""
    last = time.perf_counter() + seconds
    yield
    while time.perf_counter() < last:
        yield
