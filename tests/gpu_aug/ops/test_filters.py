"""Filters beyond the agreement table: borders, odd sizes, the host's steps, and wrong values."""

import cv2
import numpy as np
import pytest
import torch

from gpu_aug import (
    JPEG,
    AdditiveNoise,
    AdvancedBlur,
    Blur,
    Defocus,
    Downscale,
    Emboss,
    GaussianBlur,
    GaussianNoise,
    GaussNoise,
    GlassBlur,
    HorizontalFlip,
    MedianBlur,
    MotionBlur,
    Operation,
    RandomGaussianBlur,
    Recipe,
    Resize,
    SaltAndPepper,
    Sharpen,
    ShotNoise,
    Spatter,
    UnsharpMask,
    ZoomBlur,
)
from gpu_aug.draws import uniforms
from gpu_aug.engines.backends import filters
from gpu_aug.engines.backends.cpu_only import cpu_only_function
from gpu_aug.engines.backends.filters import convolve_numpy, convolve_torch, median, zoom_blur
from gpu_aug.engines.backends.step import host_step_torch
from gpu_aug.engines.choose import compile_engine
from tests.support.engines import noise, render


def pixels(size: tuple[int, int], num: int = 3) -> np.ndarray:
    return noise(num, size, seed=4).numpy()


def run(engine: str, operation: Operation, images: np.ndarray) -> np.ndarray:
    """Return float32 results [B, H, W, 3]."""
    recipe = Recipe([Resize(tuple(images.shape[1:3])), HorizontalFlip(0), operation])
    return render(engine, recipe, torch.from_numpy(images)).permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 3), (5, 4), (13, 7)])
@pytest.mark.parametrize("width", [1, 3, 9, 31])
def test_any_kernel_fits_any_image(size, width):
    """The image is mirrored as often as OpenCV does it, however small it is."""
    image = pixels(size, 1)[0].astype(np.float32)
    row = np.random.default_rng(1).random(width)
    square = np.random.default_rng(2).random((width, width))
    x = torch.from_numpy(image).permute(2, 0, 1)[None]

    def apart(ours: torch.Tensor, theirs: np.ndarray) -> float:
        return float(np.abs(ours[0].permute(1, 2, 0).numpy() - theirs.reshape(image.shape)).max())

    separable = cv2.sepFilter2D(image, -1, row, row[::-1], borderType=cv2.BORDER_REFLECT_101)
    assert (
        apart(convolve_torch(x, np.stack([row[::-1], row])[None]), separable)
        < 1e-5 * separable.max()
    )
    if width > 2:
        full = cv2.filter2D(image, -1, square, borderType=cv2.BORDER_REFLECT_101)
        assert apart(convolve_torch(x, square[None]), full) < 1e-5 * full.max()


SMALL = [
    GaussianBlur(23),
    RandomGaussianBlur(p=1),
    Blur(7, p=1),
    MotionBlur(p=1),
    AdvancedBlur(p=1),
    Defocus(p=1),
    Sharpen(p=1),
    UnsharpMask(p=1),
    ZoomBlur(p=1),
    MedianBlur(7, p=1),
    GlassBlur(p=1),
    JPEG(40),
    Downscale((0.1, 0.3), p=1),
    Downscale((0.1, 0.3), up="bilinear", p=1),
    GaussianNoise(),
    GaussNoise(noise_scale_factor=0.1, p=1),
    AdditiveNoise(p=1),
    SaltAndPepper((0.5, 1.0), p=1),
    ShotNoise(p=1),
    Spatter(p=1),
]


@pytest.mark.parametrize("operation", SMALL, ids=lambda operation: type(operation).__name__)
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (8, 11)])
def test_engines_agree_on_tiny_images(operation, size):
    """Images of a few pixels are carried out too, alike in both engines."""
    images = pixels(size)
    ours = run("kornia", operation, images)

    assert np.isfinite(ours).all()
    gap = np.abs(ours - run("albumentations", operation, images)).max() * 255
    assert gap <= max(operation.tolerance, 0.001)


FILTERS = [
    GaussianBlur((5, 9)),
    RandomGaussianBlur(p=1),
    Blur((3, 9), p=1),
    Blur(1, p=1),
    MotionBlur((3, 9), p=1),
    AdvancedBlur(p=1),
    Sharpen(p=1),
    Emboss(p=1),
]


def results(engine: str, operation: Operation, images: np.ndarray) -> dict[str, torch.Tensor]:
    """Return the results [B, 3, H, W] in all types and layouts that filters write, or that their result is converted to."""
    recipe, images = Recipe([operation]), torch.from_numpy(images)
    draws = recipe.draw(0, 0, np.arange(len(images)), np.full((len(images), 2), images.shape[1:3]))
    made = {}
    for dtype in (torch.uint8, torch.float32):
        for layout in (torch.contiguous_format, torch.channels_last):
            out = torch.zeros(len(images), 3, *images.shape[1:3], dtype=dtype)
            out = out.contiguous(memory_format=layout)
            compile_engine(engine, recipe, device=torch.device("cpu")).run(images, draws, out)
            made[f"{dtype} {layout}"] = out
    return made


