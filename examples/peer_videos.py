"""The pipeline of train_video.py as it is written with torchcodec (or PyAV) and torchvision, for comparison."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peer_images import loader_of
from torch.utils.data import DataLoader, Dataset


def torchvision_videos(
    folders: Sequence[Path],
    recipe: tuple[int, int],
    side: int,
    batch_size: int,
    seed: int,
) -> list[DataLoader[Any]]:
    """Return torchvision's loaders of clips; `recipe` is how many frames, and every how manieth."""
    from torchvision.transforms import v2

    last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize((0.45,) * 3, (0.225,) * 3)]
    crop = v2.RandomResizedCrop(side, scale=(0.6, 1.0))
    steps = v2.Compose([crop, v2.ColorJitter(0.2, 0.2, 0.2), *last])
    train = VideoFolder(folders[0], recipe, steps, is_training=True)
    whole = v2.Compose([v2.Resize((side, side)), *last])
    test = VideoFolder(folders[1], recipe, whole, is_training=False)
    return [loader_of(train, batch_size, seed), loader_of(test, 60, seed, is_training=False)]


class VideoFolder(Dataset[Any]):
    """A clip of each video in class folders, decoded by torchcodec, or by PyAV where that finds no FFmpeg."""

    def __init__(
        self, folder: Path, recipe: tuple[int, int], transform: Any, *, is_training: bool
    ) -> None:
        self.paths = sorted(folder.glob("*/*.mp4"))
        self.classes = sorted({path.parent.name for path in self.paths})
        (self.num_frames, self.stride), self.transform = recipe, transform
        self.is_training = is_training

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index]
        frames = decode(path)
        room = len(frames) - (self.num_frames - 1) * self.stride
        start = int(torch.randint(room, ())) if self.is_training else (room - 1) // 2
        clip = frames[start :: self.stride][: self.num_frames]
        return self.transform(clip), self.classes.index(path.parent.name)


def decode(path: Path) -> torch.Tensor:
    """Return all frames of a video, uint8 [T, 3, H, W]."""
    try:
        from torchcodec.decoders import VideoDecoder

        return VideoDecoder(str(path), num_ffmpeg_threads=1)[:]
    except (ImportError, RuntimeError, OSError):  # no FFmpeg beside it
        import av

        with av.open(str(path)) as container:
            frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)
