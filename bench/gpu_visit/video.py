"""Steps: are the frames of clips right on NVDEC, how fast are they decoded, and how fast is the loader?"""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from bench.compare.usage import Busy
from bench.gpu_visit.loop import decoders, endless
from bench.gpu_visit.scale import Notes, Scale, rate
from bench.gpu_visit.videos import KINDS, Kind, pan, write_video
from bench.machine import num_cores
from dali_pipes import Loader
from dali_pipes.video.canvases import render_canvases
from dali_pipes.video.clips import Clips
from dali_pipes.video.decode import decode_frames
from dali_pipes.video.excerpt import Excerpt, make_excerpt
from dali_pipes.video.feed import ClipFeed, ClipFeedOptions
from gpu_aug import Windows
from gpu_aug.presets import video_train
from readers.video import VideoFolderDataset, VideoInfo, scan_video

_FRAMES = np.array([41, 5, 5, 17, 30, 31, 44, 0])
_NUM_KIND = 48  # frames of a video of each kind
_CLIP, _STRIDE = 16, 4


def frames(scale: Scale, data: Path, notes: Notes) -> None:
    """Of every kind of video: does DALI give the frames that FFmpeg gives, of excerpts and of whole files?"""
    pictures = pan(data, (192, 256), _NUM_KIND)
    feed = _feed(scale, 1)
    for name, kind in KINDS.items():
        with notes.attempt(name) as row, tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"video{kind.ending}"
            write_video(path, pictures, kind)
            row |= _compare(path.read_bytes(), feed)
            if row["excerpt"] not in ("right", "left to the CPU"):
                raise AssertionError(f"frames of {name}: {row['excerpt']}")
    by_verdict: dict[str, list[str]] = {}
    for name in KINDS:
        row = notes.found[name]
        by_verdict.setdefault(row.get("excerpt") or row["error"], []).append(name)
    right = by_verdict.pop("right", [])
    others = "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items())
    notes.put(headline=f"{len(right)} of {len(KINDS)} kinds right by DALI; {others}")


def _compare(encoded: bytes, feed: ClipFeed) -> dict[str, Any]:
    """Say how far DALI's frames are from FFmpeg's, and whether any other frame is nearer."""
    info = scan_video(encoded)
    expected = decode_frames(encoded, info, np.arange(len(info)))
    everything = torch.from_numpy(np.stack([expected[frame] for frame in range(len(info))]))
    excerpt = make_excerpt(encoded, info, _FRAMES, feed.options.backend)
    found: dict[str, Any] = {"excerpt": "left to the CPU"}
    if excerpt is not None:
        found |= _verdict("excerpt", _decode(feed, excerpt), everything)
    found |= _verdict("whole file", _decode(feed, _whole(encoded, info)), everything)
    return found


def _whole(encoded: bytes, info: VideoInfo) -> Excerpt:
    """The file as it is, with frames by their numbers: what DALI makes of it without our help."""
    wanted, picks = np.unique(_FRAMES, return_inverse=True)
    return Excerpt(np.frombuffer(encoded, np.uint8), wanted.astype(np.int32), picks, info)


def _decode(feed: ClipFeed, excerpt: Excerpt) -> torch.Tensor | str:
    """Frames as the loader gets them, uint8 [T, height, width, 3], upright; or what DALI said."""
    decoded = feed.take_single(excerpt)
    if decoded is None:
        return feed.refusal[-300:]
    size = np.array([[excerpt.info.height, excerpt.info.width]], np.int32)
    zero = np.zeros((1, 2), np.int32)
    windows = Windows(zero, size, size, zero, size)
    canvases = render_canvases(from_dlpack(decoded), excerpt.info, windows, 0)
    return canvases.cpu()[torch.from_numpy(excerpt.picks)]


