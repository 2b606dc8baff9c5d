"""Render the canvases of frames that DALI decoded, with torch on the frames' device."""

from functools import cache

import torch
from torch.nn import functional as F

from dali_pipes.video.color import BT601, LUMA_WEIGHTS, rgb_matrix, stored_rect
from gpu_aug.resampling.crop_and_resize import paste
from gpu_aug.resampling.crops import Crops
from gpu_aug.upload import upload
from readers.video import VideoInfo

# Bytes of frames that are resized at a time; as float32, they and their results take about five times as much memory.
_PIECE_BYTES = 16 << 20


def render_canvases(frames: torch.Tensor, info: VideoInfo, crops: Crops, row: int) -> torch.Tensor:
    """Crop frames, turn, resize and paste the crops, with the pixels of `gpu_aug.resampling.crop_and_resize`.

    Args:
        frames: uint8 [n, height, width, 3], not turned upright.
        info: Metadata of the video.
        crops: The batch's crops.
        row: The row of the clip.

    Returns:
        uint8 [n, canvas height, canvas width, 3] on the same device.
    """
    upright = (*crops.start[row].tolist(), *crops.shape[row].tolist())
    size = (int(frames.shape[1]), int(frames.shape[2]))
    top, left, height, width = stored_rect(upright, size, info.rotation)
    cut = frames[:, top : top + height, left : left + width]
    cut = torch.rot90(cut, -info.rotation // 90, dims=(1, 2))
    rendered = _resample(cut, tuple(crops.resize[row].tolist()), info.matrix, crops.antialias)
    (top, left), canvas = crops.paste[row].tolist(), tuple(crops.canvas[row].tolist())
    if top == left == 0 and canvas == tuple(rendered.shape[1:3]):
        return rendered
    canvases = rendered.new_empty((len(rendered), *canvas, 3))
    paste(rendered, top, left, canvases)
    return canvases


def _resample(
    cut: torch.Tensor, size: tuple[int, ...], matrix: int, antialias: bool
) -> torch.Tensor:
    colours = color_correction(matrix)
    if size == tuple(cut.shape[1:3]) and colours is None:
        return cut
    if colours is not None:
        colours = upload(colours, cut.device)
    out = torch.empty((len(cut), *size, 3), dtype=torch.uint8, device=cut.device)
    count = max(1, _PIECE_BYTES // max(1, cut[:1].numel()))
    for start in range(0, len(cut), count):
        piece = cut[start : start + count].permute(0, 3, 1, 2).float()
        if size != tuple(piece.shape[2:]):
            piece = F.interpolate(piece, size=size, mode="bilinear", antialias=antialias)
        piece = piece.permute(0, 2, 3, 1)
        if colours is not None:
            # Not a matrix product: torch would round it to TF32 if the user allows that.
            piece = torch.stack([(piece * weights).sum(-1) for weights in colours], -1)
        # + 0.5 because the cast to uint8 rounds down.
        out[start : start + count] = piece.add_(0.5).clamp_(0, 255)
    return out


@cache
def color_correction(matrix: int) -> torch.Tensor | None:
    """Return the matrix that corrects colours which DALI, as for all videos, converted with BT.601.

    Values that BT.601 clipped to black or white stay clipped, so strong colours differ a little.

    Args:
        matrix: See `VideoInfo.matrix`.

    Returns:
        float32 [3, 3], to multiply RGB with; None if BT.601 is right.
    """
    if matrix not in LUMA_WEIGHTS or LUMA_WEIGHTS[matrix] == LUMA_WEIGHTS[BT601]:
        return None
    meant, made = (torch.from_numpy(rgb_matrix(number)) for number in (matrix, BT601))
    corrected: torch.Tensor = meant @ torch.linalg.inv(made)
    return corrected.float()
