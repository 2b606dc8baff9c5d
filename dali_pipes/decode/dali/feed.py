"""Feeding batches to a DALI pipeline that decodes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.decode.dali import graph
from dali_pipes.decode.dali.driver import Driver, Inputs, PipelineOptions, new_pipeline
from dali_pipes.errors import LoaderError
from dali_pipes.stages.data import Fetched, needed_part
from readers.sample import Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedOptions(PipelineOptions):
    """How to build the pipeline.

    Attributes:
        canvases: Whether it hands back finished canvases, one list of images per view, or one list of
            cuts: of each image the part that holds its crops of all views.
        antialias: For each view, whether shrinking to the canvas is low-pass filtered.
        hw_decoder_load: On "mixed" the share of each batch, 0 to 1, for the GPU's JPEG engine; see Loader.
    """

    canvases: bool
    antialias: tuple[bool, ...]
    hw_decoder_load: float


class Feed(Driver):
    """A DALI pipeline that decodes the batches that are pushed into it, in order.

    DALI draws and reads nothing: it is given bytes and crops. Its outputs are TensorLists of uint8 images, on "mixed" followed
    by the decoded images, which must be held until the canvases are made.

    Raises:
        MissingPackageError: If DALI is not installed.
        LoaderError: If DALI refuses a sound JPEG on this machine.
    """

    def __init__(self, options: FeedOptions) -> None:
        super().__init__(_build(options), options.depth)
        self.options = options
        # As large as any batch: nvImageCodec gives the JPEG engine at most as many images as in the first batch.
        count = options.batch_size
        pairs = {
            name: np.full((count, 2), _PLACEHOLDER[kind], np.int32)
            for name, kind in _pairs(options).items()
        }
        if None in self.warm_up(_tensor_lists([graph.placeholder()] * count, pairs)):
            where = "the CPU" if options.device_id is None else f"GPU {options.device_id}"
            raise LoaderError(
                f"DALI refuses a sound JPEG of 64x64 pixels on {where}, so it would refuse every image; look at "
                f'`gpu-aug doctor`, or use decoder="cpu"; error of DALI: {self.refusal}'
            )

    def inputs(self, fetched: Fetched, hidden: set[int]) -> Inputs:
        """Make the inputs of a batch of at least one row, in any thread. Hidden rows, and rows without data, get a placeholder.

        All are DALI's own types: lists of arrays would be inspected one by one as they are fed (3.7 us each, not 0.2).
        """
        covered, placeholder = ~fetched.has_sample, graph.placeholder()
        covered[sorted(hidden)] = True
        encoded = [
            placeholder if is_covered else fetched.data[row] or b""
            for row, is_covered in enumerate(covered.tolist())
        ]
        return _tensor_lists(encoded, self._rects(fetched, covered))

    def _rects(self, fetched: Fetched, covered: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
        """Return the pairs that the graph needs, int32 [B, 2] each; covered rows, bool [B], get those of a placeholder."""
        start, shape = needed_part(fetched.draws)
        values = {"start": start, "shape": shape}
        # On "cpu" the part is decoded, else the full image; see `graph.decode`.
        decoded = start if self.options.device == "cpu" else np.zeros_like(start)
        for view, drawn in enumerate(fetched.draws):
            values |= {f"{name}{view}": getattr(drawn.crops, name) for name in _OF_A_CANVAS}
            values[f"start{view}"] = drawn.crops.start - decoded
        rects = {}
        for name, kind in _pairs(self.options).items():
            rects[name] = np.array(values[name], np.int32)
            if kind != "canvas":  # a placeholder gets a canvas of the row's size
                rects[name][covered] = _PLACEHOLDER[kind]
        return rects


_OF_A_CANVAS = ("start", "shape", "resize", "paste", "canvas")

_PLACEHOLDER = {"start": 0, "shape": 1, "resize": 1, "paste": 0, "canvas": 1}
"""Both numbers of each pair for a placeholder: one pixel of it."""


def _pairs(options: FeedOptions) -> dict[str, str]:
    """Return the names of the pairs that the graph needs, with what each is.

    On "mixed" the full image is decoded; DALI removes unused inputs from the graph, and refuses to be fed them.
    """
    pairs = {"start": "start", "shape": "shape"} if options.device == "cpu" else {}
    for view in range(len(options.antialias) if options.canvases else 0):
        pairs |= {f"{kind}{view}": kind for kind in _OF_A_CANVAS}
    return pairs


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


def _build(options: FeedOptions) -> Any:
    pipeline = new_pipeline(options)
    from nvidia.dali import fn, types

    with pipeline:
        # no_copy: the driver keeps the inputs alive until their batch is done.
        encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1, no_copy=True)
        pairs = {
            name: fn.external_source(name=name, dtype=types.INT32, ndim=1, no_copy=True)
            for name in _pairs(options)
        }
        part = pairs.get("start"), pairs.get("shape")
        decoded = graph.decode(
            encoded, *part, device=options.device, hw_decoder_load=options.hw_decoder_load
        )
        outputs = [
            graph.render_canvas(
                decoded,
                *(pairs[f"{name}{view}"] for name in _OF_A_CANVAS),
                antialias=antialias,
            )
            for view, antialias in enumerate(options.antialias if options.canvases else ())
        ]
        # On "mixed" behind the canvases: while it is held, nvImageCodec cannot decode the next batch into memory from which
        # canvases are still made; its JPEG engine waits for its own work alone. It is not copied.
        if options.device == "mixed" or not outputs:
            outputs.append(decoded)
        pipeline.set_outputs(*outputs)
    pipeline.build()
    return pipeline