def _verdict(name: str, decoded: torch.Tensor | str, everything: torch.Tensor) -> dict[str, Any]:
    if isinstance(decoded, str):
        return {name: f"refused: {decoded}"}
    gaps = torch.stack(
        [(everything.float() - picture.float()).abs().mean(dim=(1, 2, 3)) for picture in decoded]
    )
    nearest, own = gaps.argmin(dim=1), gaps[torch.arange(len(gaps)), torch.from_numpy(_FRAMES)]
    wrong = {
        int(frame): int(near)
        for frame, near in zip(_FRAMES.tolist(), nearest.tolist(), strict=True)
        if frame != near
    }
    return {
        name: f"gives others: {wrong}" if wrong else "right",
        f"{name}, difference of 255": round(float(own.mean()), 2),
        f"{name}, difference of neighbours": round(
            float(gaps[:, 1:].median(dim=1).values.min()), 2
        ),
    }


def decode(scale: Scale, data: Path, notes: Notes) -> None:
    """Clips of 16 frames at stride 4, decoded alone: by our feed, and by DALI's own readers."""
    with tempfile.TemporaryDirectory() as root:
        for name, size, kind in _sources(scale):
            folder = Path(root) / name.replace(" ", "-")
            with notes.attempt(f"encoding {name}") as row:
                row["bytes"] = _write(scale, data, folder, size, kind)
            with notes.attempt(f"excerpts of {name}") as row:
                row |= _timed(scale, _excerpts(scale, folder))
            with notes.attempt(f"DALI's reader of {name}") as row:
                row |= _timed(scale, _dalis_reader(scale, folder))
    speeds = {
        name: row.get("images_per_second", row.get("error", ""))
        for name, row in notes.found.items()
        if not name.startswith("encoding")
    }
    notes.put(
        headline="; ".join(f"{name}: {speed} frames/s" for name, speed in speeds.items())[:600]
    )


def _sources(scale: Scale) -> list[tuple[str, tuple[int, int], Kind]]:
    if not scale.on_gpu:
        return [("vp9 at 160x96", (96, 160), KINDS["vp9"])]
    fast = {"preset": "veryfast"}
    h264 = Kind(".mp4", "libx264", options=fast)
    hevc = Kind(".mp4", "libx265", options={"preset": "ultrafast", "x265-params": "log-level=none"})
    return [
        ("h264 at 340x256", (256, 340), h264),
        ("h264 at 1280x720", (720, 1280), h264),
        ("h264 at 1920x1080", (1080, 1920), h264),
        ("hevc at 1280x720", (720, 1280), hevc),
        ("vp9 at 1280x720", (720, 1280), KINDS["vp9"]),
    ]


def _write(scale: Scale, data: Path, folder: Path, size: tuple[int, int], kind: Kind) -> int:
    """Write the videos of a source, all alike; return the bytes of one."""
    folder.mkdir()
    frame_count = 240 if scale.on_gpu else 72
    first = folder / f"0{kind.ending}"
    write_video(first, pan(data, size, frame_count), kind)
    content = first.read_bytes()
    for number in range(1, 16 if scale.on_gpu else 2):
        (folder / f"{number}{kind.ending}").write_bytes(content)
    return len(content)


def _timed(scale: Scale, batches: tuple[Callable[[], Any], int]) -> dict[str, Any]:
    call, count = batches
    with Busy(scale.device) as busy:
        found = rate(call, count * _CLIP, scale)
    return {**found, "clips_per_second": round(found["images_per_second"] / _CLIP, 1), **busy.found}


def _excerpts(scale: Scale, folder: Path) -> tuple[Callable[[], Any], int]:
    """Batches of random clips through our feed; making the excerpts is timed, too."""
    count = min(scale.batch_size, 32)
    feed = _feed(scale, count)
    clips = Clips(VideoFolderDataset(folder), num_frames=_CLIP, stride=_STRIDE)
    files = [path.read_bytes() for path in sorted(folder.iterdir())]
    info = clips.info(0)
    assert isinstance(info, VideoInfo)
    rng = np.random.default_rng(0)

    def push() -> None:
        starts = rng.integers(0, len(info) - (_CLIP - 1) * _STRIDE, count)
        steps = np.arange(_CLIP) * _STRIDE
        cut = partial(_required, info=info, feed=feed)
        feed.push([cut(files[n % len(files)], start + steps) for n, start in enumerate(starts)])

    def call() -> None:
        while len(feed) < feed.options.depth:
            push()
        if feed.take() is None:
            raise RuntimeError(feed.refusal[-300:])

    return call, count


