"""Further fields of samples: read as declared, beside the right images, and refused where they cannot be had."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import (
    BadSampleError,
    Clips,
    Execution,
    Field,
    ImageOptions,
    Loader,
    LoaderError,
    NumberMap,
)
from dali_pipes.samples.fields import read_untyped
from gpu_aug import CenterCrop, HorizontalFlip, MixUp, Recipe, Resize
from readers import Dataset, mix, open_dataset
from tests.support.tars import write_samples
from tests.support.videos import pan, write_video

NUM_SAMPLES = 11
RECIPE = Recipe([Resize((12, 16)), HorizontalFlip(), CenterCrop(8)])


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def embedding_of(number: int) -> np.ndarray:
    return np.arange(number, number + 3, dtype=np.float32)


@pytest.fixture(scope="module")
def samples(jpeg: Callable[..., bytes]) -> dict[str, dict[str, bytes]]:
    return {
        f"{number:02d}": {
            "jpg": jpeg(12, 16, seed=number),
            "cls": str(number).encode(),
            "txt": f"picture {number} - ü".encode(),
            "json": json.dumps({"id": number, "tags": ["a"] * (number % 3)}).encode(),
            "npy": npy(embedding_of(number)),
            "raw": embedding_of(number).tobytes(),
            "score": f"{number / 4}\n".encode(),
        }
        for number in range(NUM_SAMPLES)
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, samples: Any) -> Dataset:
    return open_dataset(write_samples(tmp_path_factory.mktemp("fields") / "a.tar", samples))


def lengths(text: bytes) -> list[int]:
    """A tokeniser that can be imported."""
    return [len(word) for word in text.decode().split()]


EVERY_WAY: dict[str, Any] = {
    "txt": str,
    "json": "json",
    "npy": Field(np.ndarray, dtype=torch.float32, shape=(3,)),
    "raw": Field(bytes, dtype=torch.float32, shape=(3,)),
    "score": float,
    "cls": int,
}


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"execution": Execution(helper_process=True)}, marks=pytest.mark.long)],
    ids=["threads", "process"],
)
def test_fields_are_of_the_samples_whose_images_they_stand_beside(
    dataset: Dataset, options: dict[str, Any]
) -> None:
    loader = Loader(dataset, RECIPE, batch_size=4, fields=EVERY_WAY, device="cpu", **options)
    for batch in loader:
        numbers = batch.labels.tolist()
        assert batch["cls"].tolist() == numbers
        assert batch.fields["cls"].dtype == torch.int64
        assert batch["txt"] == [f"picture {number} - ü" for number in numbers]
        assert [each["id"] for each in batch["json"]] == numbers
        expected = torch.from_numpy(np.stack([embedding_of(number) for number in numbers]))
        torch.testing.assert_close(batch["npy"], expected, rtol=0, atol=0)
        torch.testing.assert_close(batch["raw"], expected, rtol=0, atol=0)
        torch.testing.assert_close(batch["score"], batch.labels.float() / 4, rtol=0, atol=0)
    loader.close()


def test_names_alone_are_read_as_text_json_and_numpy_files(dataset: Dataset) -> None:
    batch = Loader(dataset, RECIPE, batch_size=4, fields=["txt", "json", "npy"]).peek()
    assert [type(batch[name][0]) for name in ("txt", "json", "npy")] == [str, dict, torch.Tensor]
    assert isinstance(batch["npy"], list)


def test_a_function_runs_in_the_loaders_threads_and_its_result_is_stacked(dataset: Dataset) -> None:
    import threading

    seen = []

    def tokenize(text: bytes) -> list[int]:
        seen.append(threading.current_thread() is threading.main_thread())
        return lengths(text)

    tokens = Field(tokenize, dtype=torch.int32, shape=(4,))
    batch = next(iter(Loader(dataset, RECIPE, batch_size=4, fields={"txt": tokens})))
    assert batch["txt"].dtype == torch.int32
    assert [row[:3] for row in batch["txt"].tolist()] == [
        [7, len(str(number)), 1] for number in batch.labels.tolist()
    ]
    assert not all(seen)


def test_a_field_that_cannot_be_read_makes_a_bad_sample(tmp_path: Path, samples: Any) -> None:
    broken = {key: dict(fields) for key, fields in samples.items()}
    broken["03"]["score"] = b"much"
    data = open_dataset(write_samples(tmp_path / "a.tar", broken))
    options: dict[str, Any] = {"batch_size": 11, "shuffle": "none", "fields": {"score": float}}
    with pytest.raises(
        BadSampleError, match="the field 'score': it cannot be read: could not convert"
    ):
        next(iter(Loader(data, RECIPE, **options)))
    loader = Loader(data, RECIPE, on_bad_sample="skip", **options)
    batch = next(iter(loader))
    assert batch.labels.tolist() == [number for number in range(11) if number != 3]
    assert batch["score"].tolist() == [number / 4 for number in batch.labels.tolist()]
    assert [record.stage for record in loader.bad_samples] == ["fields"]


def test_a_mixture_may_lack_a_field_that_has_a_default(
    tmp_path: Path, dataset: Dataset, samples: Any
) -> None:
    bare = {key: {"jpg": fields["jpg"], "cls": b"0"} for key, fields in samples.items()}
    both = mix([dataset, open_dataset(write_samples(tmp_path / "b.tar", bare))])
    with pytest.raises(
        LoaderError,
        match=r"b\.tar/00: the field 'txt' is missing; the sample has jpg.*give Field\(default=",
    ):
        Loader(both, RECIPE, batch_size=22, fields=["txt"])
    fields = {"txt": Field(str, default=""), "npy": Field(np.ndarray, torch.float32, (3,), [0] * 3)}
    batch = Loader(both, RECIPE, batch_size=22, fields=fields).peek()
    without = [text == "" for text in batch["txt"]]
    assert (sum(without), (batch["npy"] == 0).all(1).tolist()) == (NUM_SAMPLES, without)


def test_clips_have_the_fields_of_their_videos(tmp_path: Path) -> None:
    samples = {}
    for number in range(2):
        write_video(tmp_path / "a.mp4", pan(8, (32, 32), seed=number))
        content = (tmp_path / "a.mp4").read_bytes()
        samples[f"{number}"] = {"mp4": content, "txt": f"video {number}".encode()}
    clips = Clips(open_dataset(write_samples(tmp_path / "a.tar", samples)), num_frames=2, stride=1)
    batch = Loader(clips, RECIPE, batch_size=2, fields=["txt"]).peek()
    assert batch.videos is not None
    assert [f"a.tar/{text[-1]}" for text in batch["txt"]] == batch.videos


def test_mixed_images_keep_the_fields_of_their_own_row(dataset: Dataset) -> None:
    recipe = Recipe([Resize((8, 8)), MixUp(num_classes=NUM_SAMPLES)])
    batch = Loader(dataset, recipe, batch_size=4, fields={"cls": int}, shuffle="none").peek()
    assert batch["cls"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("txt", r"give names, such as \[\"caption\"\]"),
        (["labels"], "batch.labels is something else"),
        (["caption"], "the field 'caption' is missing"),
        (["jpg"], "'jpg': it cannot be read: 'utf-8' codec"),
        ({"txt": 3}, r"Field\(read=3\) is not known"),
        ({"txt": float}, "the field 'txt': it cannot be read: could not convert"),
        ({"txt": "json"}, "it cannot be read: Expecting value"),
        ({"npy": Field(np.ndarray, dtype=torch.float32, shape=(4,))}, r"\[3\], declared is \[4\]"),
        (
            {"raw": Field(bytes, dtype=torch.float32, shape=(4,))},
            r"shape '\[4\]' is invalid for input of size 3",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_at_construction(
    dataset: Dataset, fields: Any, said: str
) -> None:
    with pytest.raises(LoaderError, match=said):
        Loader(dataset, RECIPE, batch_size=4, fields=fields)


def test_text_that_is_json_is_text_unless_told_otherwise(tmp_path: Path, samples: Any) -> None:
    data = write_samples(tmp_path / "a.tar", {"0": {**samples["00"], "vector": b"[1.5, 2]"}})
    batch = Loader(open_dataset(data), RECIPE, batch_size=1, fields=["vector"]).peek()
    assert batch["vector"] == ["[1.5, 2]"]
    way = Field(np.ndarray, dtype=torch.float32, shape=(2,))
    batch = Loader(open_dataset(data), RECIPE, batch_size=1, fields={"vector": way}).peek()
    assert batch["vector"].tolist() == [[1.5, 2]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"read": str, "dtype": torch.float32}, "is not a number"),
        ({"read": ["a"]}, r"Field\(read=\['a'\]\) is not known; give str"),
        ({"read": np.ndarray, "shape": (3,)}, "lacks a dtype"),
        ({"read": bytes, "dtype": torch.float32}, "lacks a shape"),
        ({"read": np.ndarray, "dtype": torch.float32, "pad": 0}, "lacks a shape to fill up"),
    ],
)
def test_fields_that_contradict_themselves_are_refused(arguments: Any, said: str) -> None:
    with pytest.raises(LoaderError, match=said):
        Field(**arguments)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"images": ImageOptions(fields={"r": "rigth.jpg"})},
            r"/00: the field 'rigth.jpg' is missing; the sample has jpg",
        ),
        (
            {"images": ImageOptions(fields={"r": "txt"})},
            "the field 'txt': not an image.*: give fields",
        ),
        (
            {"images": ImageOptions(maps={"depth": NumberMap("depth.png", scale=1)})},
            "the field 'depth.png' is missing",
        ),
    ],
)
def test_images_and_maps_that_the_data_lacks_are_refused_at_construction(
    dataset: Dataset, options: Any, said: str
) -> None:
    with pytest.raises(LoaderError, match=said):
        Loader(dataset, RECIPE, batch_size=4, **options)


def test_a_substitute_of_a_damaged_image_brings_its_own_fields(
    tmp_path: Path, samples: Any
) -> None:
    damaged = {key: dict(fields) for key, fields in samples.items()}
    damaged["03"]["jpg"] = damaged["03"]["jpg"][:-60]  # its header is sound
    data = open_dataset(write_samples(tmp_path / "a.tar", damaged))
    options: dict[str, Any] = {
        "shuffle": "none",
        "on_bad_sample": "replace",
        "fields": {"cls": int},
    }
    loader = Loader(data, RECIPE, batch_size=NUM_SAMPLES, **options)
    batch = next(iter(loader))
    assert [record.stage for record in loader.bad_samples] == ["decode"]
    assert batch["cls"].tolist() == batch.labels.tolist() != list(range(NUM_SAMPLES))


@pytest.mark.parametrize("place", [0, 3, 6, 40, -1])
def test_a_broken_numpy_file_is_bad_and_never_text(
    tmp_path: Path, jpeg: Callable[..., bytes], place: int
) -> None:
    """Whatever byte of its header is damaged, and where it is cut off, if only the field's name is given."""
    whole = npy(embedding_of(1))
    damaged = bytearray(whole)
    damaged[place] = ord("n")
    huge = whole.replace(b"(3,), }" + b" " * 12, b"(1000000000000,), }")
    assert len(huge) == len(whole)
    files = {
        "huge": huge,
        "0": whole,
        "1": bytes(damaged) if place >= 0 else whole[:-1],
        "2": b"",
        "3": b"text",
    }
    samples = {name: {"jpg": jpeg(12, 16), "emb.npy": data} for name, data in files.items()}
    loader = Loader(
        open_dataset(write_samples(tmp_path / "a.tar", samples)),
        RECIPE,
        batch_size=5,
        fields=["emb.npy"],
        on_bad_sample="skip",
        max_bad_samples=9,
        shuffle="none",
        last_batch="partial",
    )
    [batch] = loader

    assert batch.keys == ["a.tar/0"]
    assert isinstance(batch["emb.npy"][0], torch.Tensor)
    assert [record.stage for record in loader.bad_samples] == ["fields"] * 4
    assert "buffer is too small" in loader.bad_samples[0].reason  # nothing was allocated


def test_a_column_of_numpy_files_has_no_text() -> None:
    """Where no name says what it is, a NumPy file with a damaged first byte is not read as text."""
    with pytest.raises(ValueError, match="codec can't decode"):
        read_untyped(b"x" + npy(embedding_of(1))[1:])
