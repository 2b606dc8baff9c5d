"""Pixels of video frames: ITU's formulas, FFmpeg's conversion, and torch's resize."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import pytest
import torch
from av.bitstream import BitStreamFilterContext
from numpy.typing import NDArray
from torch.nn import functional as F

from dali_pipes import Clips, Loader
from dali_pipes.errors import DecodeError
from dali_pipes.video.color import layout_of, to_rgb
from dali_pipes.video.render_clip import Stencil
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe, Resize
from gpu_aug.views import Views
from readers import open_dataset
from readers.video import VideoError, VideoInfo, scan_video
from tests.support.videos import pan, write_video

PLANAR = (
    "yuv420p",
    "yuv422p",
    "yuv444p",
    "yuv440p",
    "yuvj420p",
    "yuva420p",
    "yuv420p10le",
    "yuv422p12le",
)
OTHERS = ("gray", "nv12", "rgb24", "gbrp", "pal8", "p010le", "yuv410p", "bgra")
SIZES = ((64, 96), (33, 67), (32, 33))

# ITU-R BT.601-7, BT.709-6 and BT.2020-2: red's and blue's share in luma.
MATRICES = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 9: (0.2627, 0.0593)}


def info_of(size: tuple[int, int], **more: Any) -> VideoInfo:
    nothing = np.empty(0, np.int64)
    known: dict[str, Any] = {
        **dict.fromkeys(
            ("container", "codec", "decoder", "codec_tag", "pixel_format", "damage"), ""
        ),
        "extradata": b"",
        "height": size[0],
        "width": size[1],
        "rotation": 0,
        "matrix": 5,
        "full_range": False,
        "time_base": Fraction(1, 25),
        "last_duration": 1,
        "has_audio": False,
        "packet_pts": nothing,
        "packet_offsets": nothing,
        "packet_sizes": nothing,
        "keyframes": nothing,
    }
    return VideoInfo(**{**known, **more})


def noise(
    pixel_format: str, size: tuple[int, int], seed: int = 0
) -> tuple[Any, list[NDArray[np.float64]]]:
    """A frame of random samples, and its planes at full size, as shares of the largest value of 8 bits."""
    layout = layout_of(pixel_format)
    assert layout is not None
    frame = av.VideoFrame(size[1], size[0], pixel_format)
    chance = np.random.default_rng(seed)
    kind, step = (np.uint8, 1) if layout.depth == 8 else (np.uint16, 1 << layout.depth - 8)
    planes = []
    for number, plane in enumerate(frame.planes):
        samples = np.frombuffer(cast(Any, plane), kind).reshape(
            -1, plane.line_size // kind().itemsize
        )
        samples[:] = chance.integers(0, 256 * step, samples.shape)
        down, across = layout.shifts if number in (1, 2) else (0, 0)
        large = samples.repeat(1 << down, 0).repeat(1 << across, 1)[: size[0], : size[1]]
        planes.append(large / step)
    return frame, planes


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("pixel_format", PLANAR)
def test_itu_formulas(pixel_format: str, matrix: int, full_range: bool) -> None:
    """Every pixel is the formula's result, rounded to the nearest; another matrix would not be."""
    for size in SIZES:
        frame, (luma, blue, red, *_) = noise(pixel_format, size)
        is_full = full_range or pixel_format == "yuvj420p"
        red_share, blue_share = MATRICES[matrix]
        # The largest value of b bits is not 255 steps: 1023 of 10 bits is 255.75 of 8.
        depth = cast(Any, layout_of(pixel_format)).depth
        top = ((1 << depth) - 1) / (1 << depth - 8)
        y = luma * 255 / top if is_full else (luma - 16) * 255 / 219
        u, v = ((part - 128) * 255 / (top if is_full else 224) for part in (blue, red))
        r, b = y + 2 * (1 - red_share) * v, y + 2 * (1 - blue_share) * u
        g = (y - red_share * r - blue_share * b) / (1 - red_share - blue_share)
        exact = np.stack([r, g, b], -1).clip(0, 255)
        info = info_of(size, matrix=matrix, full_range=full_range)

        assert np.abs(to_rgb(frame, info) - exact).max() < 0.51
        other = to_rgb(frame, replace(info, matrix=7))
        assert np.abs(other - exact).max() > 5


