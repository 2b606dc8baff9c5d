"""Decoding alone: the upper bound for every pipeline that decodes whole images."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Protocol

import torch

from bench.baselines.dali import decoding_pipeline
from bench.compare.contestant import Footing, Kind, Share
from bench.compare.threads import NUM_AHEAD, ThreadedBatches
from bench.compare.timer import synchronise, time_slice
from dali_pipes import available_decoders
from dali_pipes.decode import opencv
from readers import Sample, read_header
from readers.sample import Payload

_CHUNK = 4  # images per task
_TRIAL_SECONDS = 0.3
_NUM_TRIALS = 3


class DecodeOnly:
    """Every image decoded whole by the fastest library there is, and then forgotten."""

    name = "decode-only"
    kind: Kind = "ceiling"
    num_ahead = NUM_AHEAD
    num_discard = NUM_AHEAD + 1

    def __init__(self, footing: Footing) -> None:
        self.note = ""
        self._footing = footing
        self._decoder: _Decoder | None = None

    def open(self) -> None:
        """Try every decoder for a moment, in turns, and keep the fastest."""
        rates: dict[_Decoder, float] = {}
        for _ in range(_NUM_TRIALS):
            for decoder in rates or _decoders(self._footing):
                # DALI knows fewer formats; a refusal is a RuntimeError and leaves the others.
                with suppress(RuntimeError):
                    rates[decoder] = max(
                        rates.get(decoder, 0.0), _trial(decoder, self._footing.device)
                    )
        self._decoder = max(rates, key=lambda decoder: rates[decoder])
        for decoder in rates:
            if decoder is not self._decoder:
                decoder.close()
        tried = ", ".join(f"{decoder.name} {rate:.0f}" for decoder, rate in rates.items())
        self.note = (
            f"whole images with {self._decoder.name} (images/s when tried: {tried}), no resizing; "
            "a decoder that cuts can be faster"
        )

    def next_batch(self) -> torch.Tensor:
        """Decode a batch; the result has its length and no pixels."""
        if self._decoder is None:
            raise RuntimeError(f"{self.name} is not open")
        return torch.empty(len(self._decoder.decode_batch()), 0)

    def share(self) -> Share:
        """Reading and decoding together, which are not measured separately."""
        return {"read": None, "decode": 1.0, "augment": 0.0, "copy": 0.0}

    def close(self) -> None:
        """Stop the threads."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None


def _trial(decoder: "_Decoder", device: torch.device) -> float:
    turn = time_slice(
        decoder.decode_batch,
        seconds=_TRIAL_SECONDS,
        discard=DecodeOnly.num_discard,
        finish=lambda: synchronise(device),
    )
    return turn.images_per_second


class _Decoder(Protocol):
    name: str

    def decode_batch(self) -> Sequence[object]:
        """Decode a batch; the length of the answer is its number of images."""

    def close(self) -> None:
        """Stop the threads."""


def _decoders(footing: Footing) -> Iterator[_Decoder]:
    yield _Threads("OpenCV on threads", _with_opencv, footing)
    if find_spec("simplejpeg"):
        yield _Threads("simplejpeg on threads", _with_simplejpeg, footing)
    if not available_decoders()["dali"]:
        yield _Dali(footing)


def _with_opencv(data: Payload) -> None:
    """Decode with OpenCV, or with Pillow where it is missing."""
    header = read_header(data)
    opencv.decode(data, (header.height, header.width))


def _with_simplejpeg(data: Payload) -> None:
    """Decode JPEGs with libjpeg-turbo's own interface, other files with OpenCV."""
    import simplejpeg

    if simplejpeg.is_jpeg(data):
        simplejpeg.decode_jpeg(data)
    else:
        _with_opencv(data)


class _Threads:
    """A decoder of single images on threads."""

    def __init__(self, name: str, decode: Callable[[Payload], None], footing: Footing) -> None:
        self.name = name
        self._decode_one = decode
        self._dataset, self._batch_size = footing.dataset, footing.batch_size
        self._num_chunks = -(-footing.batch_size // _CHUNK)
        self._batches = ThreadedBatches(self._decode, self._num_chunks, footing.num_threads)

    def decode_batch(self) -> Sequence[object]:
        """Wait for the oldest batch, and begin another one."""
        self._batches.next()
        return range(self._batch_size)

    def close(self) -> None:
        """Discard pending batches."""
        self._batches.close()

    def _decode(self, number: int) -> None:
        """Decode a chunk of a batch."""
        batch, chunk = divmod(number, self._num_chunks)
        rows = range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, self._batch_size))
        indices = [(batch * self._batch_size + row) % len(self._dataset) for row in rows]
        for sample in self._dataset.fetch(indices):
            if isinstance(sample, Sample) and sample.image is not None:
                self._decode_one(sample.image)


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