def rounded(x: torch.Tensor) -> torch.Tensor:
    return x if x.dtype == torch.uint8 else (x * 255).round().clamp(0, 255).to(torch.uint8)


@pytest.mark.parametrize("engine", ["fused", "albumentations"])
@pytest.mark.parametrize("operation", FILTERS, ids=repr)
def test_filters_write_what_they_return_rounded(operation, engine):
    """Each type and layout of the result has the same pixels."""
    first, *others = results(engine, operation, pixels((64, 41))).values()

    assert all(torch.equal(first, rounded(other)) for other in others)


def test_another_draw_is_noticed():
    """The negative control of the comparison."""
    small, large = (results("fused", Blur(size, p=1), pixels((64, 41))) for size in (3, 5))

    assert not torch.equal(*(rounded(next(iter(made.values()))) for made in (small, large)))


@pytest.mark.parametrize("operation", FILTERS, ids=repr)
@pytest.mark.parametrize("as_float", [False, True])
def test_strips_are_parts_of_the_filtered_image(operation, as_float, monkeypatch):
    """Each strip is filtered with the rows around it, also the last one, which may be shorter."""
    images = pixels((67, 41))
    images = images.astype(np.float32) / 255 if as_float else images
    at_once = results("fused", operation, images)
    monkeypatch.setattr(filters, "_STRIP_PIXELS", 1)  # as low as the kernels allow
    in_strips = results("fused", operation, images)

    assert all(torch.equal(at_once[name], in_strips[name]) for name in at_once)


def test_bytes_are_divided_as_by_numpy():
    """Products with 3 and 1 / 765 are the rounded quotients by 255, for every byte."""
    image = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)

    unchanged = convolve_numpy(image, np.diag([0.0, 1, 0]))

    assert np.array_equal(unchanged, image / np.float32(255))
    assert not np.array_equal(image * np.float32(1 / 255), image / np.float32(255))


@pytest.mark.parametrize("size", [(1, 1), (40, 61), (64, 9)])
def test_the_zoom_for_devices_is_opencvs(size):
    """ZoomBlur in torch is OpenCV's, also where the images of a batch have different zooms."""
    images = pixels(size)
    operation = ZoomBlur((1.0, 1.6), (0.01, 0.2), p=1)
    [u] = uniforms(3, 0, np.arange(3), [operation.num_uniforms])
    drawn = operation.draw(u, np.full((3, 2), size))
    planar = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255

    expected = host_step_torch(*cpu_only_function(operation))(planar, drawn)
    assert (zoom_blur(planar, drawn) - expected).abs().max() * 255 < operation.tolerance
    other = zoom_blur(planar, drawn | {"largest": drawn["largest"] + 0.3})
    assert size == (1, 1) or (other - expected).abs().max() * 255 > operation.tolerance


@pytest.mark.parametrize("size", [3, 5, 11])
def test_the_median_for_devices_is_opencvs(size):
    """Medians in torch are OpenCV's, on uint8 and on float32, at the border too."""
    images = pixels((9, 21))
    planar = torch.from_numpy(images).permute(0, 3, 1, 2)
    expected = np.stack([cv2.medianBlur(image, size) for image in images])

    ours = median(planar, size).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(ours, expected)
    floats = median(planar.float() / 255, size).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(np.rint(floats * 255), expected)


def test_downscale_takes_opencvs_pixels():
    """Nearest pixels are OpenCV's for many sizes and factors."""
    operation = Downscale((0.01, 1.0))
    scales = np.random.default_rng(7).uniform(0.05, 1.0, 300)
    scales[:6] = (0.25, 0.5, 1 / 3, 0.1, 0.75, 1.0)
    for length in (40, 97, 224):
        sources = operation.sources({"scale": scales}, length)
        line = np.arange(length, dtype=np.float32)[None].repeat(length, 0)
        for scale, source in zip(scales, sources, strict=True):
            small = cv2.resize(line, None, fx=scale, fy=scale, interpolation=cv2.INTER_NEAREST)
            back = cv2.resize(small, (length, length), interpolation=cv2.INTER_NEAREST)
            np.testing.assert_array_equal(back[0], source)


@pytest.mark.parametrize(("dtype", "white"), [("uint8", 255), ("float32", 1.0)])
def test_a_host_step_gets_what_it_asked_for(dtype, white):
    """Values come in the right type and range, with the row; uint8 stays uint8."""
    seen = []

    def invert(image: np.ndarray, params: dict, row: int) -> np.ndarray:
        seen.append((image.dtype.name, image.shape, float(params["weight"][row])))
        return white - image

    step = host_step_torch(invert, dtype)
    images = torch.from_numpy(pixels((4, 5), 2)).permute(0, 3, 1, 2).contiguous()
    params = {"apply": np.ones(2, bool), "weight": np.array([3.0, 4.0])}

    floats = step(images.float() / 255, params)
    assert torch.equal((floats * 255).round(), 255.0 - images)
    whole = step(images, params)
    assert torch.equal((whole * (1 if dtype == "uint8" else 255)).round().float(), 255.0 - images)
    assert whole.dtype == (torch.uint8 if dtype == "uint8" else torch.float32)
    assert seen[:2] == [(dtype, (4, 5, 3), 3.0), (dtype, (4, 5, 3), 4.0)]
