"""Step: are the frames of clips right on NVDEC?"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from bench.gpu.rows import Row, Rows
from bench.gpu.scale import Scale
from bench.gpu.videos import KINDS, pan, write_video
from dali_pipes.video.canvases import render_canvases
from dali_pipes.video.decode import decode_frames
from dali_pipes.video.excerpt import Excerpt, make_excerpt
from dali_pipes.video.feed import ClipFeed, ClipFeedOptions
from gpu_aug import Windows
from readers.cores import usable_cores
from readers.video import scan_video

_FRAMES = np.array([41, 5, 5, 17, 30, 31, 44, 0])
_NUM_FRAMES = 48  # of each video
_LEFT = "left to the CPU"


def frames(scale: Scale, data: Path, rows: Rows) -> None:
    """Are the frames of an excerpt FFmpeg's, for every kind of video? What DALI makes of the whole file is stated."""
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
    windows = Windows(zero, size, size, zero, size)
    canvases = render_canvases(from_dlpack(decoded), excerpt.info, windows, 0)
    return canvases.cpu()[torch.from_numpy(excerpt.picks)]


def wrong_frames(decoded: torch.Tensor, every: torch.Tensor, row: Row) -> dict[int, int]:
    """For each frame that is nearer to another one than to its own: its number, and the other one's."""
    gaps = torch.stack([(every.float() - picture.float()).abs().mean((1, 2, 3)) for picture in decoded])  # fmt: skip
    own = gaps[torch.arange(len(gaps)), torch.from_numpy(_FRAMES)]
    row.facts["mean difference"] = round(float(own.mean()), 2)
    pairs = zip(_FRAMES.tolist(), gaps.argmin(dim=1).tolist(), strict=True)
    return {frame: near for frame, near in pairs if frame != near}
