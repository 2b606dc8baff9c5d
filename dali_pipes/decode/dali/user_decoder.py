"""The decode stage of images with a user's own DALI pipeline; see `from_dali`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.decode.cpu import render_views
from dali_pipes.decode.dali.base import DecoderByDali
from dali_pipes.decode.dali.driver import Outputs
from dali_pipes.decode.dali.loan import Loan
from dali_pipes.decode.dali.user_pipeline import DaliDecoder
from dali_pipes.decode.remaining_rows import read_targets
from dali_pipes.errors import DecodeError, LoaderError
from dali_pipes.samples.targets import SampleTargets
from dali_pipes.stages.augment import Augmenter
from dali_pipes.stages.canvas_memory import Canvases, View, ViewCanvases
from dali_pipes.stages.data import NO_TARGETS, Decoded, Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from gpu_aug import Draws
from gpu_aug.resampling.crop_and_resize import resample

Pictures = dict[int, Any]
"""The image of each row: a DALI tensor, uint8 [height, width, 3]."""


class UserImageDecoder(DecoderByDali):
    """Decodes with a user's pipeline; see DecoderByDali.

    Call `decoder.begin()` first. Rows without data are not passed to the pipeline, which might refuse a placeholder.

    Args:
        fetcher: Replaces bad samples.
        augmenter: Augments the decoded images.
        decoder: The user's pipeline.
    """

    def __init__(self, fetcher: Fetcher, augmenter: Augmenter, decoder: DaliDecoder) -> None:
        super().__init__(fetcher, augmenter, decoder)
        self._decoder = decoder
        # With None the host waits for the outputs, because it reads images on the CPU itself.
        self._stream = None if decoder.device_id is None else self._side.stream

    def prepare(self, fetched: Fetched) -> Fetched:
        """Return the step unchanged: the pipeline gets the encoded bytes."""
        return fetched

    def start(self, prepared: Fetched) -> None:
        """Push a step into the pipeline."""
        rows = _rows_with_data(prepared)
        if rows:  # DALI does not recover from an empty batch
            inputs = self._decoder.inputs(prepared, rows)
            # Warm up with the full batch: the first batch limits how many images nvImageCodec gives the JPEG engine at once.
            self._decoder.warm_up(inputs)
            self._decoder.push(inputs)

    def finish(self, prepared: Fetched) -> Pending:
        """Take a step from the pipeline and start augmenting it."""
        with self._recorder.measure("decode", by_others=True):
            decoded, pictures = self._decode(prepared)
        if self._decoder.device_id is None:
            parts = {row: np.asarray(picture) for row, picture in pictures.items()}
            render = partial(_render, parts, decoded.targets)
            return self._augmenter.spawn(decoded.fetched, render)
        return self._augment(decoded, pictures)

    def close(self) -> None:
        """Discard the started steps, and make the pipeline available to other loops."""
        super().close()
        self._decoder.end()

    def _decode(self, fetched: Fetched) -> tuple[Decoded, Pictures]:
        """Return a step and its images, after bad samples and samples with bad targets were replaced."""
        pictures: Pictures = {}
        decoded, rows = Decoded(fetched, [NO_TARGETS] * len(fetched)), _rows_with_data(fetched)
        outputs = self._decoder.take(self._stream) if rows else None
        while rows:
            fetched, taken = self._match(decoded.fetched, rows, outputs)
            pictures |= taken
            rows = [row for row in rows if fetched.data[row] is not None]
            fetched = _settle(self._fetcher, fetched, rows, pictures)
            decoded = Decoded(fetched, decoded.targets)
            decoded, bad = read_targets(self._fetcher, self._augmenter, decoded, rows)
            # Rows with bad targets now have no sample, or a substitute that is not decoded yet.
            rows = [row for row in bad if decoded.fetched.data[row] is not None]
            outputs = self._decode_now(decoded.fetched, rows) if rows else None
        data = decoded.fetched.data
        return decoded, {row: one for row, one in pictures.items() if data[row] is not None}

    def _match(
        self, fetched: Fetched, rows: list[int], outputs: Outputs
    ) -> tuple[Fetched, Pictures]:
        """Return the step and the image of each row.

        If DALI refused the batch, its rows are decoded one by one, and the bad ones are replaced.
        """
        if outputs is not None:
            return fetched, dict(zip(rows, outputs[0], strict=True))
        pictures: Pictures = {}
        for row in rows:
            while row not in pictures and fetched.data[row] is not None:
                alone = self._decode_now(fetched, [row])
                if alone is not None:
                    pictures[row] = alone[0][0]
                else:
                    error = DecodeError(f"DALI: {self._decoder.refusal}")
                    substitute = self._fetcher.replace_row(fetched, row, error)
                    fetched = fetched.replaced(row, substitute)
        return fetched, pictures

    def _decode_now(self, fetched: Fetched, rows: list[int]) -> Outputs:
        return self._decoder.run_now(self._decoder.inputs(fetched, rows), self._stream)

    def _augment(self, decoded: Decoded, pictures: Pictures) -> Pending:
        """Start augmenting images on the engines' device."""
        engines = self._augmenter.engines_of(decoded.fetched)

        def canvases() -> list[ViewCanvases]:
            loan = Loan(self._side)
            tensors = {row: loan.tensor(picture) for row, picture in pictures.items()}
            return [
                _canvases_on_device(len(decoded.fetched), tensors, drawn, view)
                for drawn, view in zip(decoded.fetched.draws, engines.views, strict=True)
            ]

        return self._augmenter.launch(decoded, canvases)


