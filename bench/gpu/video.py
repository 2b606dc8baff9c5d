"""Step: how fast clips are decoded, and how fast whole training batches of them come."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu.frames import open_feed
from bench.gpu.races import Decoder, decoders, endless
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size, measure_rate
from bench.gpu.videos import KINDS, Kind, pan, write_video
from dali_pipes import Loader
from dali_pipes.video.clips import Clips
from dali_pipes.video.excerpt import make_excerpt
from gpu_aug.presets import video_train
from readers.cores import usable_cores
from readers.video import VideoFolderDataset, VideoInfo

_CLIP, _STRIDE = 16, 4


def video(scale: Scale, data: Path, rows: Rows) -> None:
    """Clips of 16 frames at stride 4: by our feed, by DALI's own reader, and through the loader by each decoder."""
    with tempfile.TemporaryDirectory() as root:
        for name, size, kind in _sources(scale):
            folder = Path(root) / name.replace(" ", "-")
            try:
                num_bytes = write(scale, data, folder, size, kind)
            except Exception as error:  # noqa: BLE001 - an encoder that is missing costs its own source
                rows.leave_out(name, f"{type(error).__name__}: {error}")
                continue
            batches = (("excerpts", excerpts(scale, folder)), ("DALI's reader", read_by_dali(scale, folder)))  # fmt: skip
            for what, taken in batches:
                with rows.measure(f"{what}, {name}", "clips/s", bytes=num_bytes) as row:
                    measure_rate(row, lambda taken=taken: next(taken), scale)  # type: ignore[misc]
            for decoder in decoders():
                with rows.measure(f"loader with {decoder}, {name}", "clips/s") as row:
                    _measure_loader(scale, folder, decoder, row)


def _sources(scale: Scale) -> list[tuple[str, Size, Kind]]:
    if not scale.on_gpu:
        return [("vp9 at 160x96", (96, 160), KINDS["vp9"])]
    h264 = Kind(".mp4", "libx264", options={"preset": "veryfast"})
    hevc = Kind(".mp4", "libx265", options={"preset": "ultrafast", "x265-params": "log-level=none"})
    return [
        ("h264 at 340x256", (256, 340), h264),
        ("h264 at 1280x720", (720, 1280), h264),
        ("hevc at 1280x720", (720, 1280), hevc),
        ("h264 at 1920x1080", (1080, 1920), h264),
        ("vp9 at 1280x720", (720, 1280), KINDS["vp9"]),
    ]


def write(scale: Scale, data: Path, folder: Path, size: Size, kind: Kind) -> int:
    """Write the videos of a source, all alike; return the bytes of one."""
    folder.mkdir()
    first = folder / f"0{kind.ending}"
    write_video(first, pan(data, size, 240 if scale.on_gpu else 72), kind)
    content = first.read_bytes()
    for number in range(1, 16 if scale.on_gpu else 2):
        (folder / f"{number}{kind.ending}").write_bytes(content)
    return len(content)


def excerpts(scale: Scale, folder: Path) -> Iterator[Any]:
    """Batches of random clips through our feed; making the excerpts is timed, too."""
    feed = open_feed(scale, min(scale.batch_size, 32))
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    info = Clips(VideoFolderDataset(folder), num_frames=_CLIP, stride=_STRIDE).info(0)
    assert isinstance(info, VideoInfo)
    rng, steps = np.random.default_rng(0), np.arange(_CLIP) * _STRIDE
    while True:
        while len(feed) < feed.options.depth:
            starts = rng.integers(0, len(info) - steps[-1], feed.options.batch_size)
            cut = [
                make_excerpt(files[n % len(files)], info, start + steps, feed.options.backend)
                for n, start in enumerate(starts)
            ]
            if missing := cut.count(None):
                raise RuntimeError(f"{missing} of these clips are left to the CPU")
            feed.push([one for one in cut if one is not None])
        if feed.take() is None:
            raise RuntimeError(feed.refusal[-300:])
        yield range(feed.options.batch_size)


def read_by_dali(scale: Scale, folder: Path) -> Iterator[Any]:
    """The same clips as DALI's users read them: random starts, one stride."""
    from nvidia.dali import Pipeline, fn

    count = min(scale.batch_size, 32)
    reader = fn.readers.video if scale.on_gpu else fn.experimental.readers.video
    pipeline = Pipeline(count, usable_cores(), scale.device.index)
    with pipeline:
        clips = reader(
            device="gpu" if scale.on_gpu else "cpu",
            filenames=[str(path) for path in sorted(folder.iterdir())],
            sequence_length=_CLIP,
            stride=_STRIDE,
            step=1,
            random_shuffle=True,
            initial_fill=64,
        )
        pipeline.set_outputs(clips)
    pipeline.build()
    while True:
        pipeline.run()
        yield range(count)


def _measure_loader(scale: Scale, folder: Path, decoder: Decoder, row: Row) -> None:
    side = scale.side
    recipe = video_train(side, shorter=(side * 8 // 7, side * 10 // 7))
    options: dict[str, Any] = {"batch_size": min(scale.batch_size, 32), "engine": "fused"}
    options |= {"decoder": decoder, "device": scale.device, "dtype": torch.bfloat16}
    clips = Clips(VideoFolderDataset(folder), num_frames=_CLIP, stride=_STRIDE, clips_per_video=64)
    with Loader(clips, recipe, **options) as loader:
        batches = endless(loader)
        measure_rate(row, lambda: next(batches).images, scale)