def _required(
    encoded: bytes, wanted: NDArray[np.int64], *, info: VideoInfo, feed: ClipFeed
) -> Excerpt:
    excerpt = make_excerpt(encoded, info, wanted, feed.options.backend)
    if excerpt is None:
        raise RuntimeError("these videos are left to the CPU")
    return excerpt


def _dalis_reader(scale: Scale, folder: Path) -> tuple[Callable[[], Any], int]:
    """The same clips as its users read them: random starts, one stride."""
    from nvidia.dali import Pipeline, fn

    count = min(scale.batch_size, 32)
    reader = fn.readers.video if scale.on_gpu else fn.experimental.readers.video
    paths = [str(path) for path in sorted(folder.iterdir())]
    pipeline = Pipeline(count, num_cores(), scale.device.index)
    with pipeline:
        pipeline.set_outputs(
            reader(
                device="gpu" if scale.on_gpu else "cpu",
                filenames=paths,
                sequence_length=_CLIP,
                stride=_STRIDE,
                step=1,
                random_shuffle=True,
                initial_fill=64,
            )
        )
    pipeline.build()
    return pipeline.run, count


def loader(scale: Scale, data: Path, notes: Notes) -> None:
    """Whole batches of training clips, decoded by DALI and on the CPU."""
    side = scale.side
    recipe = video_train(side, shorter=(side * 8 // 7, side * 10 // 7))
    with tempfile.TemporaryDirectory() as root:
        for name, size, kind in _sources(scale)[:3]:
            folder = Path(root) / name.replace(" ", "-")
            with notes.attempt(f"encoding {name}") as row:
                row["bytes"] = _write(scale, data, folder, size, kind)
            for decoder in decoders():
                with notes.attempt(f"{decoder}, {name}") as row:
                    clips = Clips(
                        VideoFolderDataset(folder),
                        num_frames=_CLIP,
                        stride=_STRIDE,
                        clips_per_video=64,
                    )
                    options: dict[str, Any] = {"batch_size": min(scale.batch_size, 32)}
                    options |= {"engine": "fused", "decoder": decoder, "device": scale.device}
                    options |= {"dtype": torch.bfloat16}
                    with Loader(clips, recipe, **options) as ours:
                        row |= _timed_loader(scale, ours, options["batch_size"])
    speeds = {
        name: row.get("clips_per_second", row.get("error", ""))
        for name, row in notes.found.items()
        if not name.startswith("encoding")
    }
    notes.put(
        headline="; ".join(f"{name}: {speed} clips/s" for name, speed in speeds.items())[:600]
    )


def _timed_loader(scale: Scale, ours: Loader, count: int) -> dict[str, Any]:
    batches: Iterator[Any] = endless(ours)
    found = _timed(scale, (lambda: next(batches).images.mean(dtype=torch.float32), count))
    found["timings"] = {
        stage: round(getattr(ours.timings, stage), 3)
        for stage in ("read", "decode", "augment", "copy", "wait")
    }
    if scale.on_gpu:
        found["MiB of torch at most"] = torch.cuda.max_memory_allocated(scale.device) >> 20
        free, total = torch.cuda.mem_get_info(scale.device)
        found["MiB of the device"] = (total - free) >> 20
    return found


def _feed(scale: Scale, batch_size: int) -> ClipFeed:
    return ClipFeed(
        ClipFeedOptions(
            batch_size=batch_size,
            backend="mixed" if scale.on_gpu else "cpu",
            device_id=scale.device.index,
            num_threads=num_cores(),
            depth=2,
        )
    )
