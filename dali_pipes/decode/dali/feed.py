"""Feeding batches to a DALI pipeline that decodes them."""

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.dali import graph
from dali_pipes.decode.dali.driver import Driver, Inputs, Outputs
from dali_pipes.errors import LoaderError, MissingPackageError
from dali_pipes.jpeg.seek_points import spans_of
from dali_pipes.stages.data import Fetched, needed_part
from readers.sample import Payload

INSTALL_DALI = (
    "NVIDIA DALI is not installed; install it with \"pip install 'gpu-aug[cuda12]'\" "
    'or choose decoder="cpu"'
)


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """How to build the pipeline.

    Attributes:
        batch_size: The largest batch.
        device: Device on which DALI decodes.
        canvases: Whether it hands back finished canvases, one list of images per view, or one list of
            cuts: of each image the part that holds its crops of all views.
        canvas: For each of the run's recipes, and for each of its views, height and width of all its canvases, None
            where they differ.
        antialias: For each view, whether shrinking to the canvas is low-pass filtered.
        device_id: The GPU for "mixed", None for "cpu".
        num_threads: DALI's own threads.
        depth: How many batches DALI works on at once.
        hw_decoder_load: On "mixed" the share of each batch, 0 to 1, for the GPU's JPEG engine; see Loader.
    """

    batch_size: int
    device: Literal["cpu", "mixed"]
    canvases: bool
    canvas: tuple[tuple[tuple[int, int] | None, ...], ...]
    antialias: tuple[bool, ...]
    device_id: int | None
    num_threads: int
    depth: int
    hw_decoder_load: float