@pytest.mark.parametrize("full_range", [False, True], ids=["limited", "full"])
@pytest.mark.parametrize("pixel_format", ["yuv444p", "yuv420p", "yuv422p12le"])
def test_ycgco(pixel_format: str, full_range: bool) -> None:
    """Colours that are taken apart by the equations of H.273 for matrix 8 come back, also in a part."""
    size = (33, 67)
    layout = cast(Any, layout_of(pixel_format))
    step, (down, across) = 1 << layout.depth - 8, layout.shifts
    blocks = np.random.default_rng(0).integers(0, 256, (17, 34, 3))
    rgb = blocks.repeat(2, 0).repeat(2, 1)[: size[0], : size[1]]
    red, green, blue = np.moveaxis(rgb / 255, -1, 0)
    scale, black = (256 * step - 1, 0) if full_range else (219 * step, 16 * step)
    red, green, blue = (scale * one + black for one in (red, green, blue))
    y, cg, co = green / 2 + (red + blue) / 4, green / 2 - (red + blue) / 4, (red - blue) / 2
    samples = (y, cg[:: 1 << down, :: 1 << across], co[:: 1 << down, :: 1 << across])
    frame = av.VideoFrame(size[1], size[0], pixel_format)
    kind = np.uint8 if layout.depth == 8 else np.uint16
    for number, (plane, wanted) in enumerate(zip(frame.planes, samples, strict=True)):
        whole = wanted + (128 * step if number else 0)
        rows = np.frombuffer(cast(Any, plane), kind).reshape(-1, plane.line_size // kind().itemsize)
        rows[: whole.shape[0], : whole.shape[1]] = np.rint(whole).clip(0, 256 * step - 1)
    info = info_of(size, matrix=8, full_range=full_range)

    # Each of three samples is rounded: half a step of 255/219 each.
    assert np.abs(to_rgb(frame, info).astype(int) - rgb).max() <= 2
    assert np.array_equal(to_rgb(frame, info, (5, 7, 20, 30)), to_rgb(frame, info)[5:25, 7:37])


def with_matrix(folder: Path, matrix: int, primaries: int = 2) -> Path:
    """A video whose stream names a matrix and primaries."""
    plain = write_video(folder / "plain.mp4", pan(4, (48, 64)))
    said = f"h264_metadata=matrix_coefficients={matrix}:colour_primaries={primaries}"
    target = folder / f"{matrix}.mp4"
    with av.open(str(plain)) as read, av.open(str(target), "w") as write:
        source = read.streams.video[0]
        stream = write.add_stream_from_template(source)
        filtered = BitStreamFilterContext(said, source, stream)
        for packet in read.demux(source):
            for one in filtered.filter(packet if packet.size else None):
                one.stream = stream
                write.mux(one)
    return target


@pytest.mark.parametrize("matrix", [11, 12, 14, 16])
def test_matrices_without_a_conversion(tmp_path: Path, matrix: int) -> None:
    """What cannot be converted is no video, in words, and no neighbour is lost."""
    with pytest.raises(VideoError, match=f"matrix {matrix} of ITU-T H.273"):
        scan_video(with_matrix(tmp_path, matrix).read_bytes())
    clips = Clips(open_dataset(tmp_path), num_frames=2, stride=1)
    batches = list(
        Loader(clips, Recipe([Resize((24, 32))]), batch_size=2, device="cpu", on_bad_sample="skip")
    )

    assert [key for batch in batches for key in batch.keys] == ["plain.mp4#0"]


@pytest.mark.parametrize("primaries", [1, 9])
def test_matrix_of_the_primaries(tmp_path: Path, primaries: int) -> None:
    """Matrix 12 has the weights that follow from the primaries: of BT.709 and BT.2020 those of their matrices."""
    info = scan_video(with_matrix(tmp_path, 12, primaries).read_bytes())
    assert info.matrix == primaries


def test_a_frame_that_ffmpeg_does_not_convert() -> None:
    """The error of its converter is the frame's verdict."""
    frame = av.VideoFrame(32, 32, "nv12")
    frame.colorspace = 14
    with pytest.raises(DecodeError, match="no nv12 of matrix 14"):
        to_rgb(frame, info_of((32, 32), matrix=14))


@pytest.mark.parametrize("pixel_format", OTHERS)
def test_other_formats_are_left_to_ffmpeg(pixel_format: str) -> None:
    """Formats without three planes of luma and chroma have the pixels that FFmpeg gives them."""
    pixels = np.ascontiguousarray(pan(1, (64, 96))[0])
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
    if pixel_format == "pal8":
        frame = av.VideoFrame(96, 64, "pal8")
        np.frombuffer(cast(Any, frame.planes[0]), np.uint8)[:] = 0
    else:
        frame = frame.reformat(format=pixel_format)
    theirs = frame.reformat(format="rgb24", src_colorspace=5).to_ndarray()
    part = to_rgb(frame, info_of((64, 96)), (3, 5, 40, 50))

    assert np.array_equal(part, theirs[3:43, 5:55])


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv444p", "gray"])
def test_parts_of_turned_frames(pixel_format: str, rotation: int) -> None:
    """A part is the same as that of the whole frame turned clockwise; small and odd parts at the ends, too."""
    pixels = np.ascontiguousarray(pan(1, (37, 70))[0])
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=pixel_format)
    stored = to_rgb(frame, info_of((37, 70))).copy()
    upright = np.rot90(stored, -rotation // 90)
    height, width = upright.shape[:2]
    info = info_of((height, width), rotation=rotation)

    for part in (
        (0, 0, height, width),
        (0, 0, 1, 1),
        (height - 3, width - 1, 3, 1),
        (5, 9, 17, 13),
    ):
        top, left, rows, columns = part
        expected = upright[top : top + rows, left : left + columns]
        assert np.array_equal(to_rgb(frame, info, part), expected), part
    if rotation:
        assert (
            not np.array_equal(to_rgb(frame, info), np.rot90(stored, rotation // 90))
            or rotation == 180
        )


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_rotation_is_that_of_players(tmp_path: Path, rotation: int) -> None:
    """A display matrix turns frames by so many degrees counterclockwise."""
    pixels = pan(2, (48, 64))
    data = write_video(
        tmp_path / "v.mp4", pixels, rotation=rotation, options={"crf": "1"}
    ).read_bytes()
    info = scan_video(data)
    from dali_pipes.video.decode import decode_frames

    decoded = decode_frames(data, info, np.array([0]))[0].astype(int)
    assert np.abs(decoded - np.rot90(pixels[0], rotation // 90)).mean() < 12
    assert np.abs(decoded - np.rot90(pixels[0], rotation // 90 + 2)).mean() > 30


@pytest.mark.parametrize("size", [(48, 70), (300, 400)], ids=["grown", "shrunk"])
@pytest.mark.parametrize(
    "recipe", [RandomResizedCrop(56), Resize((64, 40))], ids=["crop", "resize"]
)
def test_canvases_are_torchs_resize(recipe: Any, size: tuple[int, int]) -> None:
    """Every view's canvas is torch's antialiased resize of its window of the whole frame, bit for bit."""
    views = Views([Recipe([recipe, HorizontalFlip()])] * 2)
    indices = np.arange(3)
    sizes = np.tile(size, (3, 1))
    draws = views.draw(0, 0, indices, sizes, positions=indices, length=3)
    pixels = np.ascontiguousarray(pan(1, size)[0])
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")
    whole = torch.from_numpy(to_rgb(frame, info_of(size)).copy())

    for row in range(3):
        canvases = [torch.ones(*view.crops.canvas[row], 3, dtype=torch.uint8) for view in draws]
        Stencil(draws, row, info_of(size)).render(frame, canvases)
        for view, canvas in zip(draws, canvases, strict=True):
            (top, left), (rows, columns) = view.crops.start[row], view.crops.shape[row]
            cut = whole[top : top + rows, left : left + columns].permute(2, 0, 1)[None]
            cut = cut.contiguous(memory_format=torch.channels_last)
            resized = F.interpolate(cut, canvas.shape[:2], mode="bilinear", antialias=True)
            assert torch.equal(canvas, resized[0].permute(1, 2, 0))
