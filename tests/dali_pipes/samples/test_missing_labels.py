"""The README's loop on data without labels: our sentence, not that of torch; and labels that do not fit float32."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from dali_pipes import Field, Loader, LoaderError
from dali_pipes.samples.read_field import FieldError, read_field
from gpu_aug import CenterCrop, Recipe
from readers.sample import SourceError
from tests.support.small import SmallDataset, make_small

COUNT = 6
RECIPE = Recipe([CenterCrop(8)])
LOSSES: list[Callable[[torch.Tensor, torch.Tensor], Any]] = [
    functional.cross_entropy,
    torch.nn.CrossEntropyLoss(),
    lambda logits, labels: functional.cross_entropy(input=logits, target=labels),
    lambda logits, labels: functional.cross_entropy(logits, labels.view(-1).to("cpu").long()),
    lambda logits, labels: functional.nll_loss(logits.log_softmax(1), labels),
    lambda logits, labels: functional.multi_margin_loss(logits, labels),
    lambda logits, labels: functional.one_hot(labels, logits.shape[1]),
    lambda logits, labels: functional.cross_entropy(logits, copy.deepcopy(labels)),
]


@pytest.fixture(scope="module")
def small(jpeg: Callable[..., bytes]) -> SmallDataset:
    """6 pictures of three classes."""
    return make_small(jpeg, COUNT)


def labels_of(dataset: Any, **options: Any) -> torch.Tensor:
    with Loader.eval(dataset, RECIPE, batch_size=COUNT, device="cpu", **options) as loader:
        found = next(iter(loader)).labels
    assert isinstance(found, torch.Tensor)
    return found


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("labels", [[0, None, 2, None, 1, 1], [None] * COUNT])
def test_losses_refuse_missing_labels(
    small: SmallDataset, labels: list[int | None], loss: Callable[..., Any]
) -> None:
    """They say how many there are, and what to do."""
    batch = labels_of(small.with_labels(labels))
    count = labels.count(None)
    with pytest.raises(LoaderError, match=rf"{count} of 6 labels of the batch are -1.*labels="):
        loss(torch.zeros(COUNT, 3), batch)


def test_all_else_works(small: SmallDataset) -> None:
    """Missing labels are numbers like others; who ignores or leaves them out gets what torch gives."""
    missing = labels_of(small.with_labels([0, None, 2, None, 1, 1]))
    plain = torch.tensor([0, -1, 2, -1, 1, 1])
    logits = torch.randn(COUNT, 3, requires_grad=True)
    expected = functional.cross_entropy(logits, plain, ignore_index=-1)

    assert (missing.dtype, missing.tolist()) == (torch.int64, plain.tolist())
    assert torch.equal(missing, plain)
    assert (missing == plain).all()
    assert functional.cross_entropy(logits, missing, ignore_index=-1) == expected
    there = missing >= 0
    assert type(missing[there]) is torch.Tensor
    assert functional.cross_entropy(logits[there], missing[there]) == expected
    expected.backward()
    stream = io.BytesIO()
    torch.save(missing, stream)
    stream.seek(0)
    for loaded in (pickle.loads(pickle.dumps(missing)), torch.load(stream)):
        assert torch.equal(loaded, plain)


def test_labels_that_are_there_are_plain(small: SmallDataset) -> None:
    """So that nothing is asked of them."""
    assert type(labels_of(small)) is torch.Tensor


@pytest.mark.parametrize("value", [1e300, 3.5e38, float("inf"), 10**39])
def test_vectors_that_exceed_float32(small: SmallDataset, value: float) -> None:
    """They are refused when they are given, never infinite."""
    vectors: list[list[float]] = [[0.5, 1]] * (COUNT - 1) + [[value, 1]]
    with pytest.raises(SourceError, match=r"labels.* (does not fit float32|not a vector)"):
        small.with_labels(vectors)


@pytest.mark.parametrize(
    ("field", "text", "says"),
    [
        (Field(float), b"1e300", r"does not fit torch\.float32"),
        (Field(float), b"-4e38", r"does not fit torch\.float32"),
        (Field(np.ndarray, dtype=torch.float32, shape=(2,)), b"[0.5, 1e300]", "overflow"),
    ],
)
def test_fields_that_exceed_float32(field: Any, text: bytes, says: str) -> None:
    """Such a number is a bad sample, also in an array in JSON."""
    with pytest.raises(FieldError, match=says):
        read_field({"number": text}, "number", field.value)
    assert Field(float).value(b"inf") == float("inf")
