"""The logger gpu_aug says what was opened, chosen and begun, and nothing at all unless somebody asks for it."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from readers import open_dataset
from readers.storage.paths import shown_path
from tests.support.loaders import loader_maker
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What one line of setting up brings."""
    caplog.set_level(logging.INFO, "gpu_aug")
    return caplog


def lines(told: pytest.LogCaptureFixture, *names: str) -> list[tuple[str, str]]:
    """Level and text of what a part of the project said."""
    return [
        (record.levelname, record.getMessage())
        for record in told.records
        if record.name.startswith(tuple(f"gpu_aug.{name}" for name in names))
    ]


load = loader_maker(RECIPE, seed=3)


def test_opening(
    told: pytest.LogCaptureFixture, jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    """The format, the number of samples and the time."""
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jpg").write_bytes(jpeg(20, 30))
    open_dataset(tmp_path)
    [(level, text)] = lines(told, "readers")
    assert level == "INFO"
    assert text.startswith(f"opened {tmp_path} as folder: 2 samples, in ")


def test_indexing(
    told: pytest.LogCaptureFixture, jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    """An index that is built is told with where it is kept; one that is found is not."""
    (tmp_path / "a.jpg").write_bytes(jpeg(20, 30))
    shutil.make_archive(str(tmp_path / "shard"), "tar", tmp_path, "a.jpg")
    path = tmp_path / "shard.tar"
    open_dataset(path)
    open_dataset(path)
    indexed, opened, again = (text for _, text in lines(told, "readers"))
    assert indexed.startswith(f"indexed {path}: 1 samples, in ")
    assert indexed.endswith(f"kept in {path}.gpuaug-index")
    assert opened.startswith(f"opened {path} as tar: 1 samples")
    assert again.startswith("opened ")


def test_secrets_of_urls() -> None:
    """What may be secret in a URL is not told."""
    assert "abc" not in shown_path("https://store.example/a.tar?X-Amz-Signature=abc")
    assert shown_path("/tmp/a?b.tar") == "/tmp/a?b.tar"


def test_a_run(told: pytest.LogCaptureFixture, jpeg: Callable[..., bytes]) -> None:
    """What was chosen and why, where an epoch begins, what it was in the end, and a state that is loaded."""
    loader = load(make_small(jpeg, 20))
    next(iter(loader))
    loader.load_state_dict(loader.state_dict())
    for _ in loader:
        pass
    said = [
        text
        for level, text in lines(told, "dali_pipes.loader", "dali_pipes.stages.loops")
        if level == "INFO"
    ]
    made, begins, left, loaded, goes_on, over = said
    assert made.startswith(f"made {loader!r}".split(" epoch=")[0])
    assert "decoder cpu: asked for" in made
    assert begins == "epoch 0 begins after 0 of its samples"
    assert left.startswith("a loop is over: epoch 0: 4 samples in 1 batch")
    assert loaded == "a state was loaded: epoch 0 goes on after 4 samples"
    assert goes_on == "epoch 0 begins after 4 of its samples"
    assert over.startswith("a loop is over: epoch 0: 16 samples in 4 batches")


def test_bad_samples(told: pytest.LogCaptureFixture, jpeg: Callable[..., bytes]) -> None:
    """Each is a warning, with its key and the reason."""
    dataset = make_small(jpeg, 20)
    dataset.images[5] = b"no image"
    for _ in load(dataset, on_bad_sample="replace"):
        pass
    [text] = [text for level, text in lines(told, "dali_pipes") if level == "WARNING"]
    assert "(sample 5, epoch 0, step " in text
    assert "bad, replace: header: not an image" in text


@pytest.mark.parametrize("name", ["gpu_aug", "gpu_aug.readers"])
def test_nothing_is_printed(name: str) -> None:
    """Without a handler Python would print warnings; packages of ours have one that does nothing."""
    handlers = logging.getLogger(name).handlers
    assert any(isinstance(one, logging.NullHandler) for one in handlers)
