"""Steps: are the frames of clips right on NVDEC, and how fast are they and whole training batches of them?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from bench.gpu.our_loader import Decoder, decoders, endless
from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale, Size, measure_rate
from bench.gpu.videos import KINDS, Kind, pan, write_video
from dali_pipes import Loader
from dali_pipes.video.clips import Clips
from dali_pipes.video.dali.canvases import render_canvases
from dali_pipes.video.dali.excerpt import Excerpt, make_excerpt
from dali_pipes.video.dali.feed import ClipFeed, ClipFeedOptions
from dali_pipes.video.decode import decode_frames
from gpu_aug import Crops
from gpu_aug.presets import video_train
from readers.cores import usable_cores
from readers.video import VideoFolderDataset, VideoInfo, scan_video

_FRAMES = np.array([41, 5, 5, 17, 30, 31, 44, 0])
_NUM_FRAMES = 48  # of each video
_LEFT = "left to the CPU"
_CLIP, _STRIDE = 16, 4


def frames(scale: Scale, data: Path, rows: Rows) -> None:
    """Of every kind of video: are the frames of an excerpt FFmpeg's? What DALI makes of the whole file is stated."""
    pictures = pan(data, (192, 256), _NUM_FRAMES)
    feed = open_feed(scale, 1)
    for name, kind in KINDS.items():
        with rows.check(name) as row, tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"video{kind.ending}"
            write_video(path, pictures, kind)
            compare(path.read_bytes(), feed, row)


def open_feed(scale: Scale, batch_size: int) -> ClipFeed:
    """DALI's decoder of clips, as our loader uses it."""
    return ClipFeed(
        ClipFeedOptions(
            batch_size=batch_size,
            backend="mixed" if scale.on_gpu else "cpu",
            device_id=scale.device.index,
            num_threads=usable_cores(),
            depth=2,
        )
    )


def compare(encoded: bytes, feed: ClipFeed, row: Row) -> None:
    """Fill in a row: how many of the frames are nearer to another frame of FFmpeg's than to their own.

    Raises:
        AssertionError: DALI gives other frames, or refuses an excerpt that was made for it.
    """
    info = scan_video(encoded)
    expected = decode_frames(encoded, info, np.arange(len(info)))
    every = torch.from_numpy(np.stack([expected[frame] for frame in range(len(info))]))
    wanted, picks = np.unique(_FRAMES, return_inverse=True)
    # The file as it is, with frames by their numbers: what DALI makes of it without our help.
    file = Excerpt(np.frombuffer(encoded, np.uint8), wanted.astype(np.int32), picks, info)
    whole = decode(feed, file)
    row.facts["whole file"] = whole if isinstance(whole, str) else f"others: {wrong_frames(whole, every, row)}"  # fmt: skip
    excerpt = make_excerpt(encoded, info, _FRAMES, feed.options.backend)
    row.facts["excerpt"] = _LEFT if excerpt is None else "decoded by DALI"
    if excerpt is None:
        return
    found = decode(feed, excerpt)
    assert not isinstance(found, str), found
    late = wrong_frames(found.roll(1, 0), every, row)
    row.facts["others"] = wrong = wrong_frames(found, every, row)
    row.judge(len(wrong), 0, control=len(late))


def decode(feed: ClipFeed, excerpt: Excerpt) -> torch.Tensor | str:
    """Frames as the loader gets them, uint8 [T, height, width, 3], upright; or what DALI said."""
    decoded = feed.take_single(excerpt)
    if decoded is None:
        return f"refused: {feed.refusal[-300:]}"
    size = np.array([[excerpt.info.height, excerpt.info.width]], np.int32)
    zero = np.zeros((1, 2), np.int32)
    crops = Crops(zero, size, size, zero, size)
    canvases = render_canvases(from_dlpack(decoded), excerpt.info, crops, 0)
    return canvases.cpu()[torch.from_numpy(excerpt.picks)]


def wrong_frames(decoded: torch.Tensor, every: torch.Tensor, row: Row) -> dict[int, int]:
    """For each frame that is nearer to another one than to its own: its number, and the other one's."""
    gaps = torch.stack([(every.float() - picture.float()).abs().mean((1, 2, 3)) for picture in decoded])  # fmt: skip
    own = gaps[torch.arange(len(gaps)), torch.from_numpy(_FRAMES)]
    row.facts["mean difference"] = round(float(own.mean()), 2)
    pairs = zip(_FRAMES.tolist(), gaps.argmin(dim=1).tolist(), strict=True)
    return {frame: near for frame, near in pairs if frame != near}


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