def _rows_with_data(fetched: Fetched) -> list[int]:
    rows: list[int] = np.flatnonzero(fetched.has_sample).tolist()
    return rows


def _settle(fetcher: Fetcher, fetched: Fetched, rows: Sequence[int], pictures: Pictures) -> Fetched:
    """Draw the parameters again for images whose decoded size differs from the size in the header.

    Raises:
        LoaderError: An output is not an RGB uint8 image, or its size does not fit the sample's targets.
    """
    sizes = fetched.sizes.copy()
    for row in rows:
        picture, asked = pictures[row], tuple(sizes[row].tolist())
        shape = tuple(picture.shape() if callable(picture.shape) else picture.shape)
        is_image = len(shape) == 3 and shape[2] == 3 and 0 not in shape
        if not is_image or str(picture.dtype) != "DALIDataType.UINT8":
            raise LoaderError(
                f"the pipeline makes {picture.dtype} {list(shape)} of {fetched.key(row)}, but images must be uint8 "
                f"[height, width, 3]; decode with output_type=types.RGB, and leave normalising to the recipe"
            )
        if shape[:2] != asked and fetcher.rows_with_targets(fetched, [row]):
            raise LoaderError(
                f"the pipeline makes {shape[0]}x{shape[1]} of {fetched.key(row)}, whose targets are stored for "
                f"{asked[0]}x{asked[1]}; leave resizing to the recipe, or read no targets: targets=[]"
            )
        sizes[row] = shape[:2]
    return fetched if np.array_equal(sizes, fetched.sizes) else fetcher.resized(fetched, sizes)


def _render(
    pictures: Mapping[int, NDArray[np.uint8]],
    found: Sequence[SampleTargets],
    fetched: Fetched,
    canvases: Canvases,
    start: int,
) -> Decoded:
    """Render canvases from images on the CPU; see threads.Render."""
    for row in range(len(fetched)):
        picture = pictures.get(start + row)
        if picture is None:
            canvases.blacken(row, fetched.draws, row)
        else:
            render_views(picture, fetched, row, canvases, row)
    return Decoded(fetched, found[start : start + len(fetched)])


def _canvases_on_device(
    count: int, pictures: Mapping[int, torch.Tensor], draws: Draws, view: View
) -> ViewCanvases:
    """Render a view's canvases from images on the view's device; rows without a sample are black."""
    crops, size = draws.crops, view.recipe.decode_size
    shapes = [(*canvas, 3) for canvas in crops.canvas.tolist()]
    canvases: ViewCanvases = (
        [torch.zeros(shape, dtype=torch.uint8, device=view.device) for shape in shapes]
        if size is None
        else torch.zeros((count, *size, 3), dtype=torch.uint8, device=view.device)
    )
    for row, picture in pictures.items():
        # In float32, because torch resizes uint8 only on the CPU.
        canvas = torch.empty(shapes[row], device=view.device)
        (top, left), (height, width) = crops.start[row].tolist(), crops.shape[row].tolist()
        crop = picture[top : top + height, left : left + width].float()
        resample(crop, crops, row, canvas, origin=(top, left))
        canvases[row].copy_(canvas.round_().clamp_(0, 255))
    return canvases
