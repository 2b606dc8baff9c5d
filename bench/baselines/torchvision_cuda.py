"""torchvision on the GPU with nvJPEG: `decode_jpeg` of a list, then transforms.v2."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from bench.baselines.translations import torchvision_transforms
from bench.compare.contestant import Footing, Kind, Share, Unable, share_of
from gpu_aug import Recipe
from readers import read_header

NAME = "torchvision-cuda"
_NUM_AHEAD = 2  # batches whose files are being read


class TorchvisionCuda:
    """Threads read files; the loop's thread decodes, augments and hands over.

    What draws is called for every image, as a call for a batch would draw once for all of it; the type and
    normalising follow on the batch. Other devices than a GPU are for tests: see `on_cuda`.

    Raises:
        Unable: A file is no JPEG, or the recipe has an operation that is not in the presets.
    """

    kind: Kind = "baseline"
    name = NAME
    note = (
        "files read by threads, torchvision.io.decode_jpeg(list) in the loop's thread; crop, flip and jitter by "
        "transforms.v2 image by image, the rest on the batch"
    )
    num_ahead = _NUM_AHEAD
    num_discard = _NUM_AHEAD + 1

    def __init__(self, footing: Footing) -> None:
        for path in footing.files:
            if read_header(path.read_bytes()).format != "jpeg":
                raise Unable(f"decodes JPEGs only, and {path.name} is none")
        self._footing = footing
        self._each, self._all = _split(footing.recipe)
        self._pool: ThreadPoolExecutor | None = None
        self._picks: Iterator[int] = iter(())
        self._reading: deque[list[Future[torch.Tensor]]] = deque()

    def open(self) -> None:
        """Start the threads."""
        self._pool = ThreadPoolExecutor(self._footing.num_threads)
        self._picks = _shuffled(len(self._footing.files), self._footing.seed)
        for _ in range(_NUM_AHEAD):
            self._read()

    def next_batch(self) -> torch.Tensor:
        """Decode and augment a batch that has been read."""
        from torchvision.io import ImageReadMode, decode_jpeg

        self._read()
        encoded = [read.result() for read in self._reading.popleft()]
        images = decode_jpeg(encoded, mode=ImageReadMode.RGB, device=self._footing.device)
        batch: torch.Tensor = self._all(torch.stack([self._each(image) for image in images]))
        return batch.to(self._footing.dtype)

    def share(self) -> Share:
        """Not known: the GPU works behind the loop's back."""
        return share_of({})

    def close(self) -> None:
        """Stop the threads."""
        self._reading.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _read(self) -> None:
        if self._pool is None:
            raise RuntimeError(f"{self.name} is not open")
        from torchvision.io import read_file

        files = self._footing.files
        picks = [files[next(self._picks)] for _ in range(self._footing.batch_size)]
        self._reading.append([self._pool.submit(_call, read_file, path) for path in picks])


def on_cuda(footing: Footing) -> TorchvisionCuda:
    """The pipeline where the batches have to arrive on a GPU.

    Raises:
        Unable: They have not.
    """
    if footing.device.type != "cuda":
        raise Unable(f"decodes on a CUDA device, and the batches are for {footing.device.type}")
    return TorchvisionCuda(footing)


def _call(read: Any, path: Path) -> torch.Tensor:
    encoded: torch.Tensor = read(str(path))
    return encoded


def _split(recipe: Recipe) -> tuple[Any, Any]:
    """Split into transforms per image and transforms per batch, which begin at the change of dtype."""
    from torchvision.transforms import v2

    steps = torchvision_transforms(recipe, before_float=[])
    first = next(number for number, step in enumerate(steps) if isinstance(step, v2.ToDtype))
    each = v2.Compose(steps[:first]) if first else v2.Identity()
    return each, v2.Compose(steps[first:])


def _shuffled(count: int, seed: int) -> Iterator[int]:
    """Places in [0, count), all of them in every epoch, without an end."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).tolist()
