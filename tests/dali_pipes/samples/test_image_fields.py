"""What an image loses on its way to three channels of 8 bits is said, once."""

import io
import warnings
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from dali_pipes import Loader
from dali_pipes.decode import opencv
from dali_pipes.samples import image_fields
from gpu_aug import CenterCrop, Recipe
from readers import open_dataset, read_header


@pytest.fixture(autouse=True)
def _nothing_said_yet() -> None:
    image_fields._warn_once.cache_clear()


def encoded(kind: str, pixels: np.ndarray) -> bytes:
    return bytes(cv2.imencode(f".{kind}", pixels)[1])


DEEP = np.full((8, 10), 4000, np.uint16)
DEEP[0, 0] = 300
CLEAR = np.full((8, 10, 4), 90, np.uint8)


@pytest.mark.parametrize("kind", ["png", "tiff", "pgm"])
def test_headers_tell_16_bits(kind: str) -> None:
    """Written by OpenCV with 16 bits and with 8."""
    assert read_header(encoded(kind, DEEP)).bits == 16
    assert read_header(encoded(kind, DEEP.astype(np.uint8))).bits == 8


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_headers_tell_alpha(kind: str, mode: str) -> None:
    """Where Pillow finds it in what it wrote, as a channel or as a transparent colour of a palette."""
    stream = io.BytesIO()
    options = {"transparency": 0} if (kind, mode) == ("PNG", "P") else {}
    Image.fromarray(CLEAR, "RGBA").convert(mode).save(stream, kind, **options)
    with Image.open(io.BytesIO(stream.getvalue())) as opened:
        expected = opened.has_transparency_data

    assert read_header(stream.getvalue()).has_alpha == expected


def test_the_upper_bits_are_kept_and_that_is_said_once() -> None:
    """300 and 4000 become 1 and 15, with the numbers in the warning, and the next image passes in silence."""
    data = encoded("png", DEEP)
    with pytest.warns(UserWarning, match=r"16 bits.*300 and 4000 become 1 and 15 of 255"):
        image = opencv.decode(data, DEEP.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opencv.decode(data, DEEP.shape)

    assert (image[0, 0].tolist(), image[1, 1].tolist()) == ([1, 1, 1], [15, 15, 15])


def test_each_loss_is_said_once() -> None:
    """Afterwards nothing is said, not even where warnings are errors."""
    header = read_header(encoded("png", DEEP))
    with pytest.warns(UserWarning, match="said once"):
        image_fields.warn_of_losses(header)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image_fields.warn_of_losses(header)


def test_a_loader_says_that_alpha_is_left_out(tmp_path: Path) -> None:
    """So does whoever decodes on a thread of a loader; an opaque picture says nothing."""
    for number, pixels in enumerate([CLEAR[..., :3], CLEAR]):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "a.png").write_bytes(encoded("png", pixels))
    loaders = [
        Loader(open_dataset(folder), Recipe([CenterCrop(8)]), batch_size=1, device="cpu")
        for folder in (tmp_path / "0", tmp_path / "1")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loaders[0])
    with pytest.warns(UserWarning, match="alpha channel, which is left out"):
        list(loaders[1])


def test_where_warnings_are_errors_they_are_of_their_image(tmp_path: Path) -> None:
    """Each that loses something is a bad sample, and the loop goes on with the others."""
    (tmp_path / "a").mkdir()
    for number, pixels in enumerate([CLEAR, CLEAR[..., :3], CLEAR, DEEP]):
        (tmp_path / "a" / f"{number}.png").write_bytes(encoded("png", pixels))
    loader = Loader(
        open_dataset(tmp_path),
        Recipe([CenterCrop(8)]),
        batch_size=4,
        shuffle="none",
        device="cpu",
        on_bad_sample="skip",
        max_bad_samples=4,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [batch] = loader

    assert batch.indices.tolist() == [1]
    assert [record.index for record in loader.bad_samples] == [0, 2, 3]
    assert "alpha channel, which is left out" in loader.bad_samples[0].reason
    assert "16 bits" in loader.bad_samples[2].reason
