"""Decoding alone: what no pipeline that decodes whole images can exceed."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

import torch

from bench.contestant import Footing, Kind, Share
from bench.dali_baseline import decoding_pipeline
from bench.timer import time_slice
from dali_pipes import available_decoders, cpu
from readers import Sample, read_header

_NUM_AHEAD = 2
_CHUNK = 4  # images per task
_TRIAL_SECONDS = 0.5


class DecodeOnly:
    """Every image decoded whole by the fastest of our decoders, and then forgotten."""

    name = "decode-only"
    kind: Kind = "ceiling"
    num_ahead = _NUM_AHEAD
    num_discard = _NUM_AHEAD + 1

    def __init__(self, footing: Footing) -> None:
        self.note = ""
        self._footing = footing
        self._decoder: _Decoder | None = None

    def open(self) -> None:
        """Try every decoder for a moment and keep the fastest."""
        fastest: _Decoder = _Threads(self._footing)
        best = _trial(fastest)
        if not available_decoders()["dali"]:
            other: _Decoder = _Dali(self._footing)
            # DALI knows fewer formats; a refusal is a RuntimeError and leaves the threads.
            with suppress(RuntimeError):
                if _trial(other) > best:
                    fastest, other = other, fastest
            other.close()
        self.note = (
            f"whole images with {fastest.name}, no resizing; a decoder that cuts can be faster"
        )
        self._decoder = fastest

    def next_batch(self) -> torch.Tensor:
        """Decode a batch; what is returned has its length and no pixels."""
        if self._decoder is None:
            raise RuntimeError(f"{self.name} is not open")
        return torch.empty(len(self._decoder.decode_batch()), 0)

    def share(self) -> Share:
        """Nothing but reading and decoding, which are not told apart."""
        return {"read": None, "decode": 1.0, "augment": 0.0, "copy": 0.0}

    def close(self) -> None:
        """Stop the threads."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None


def _trial(decoder: "_Decoder") -> float:
    turn = time_slice(
        decoder.decode_batch,
        seconds=_TRIAL_SECONDS,
        discard=DecodeOnly.num_discard,
        finish=_synchronise,
    )
    return turn.images_per_second


class _Decoder(Protocol):
    name: str

    def decode_batch(self) -> Sequence[object]:
        """Decode a batch; the length of the answer is its number of images."""

    def close(self) -> None:
        """Stop the threads."""


class _Threads:
    """The decoder of the path without DALI, on threads."""

    name = "OpenCV or Pillow on threads"

    def __init__(self, footing: Footing) -> None:
        self._footing = footing
        self._pool = ThreadPoolExecutor(footing.num_threads)
        self._under_way: deque[list[Future[None]]] = deque()
        self._starts: Iterator[int] = count(0, footing.batch_size)
        for _ in range(_NUM_AHEAD):
            self._submit()

    def decode_batch(self) -> Sequence[object]:
        """Wait for the oldest batch, and begin another one."""
        self._submit()
        for future in self._under_way.popleft():
            future.result()
        return range(self._footing.batch_size)

    def close(self) -> None:
        """Drop what is under way."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        start, size = next(self._starts), self._footing.batch_size
        chunks = [
            range(start + at, start + min(at + _CHUNK, size)) for at in range(0, size, _CHUNK)
        ]
        self._under_way.append([self._pool.submit(self._decode, chunk) for chunk in chunks])

    def _decode(self, indices: range) -> None:
        dataset = self._footing.dataset
        for sample in dataset.fetch([index % len(dataset) for index in indices]):
            if isinstance(sample, Sample) and sample.image is not None:
                header = read_header(sample.image)
                cpu.decode(sample.image, (header.height, header.width))


class _Dali:
    """A DALI pipeline that reads and decodes; on a GPU, "mixed"."""

    def __init__(self, footing: Footing) -> None:
        self.name = "DALI mixed" if footing.device.type == "cuda" else "DALI on the CPU"
        self._batch = range(footing.batch_size)
        self._pipeline: Any = decoding_pipeline(footing)

    def decode_batch(self) -> Sequence[object]:
        """Let the pipeline hand over a batch."""
        self._pipeline.run()
        return self._batch

    def close(self) -> None:
        """Let the pipeline go."""
        self._pipeline = None


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
