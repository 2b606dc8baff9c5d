"""Fields of a dataset of one's own that are no bytes: converted once, or a bad sample with the reason."""

import io
import json
import re
from typing import Any

import numpy as np
import pytest
import torch

from dali_pipes import Field, Loader, LoaderError
from gpu_aug import Recipe, Resize
from readers import BadSample, CustomDataset, IndexedDataset, Sample
from tests.support.jpegs import encode, picture

JPEG = encode(picture(16, 24, 0), "4:2:0")
RECIPE = Recipe([Resize((16, 24))])
VALUES: dict[str, Any] = {
    "txt": "a cät",
    "n": 3,
    "score": np.float32(0.5),
    "vector": np.arange(3, dtype=np.float32),
    "tags": ["a", "b"],
    "json": {"boxes": np.array([[0, 1, 8, 9.0]]), "labels": torch.tensor([5])},
}
WAYS = {"txt": str, "n": int, "score": float, "vector": np.ndarray, "tags": "json"}


class Own(CustomDataset):
    """Two samples, of which the second has other fields."""

    def __init__(self, fields: dict[Any, Any], label: Any = 0) -> None:
        self.fields, self.label = fields, label

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: Any) -> Any:
        return Sample(
            index, f"k{index}", {"jpg": JPEG, **(self.fields if index else VALUES)}, self.label
        )


class Fetching(CustomDataset):
    """The same, read several at a time."""

    def __len__(self) -> int:
        return 2

    def fetch(self, indices: Any) -> Any:
        """All of them are sound."""
        return [Sample(int(n), f"k{n}", {"jpg": JPEG, **VALUES}, 0) for n in indices]


@pytest.mark.parametrize("dataset", [Own(VALUES), Fetching()], ids=["getitem", "fetch"])
def test_values_reach_the_batch(dataset: CustomDataset) -> None:
    """As what they were; boxes and labels of the field json as targets."""
    sample = dataset.fetch([1])[0]
    assert isinstance(sample, Sample)
    assert np.array_equal(np.load(io.BytesIO(sample.fields["vector"])), VALUES["vector"])
    assert json.loads(bytes(sample.fields["json"]))["labels"] == [5]

    [batch] = Loader.eval(dataset, RECIPE, batch_size=2, device="cpu", fields=WAYS)
    assert (batch.fields["txt"], batch.fields["n"].tolist()) == (["a cät"] * 2, [3, 3])
    assert batch.fields["score"].tolist() == [0.5, 0.5]
    assert [one.tolist() for one in batch.fields["vector"]] == [[0, 1, 2]] * 2
    assert batch.fields["tags"] == [["a", "b"]] * 2
    assert batch.boxes is not None
    assert (batch.boxes[1].tolist(), len(dataset.fingerprint)) == ([[0, 1, 8, 9]], 32)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"txt": {1, 2}}, "the field 'txt': it is or holds what no field can .set of 2 entries"),
        ({"png": "a/b.png"}, "the field 'png' is the path 'a/b.png': give the bytes"),
        ({"png": np.zeros((4, 4, 3), np.uint8)}, r"'png' is ndarray of uint8 .*from_arrays"),
        ({3: b"a"}, "a field has the name 3"),
    ],
    ids=["set", "path", "pixels", "name"],
)
def test_what_no_field_can_hold_is_a_bad_sample(fields: Any, said: str) -> None:
    """With key and reason; its neighbour is sound, and so is the fingerprint."""
    dataset = Own(fields)
    good, bad = dataset.fetch([0, 1])

    assert isinstance(good, Sample)
    assert isinstance(bad, BadSample)
    assert bad.key == "k1"
    assert re.search(said, bad.reason)
    assert len(dataset.fingerprint) == 32


def test_a_dataset_that_hands_out_no_bytes_is_refused() -> None:
    """Of other kinds than ours; the number 3 is not three bytes."""

    class Foreign(IndexedDataset):
        fingerprint = "0" * 32
        value: Any = 3

        def __len__(self) -> int:
            return 1

        def column(self, name: str) -> Any:  # noqa: ARG002
            return np.zeros(1, np.int64)

        def fetch(self, indices: Any) -> Any:
            return [Sample(0, "k", {"jpg": JPEG, "n": 3, "json": '{"boxes": []}'}) for _ in indices]

    with pytest.raises(LoaderError, match="the field 'n': it is the int 3, and a dataset hands"):
        Loader(Foreign(), RECIPE, batch_size=1, device="cpu", fields={"n": bytes})
    with pytest.raises(Exception, match="the field 'json': it is text, and a dataset hands"):
        list(Loader(Foreign(), RECIPE, batch_size=1, device="cpu"))
    with pytest.raises(LoaderError, match="int 3"):
        Loader(Foreign(), RECIPE, batch_size=1, device="cpu", fields={"n": Field(int)})


@pytest.mark.parametrize("label", ["cat", [0, 1]])
def test_labels_that_are_no_numbers(label: Any) -> None:
    """The sentence names what can be done in such a class, and that works."""
    dataset = Own(VALUES, label)
    with pytest.raises(Exception, match=r"not a whole number: .*label_shape.*with_labels\("):
        list(Loader(dataset, RECIPE, batch_size=2, device="cpu", on_bad_sample="raise"))
    named = dataset.with_labels(["cat", "dog"])
    [batch] = Loader.eval(named, RECIPE, batch_size=2, device="cpu")
    assert batch.labels.tolist() == [0, 1]


def test_a_sample_shows_sizes_and_no_contents() -> None:
    """Short whatever it holds."""
    fields = {"jpg": bytes(40_912), "cls": b"1", "big": memoryview(bytes(2_500_000))}

    assert repr(Sample(3, "a/3", fields, 1)) == (
        "Sample(3, 'a/3', {jpg: 40.9 kB, cls: 1 B, big: 2.5 MB}, label=1)"
    )
    assert repr(Sample(0, "k", {}, np.zeros(9, np.float32))).endswith(
        "label=ndarray of float32 [9])"
    )
