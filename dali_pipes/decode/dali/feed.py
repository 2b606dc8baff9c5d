"""The DALI pipeline for images, and the batches that it gets."""

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
    """Options of the DALI pipeline for images.

    Attributes:
        canvases: Whether the pipeline returns finished canvases, one list of images per view. Otherwise it returns one
            list of parts: the rectangle of each image that contains the crops of all its views.
        antialias: For each view, whether shrinking to the canvas is low-pass filtered.
        hw_decoder_load: With "mixed", the share of each batch, 0 to 1, that the GPU's JPEG engine decodes; see Loader.
    """

    canvases: bool
    antialias: tuple[bool, ...]
    hw_decoder_load: float


class Feed(Driver):
    """A DALI pipeline that decodes the pushed batches in order.

    DALI neither reads files nor draws random numbers: it gets bytes and crops. Its outputs are TensorLists of uint8
    images. With "mixed" the decoded images follow, which must be held until the canvases are made.

    Raises:
        MissingPackageError: DALI is not installed.
        LoaderError: DALI refuses a sound JPEG on this machine.
    """

    def __init__(self, options: FeedOptions) -> None:
        super().__init__(_build(options), options.depth)
        self.options = options
        # The first batch has the largest size: it limits how many images nvImageCodec gives the JPEG engine at once.
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
        """Return the inputs for a batch of at least one row; any thread may call it.

        Hidden rows and rows without data get a placeholder. All inputs have DALI's own types: for lists of arrays, DALI
        inspects each array as it is fed (3.7 us each instead of 0.2 us).
        """
        covered, placeholder = ~fetched.has_sample, graph.placeholder()
        covered[sorted(hidden)] = True
        encoded = [
            placeholder if is_covered else fetched.data[row] or b""
            for row, is_covered in enumerate(covered.tolist())
        ]
        return _tensor_lists(encoded, self._rects(fetched, covered))

    def _rects(self, fetched: Fetched, covered: NDArray[np.bool_]) -> dict[str, NDArray[np.int32]]:
        """Return the crops of a batch as inputs of the graph, each int32 [B, 2].

        Rows in `covered`, bool [B], get the crop of a placeholder image.
        """
        start, shape = needed_part(fetched.draws)
        values = {"start": start, "shape": shape}
        # With "cpu" DALI decodes only the part, with "mixed" the full image; see `graph.decode`.
        decoded = start if self.options.device == "cpu" else np.zeros_like(start)
        for view, drawn in enumerate(fetched.draws):
            values |= {f"{name}{view}": getattr(drawn.crops, name) for name in _OF_A_CANVAS}
            values[f"start{view}"] = drawn.crops.start - decoded
        rects = {}
        for name, kind in _pairs(self.options).items():
            rects[name] = np.array(values[name], np.int32)
            if kind != "canvas":  # the canvas of a placeholder keeps the row's size
                rects[name][covered] = _PLACEHOLDER[kind]
        return rects


_OF_A_CANVAS = ("start", "shape", "resize", "paste", "canvas")
"""The arguments of `graph.render_canvas` for a view, which are pairs of numbers such as height and width."""

_PLACEHOLDER = {"start": 0, "shape": 1, "resize": 1, "paste": 0, "canvas": 1}
"""For each of these pairs, the value that both of its numbers have for a placeholder image: the crop is one pixel."""


def _pairs(options: FeedOptions) -> dict[str, str]:
    """Return the graph's inputs that are pairs of numbers, such as a crop's height and width: name, and kind of pair.

    With "mixed" the pairs of the decoded part are missing: DALI removes unused inputs from the graph, and raises if it
    is fed them.
    """
    pairs = {"start": "start", "shape": "shape"} if options.device == "cpu" else {}
    for view in range(len(options.antialias) if options.canvases else 0):
        pairs |= {f"{kind}{view}": kind for kind in _OF_A_CANVAS}
    return pairs


def _tensor_lists(
    encoded: Sequence[Payload | NDArray[np.uint8]], rects: Mapping[str, NDArray[np.int32]]
) -> Inputs:
    """Return inputs as DALI's own types; they refer to the bytes without a copy."""
    from nvidia.dali import tensors

    list_of: Any = tensors.TensorListCPU  # typed as Any because the stub lacks `contiguous`
    return {
        "encoded": list_of(list(map(tensors.TensorCPU, encoded)), contiguous=False),
        **{name: list_of(pairs) for name, pairs in rects.items()},
    }


def _build(options: FeedOptions) -> Any:
    pipeline = new_pipeline(options)
    from nvidia.dali import fn, types

    with pipeline:
        # no_copy is safe: the driver keeps the inputs alive until their batch is done.
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