class Feed:
    """A DALI pipeline that decodes the batches that are pushed into it, in order.

    DALI draws and reads nothing: it is given bytes and crops.

    Raises:
        MissingPackageError: If DALI is not installed.
        LoaderError: If DALI refuses a sound JPEG on this machine.
    """

    def __init__(self, options: FeedOptions) -> None:
        self.options = options
        self._driver = Driver(_build(options), options.depth)
        self._nothing = _placeholders(options, 1)
        self._covered_rects = [_placeholder_rects(options, n) for n in range(len(options.canvas))]
        # As large as any batch: nvImageCodec gives the JPEG engine at most as many images as in the first batch.
        if None in self._driver.warm_up(_placeholders(options, options.batch_size)):
            where = "the CPU" if options.device_id is None else f"GPU {options.device_id}"
            raise LoaderError(
                f"DALI refuses a sound JPEG of 64x64 pixels on {where}, so it would refuse every image; look at "
                f'`gpu-aug doctor`, or use decoder="cpu"; DALI said: {self.refusal}'
            )

    def inputs(self, fetched: Fetched, hidden: set[int]) -> Inputs:
        """Make the inputs of a batch, in any thread. Hidden rows, and rows without data, get a placeholder.

        All are DALI's own types: lists of arrays would be inspected one by one as they are fed (3.7 us each, not 0.2).
        """
        if not len(fetched):  # DALI never recovers from an empty batch
            return self._nothing
        covered, placeholder = ~fetched.has_sample, graph.placeholder()
        covered[sorted(hidden)] = True
        spans = np.where(covered[:, None], spans_of([placeholder]), fetched.spans)
        encoded = memory_of(spans, (fetched, placeholder))
        return _tensor_lists(encoded, self._rects(fetched, covered))

    def push(self, inputs: Inputs) -> None:
        """Start decoding a batch, given its `inputs`."""
        self._driver.push(inputs)

    def take(self, cuda_stream: Any = None) -> Outputs:
        """Wait for the oldest batch.

        Args:
            cuda_stream: The stream that will read the outputs; with None the host waits.

        Returns:
            DALI's outputs (TensorLists of uint8 images; one image for an empty batch), on "mixed" followed by the decoded
            images, which must be held until the canvases are made; None if DALI refused the batch. The pipeline goes on
            with the next batch either way.
        """
        return self._driver.take(cuda_stream)

    def again(self, fetched: Fetched, hidden: set[int], cuda_stream: Any = None) -> Outputs:
        """Decode a refused batch again out of turn, with more rows hidden; None if DALI refuses it again."""
        return self._driver.run_now(self.inputs(fetched, hidden), cuda_stream)

    def drain(self) -> None:
        """Wait for the pushed batches and drop them."""
        self._driver.drain()

    @property
    def refusal(self) -> str:
        """DALI's message for the last refused batch."""
        return self._driver.refusal

    def _rects(self, fetched: Fetched, covered: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
        """Return the pairs that the graph needs, int32 [B, 2] each; covered rows, bool [B], get those of a placeholder."""
        options, draws = self.options, fetched.draws
        start, shape = needed_part(draws)
        rects = {"start": start, "shape": shape}
        # On "cpu" the part is decoded, else the full image; see `graph.decode`.
        decoded = start if options.device == "cpu" else np.zeros_like(start)
        for view, drawn in enumerate(draws if options.canvases else []):
            rects |= {f"{name}{view}": getattr(drawn.crops, name) for name in _OF_A_CANVAS}
            rects[f"start{view}"] = drawn.crops.start - decoded
        placeholder = self._covered_rects[fetched.plan.variant]
        pairs = np.empty((len(placeholder), len(covered), 2), np.int32)
        for one, (name, value) in zip(pairs, placeholder.items(), strict=True):
            one[:] = rects[name]
            one[covered] = value
        return dict(zip(placeholder, pairs, strict=True))


_OF_A_CANVAS = ("start", "shape", "resize", "paste", "canvas")


_MEMORY: Any = ctypes.c_ubyte * sys.maxsize
"""All bytes from an address on, of which only slices are used: ctypes never frees a type, so one type serves all lengths."""


def memory_of(spans: NDArray[np.int64], held: Any) -> list[memoryview]:
    """Return views of the bytes at addresses: 0.13 us each, a third of `np.frombuffer`.

    Args:
        spans: int64 [n, 2]: address and length in bytes.
        held: Owns the bytes; each view keeps it in memory.
    """
    first = int(spans[:, 0].min())
    starts = spans[:, 0] - first
    stops = starts + spans[:, 1]
    memory = _MEMORY.from_address(first)
    memory.held = held
    view = memoryview(memory).cast("B")
    return [view[begin:end] for begin, end in zip(starts.tolist(), stops.tolist(), strict=True)]


def _tensor_lists(
    encoded: Sequence[Payload | NDArray[np.uint8]], rects: Mapping[str, NDArray[np.int32]]
) -> Inputs:
    """Return inputs of DALI's own types; they refer to the bytes, which are not copied."""
    from nvidia.dali import tensors

    list_of: Any = tensors.TensorListCPU  # its stub lacks `contiguous`
    return {
        "encoded": list_of(list(map(tensors.TensorCPU, encoded)), contiguous=False),
        **{name: list_of(pairs) for name, pairs in rects.items()},
    }


def _placeholders(options: FeedOptions, count: int) -> Inputs:
    rects = {
        name: np.repeat(pair, count, axis=0) for name, pair in _placeholder_rects(options).items()
    }
    return _tensor_lists([graph.placeholder()] * count, rects)


def _placeholder_rects(options: FeedOptions, variant: int = 0) -> dict[str, NDArray[np.int32]]:
    """Return the pairs that the graph needs by name, with the values of a placeholder, int32 [1, 2] each."""
    ones, zeros = np.ones((1, 2), np.int32), np.zeros((1, 2), np.int32)
    # On "mixed" the full image is decoded; DALI removes unused inputs from the graph, and refuses to be fed them.
    pairs = {"start": zeros, "shape": ones} if options.device == "cpu" else {}
    for view, canvas in enumerate(options.canvas[variant] if options.canvases else ()):
        pairs |= {f"start{view}": zeros, f"shape{view}": ones, f"resize{view}": ones}
        pairs |= {f"paste{view}": zeros, f"canvas{view}": np.array([canvas or (1, 1)], np.int32)}
    return pairs


def _build(options: FeedOptions) -> Any:
    try:
        from nvidia.dali import Pipeline, fn, types
    except ImportError as error:
        raise MissingPackageError(INSTALL_DALI) from error

    pipeline = Pipeline(
        batch_size=options.batch_size,
        num_threads=options.num_threads,
        device_id=options.device_id,
        prefetch_queue_depth=options.depth,
    )
    with pipeline:
        # no_copy: the driver keeps the inputs alive until their batch is done.
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        pairs = {
            name: fn.external_source(name=name, dtype=types.INT32, ndim=1, no_copy=True)
            for name in _placeholder_rects(options)
        }
        part = pairs.get("start"), pairs.get("shape")
        decoded = graph.decode(
            encoded, *part, device=options.device, hw_decoder_load=options.hw_decoder_load
        )
        if options.canvases:
            outputs = [
                graph.render_canvas(
                    decoded,
                    *(pairs[f"{name}{view}"] for name in _OF_A_CANVAS),
                    antialias=antialias,
                )
                for view, antialias in enumerate(options.antialias)
            ]
        else:
            outputs = []
        # On "mixed" behind the canvases: while it is held, nvImageCodec cannot decode the next batch into memory from which
        # canvases are still made; its JPEG engine waits for its own work alone. It is not copied.
        if options.device == "mixed" or not outputs:
            outputs.append(decoded)
        pipeline.set_outputs(*outputs)
    pipeline.build()
    return pipeline
