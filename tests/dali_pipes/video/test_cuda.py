"""Clips on a GPU: the samples, frames and verdicts of the CPU, and pixels within the decoders' tolerance."""

from pathlib import Path
from typing import Any

import pytest
import torch

from dali_pipes import Execution, Loader
from dali_pipes.video.clips import Clips
from gpu_aug import CenterCrop, HorizontalFlip, RandomResizedCrop, Recipe, Resize
from gpu_aug.views import Views
from readers.video import VideoFolderDataset
from tests.support.same_batches import images_by_index
from tests.support.videos import write_videos

pytestmark = pytest.mark.needs_cuda
DEVICE = "cuda"
DECODERS = ["cpu", pytest.param("dali", marks=pytest.mark.needs_dali)]
CROPS = Recipe([RandomResizedCrop((80, 96)), HorizontalFlip()])
KINDS: dict[str, dict[str, Any]] = {
    "a.mp4": {"options": {"bf": "3"}},
    "b.mp4": {"codec": "libx265", "options": {"x265-params": "log-level=none"}},
    "c.mp4": {
        "codec": "libx265",
        "pixel_format": "yuv420p10le",
        "options": {"x265-params": "log-level=none"},
    },
    "d.webm": {"codec": "libvpx-vp9"},
    "e.webm": {"codec": "libvpx"},
    "f.mp4": {"codec": "mpeg4"},
    "g.mp4": {"rotation": 90},
    "h.mp4": {"pts": [512 * n + 256 * (n % 3 == 0) for n in range(30)]},
    "i.mp4": {"codec": "libsvtav1"},
    "j.mp4": {"pixel_format": "yuv444p"},
    "k.mkv": {},
    "l.mp4": {"options": {"x264-params": "open-gop=1:keyint=12"}},
    "m.mp4": {"codec": "libx265", "options": {"x265-params": "keyint=12:log-level=none"}},  # open
    "n.mp4": {"pixel_format": "yuvj420p"},
    "o.mp4": {"codec": "libsvtav1", "pixel_format": "yuv420p10le"},
    "p.webm": {"codec": "libvpx-vp9", "options": {"auto-alt-ref": "1", "lag-in-frames": "16"}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of every kind that ordinary datasets have."""
    return write_videos(tmp_path_factory.mktemp("kinds"), KINDS, 30, (160, 192))


def load(root: Path, device: str = DEVICE, **options: Any) -> Loader:
    usual = {"batch_size": 3, "dtype": torch.float32, "shuffle": "none", "last_batch": "partial"}
    clips = Clips(VideoFolderDataset(root), num_frames=5, stride=3)
    return Loader(clips, options.pop("recipe", CROPS), device=device, **{**usual, **options})


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Within what chroma costs that one decoder smooths and the other does not."""
    assert (actual - expected).abs().mean() * 255 < 4


@pytest.mark.parametrize("decoder", DECODERS)
def test_clips_are_the_cpus(folder: Path, decoder: str) -> None:
    """On the GPU every clip has the frames it has on the CPU, which its neighbouring frames are not."""
    expected = images_by_index(load(folder, "cpu", decoder="cpu"))
    actual = images_by_index(load(folder, decoder=decoder))

    assert actual.keys() == expected.keys() == set(range(len(KINDS)))
    for index, clip in actual.items():
        assert_close(clip, expected[index])
        with pytest.raises(AssertionError):
            assert_close(clip[1:], expected[index][:-1])


def test_pixels_without_dali_are_the_cpus(folder: Path) -> None:
    """Decoded on the CPU and augmented on the GPU, clips differ by rounding alone."""
    expected = images_by_index(load(folder, "cpu", decoder="cpu"))
    actual = images_by_index(load(folder, decoder="cpu"))

    assert max((actual[i] - expected[i]).abs().max() for i in expected) < 1e-5


@pytest.mark.needs_dali
@pytest.mark.parametrize(
    "options", [{"batch_size": 10}, {"execution": Execution(prefetch=1)}], ids=str
)
def test_dali_does_not_depend_on_the_batch(folder: Path, options: dict[str, Any]) -> None:
    """The pixels are the same to the bit however batches are made."""
    expected = images_by_index(load(folder, decoder="dali"))

    for index, clip in images_by_index(load(folder, decoder="dali", **options)).items():
        assert torch.equal(clip, expected[index])


@pytest.mark.parametrize("decoder", DECODERS)
def test_batch_lies_on_the_device(folder: Path, decoder: str) -> None:
    """Clips of every view are on the GPU, in the layout that was asked for."""
    views = Views([CROPS, Recipe([Resize(64), CenterCrop(64)])])
    batch = next(iter(load(folder, decoder=decoder, recipe=views, dtype=torch.bfloat16)))

    assert [view.shape for view in batch.views] == [(3, 5, 3, 80, 96), (3, 5, 3, 64, 64)]
    assert all(view.device.type == DEVICE for view in batch.views)
    flat = batch.images.flatten(0, 1)
    assert flat.is_contiguous(memory_format=torch.channels_last)


def test_helper_process_feeds_the_gpu(folder: Path) -> None:
    """Canvases that a helper process drew give the batches that threads give."""
    expected = images_by_index(load(folder, decoder="cpu"))
    with load(folder, decoder="cpu", execution=Execution(helper_process=True)) as loader:
        actual = images_by_index(list(loader))

    assert all(torch.equal(clip, expected[index]) for index, clip in actual.items())


@pytest.mark.needs_dali
def test_many_batches_stay_aligned(folder: Path) -> None:
    """After many batches every row is still the clip that it claims to be."""
    options: dict[str, Any] = {"shuffle": "global", "batch_size": 4}
    loaders = [
        load(folder, decoder="dali", **options),
        load(folder, "cpu", decoder="cpu", **options),
    ]
    for _ in range(6):
        for batch, expected in zip(*loaders, strict=True):
            assert torch.equal(batch.indices, expected.indices)
            assert torch.equal(batch.frames, expected.frames)
            assert_close(batch.images.cpu(), expected.images)
