"""Views and schedules as callables."""

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from gpu_aug import (
    HorizontalFlip,
    MixUp,
    RandomCrop,
    Recipe,
    RecipeError,
    Schedule,
    TemporalReverse,
    Views,
    apply,
)
from tests.gpu_aug.transform.test_transform import Pictures

PIXELS = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
LARGE, SMALL = Recipe([RandomCrop(32), HorizontalFlip()]), Recipe([RandomCrop(16)])


def test_each_view_has_the_draws_of_a_loader() -> None:
    views = Views([LARGE, LARGE, SMALL])
    got = views.transform(seed=3)(PIXELS, index=5)
    [wanted] = apply(views, [{"image": PIXELS}], seed=3, indices=[5])
    assert len(got) == 3
    for image, one in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(image) / 255, one["image"].permute(1, 2, 0))
    assert (got[0] != got[1]).any()


def test_views_are_collated_with_labels_once() -> None:
    views = Views([Recipe([RandomCrop(32), MixUp(num_classes=3)]), SMALL])
    transform = pickle.loads(pickle.dumps(views.transform(seed=3)))
    (first, second), labels = transform.collate([(PIXELS, 0), (PIXELS, 2)])
    assert (first.shape, second.shape) == ((2, 3, 32, 32), (2, 3, 16, 16))
    assert labels.shape == (2, 3)
    images = Views([LARGE, SMALL]).transform().collate([PIXELS])
    assert [image.shape[-1] for image in images] == [32, 16]


def test_views_that_cannot_be_done_are_refused() -> None:
    with pytest.raises(RecipeError, match="mix in the first view alone"):
        Views([SMALL, Recipe([RandomCrop(32), MixUp(num_classes=3)])]).transform()
    clips = Recipe([TemporalReverse(0.5), RandomCrop(16)])
    with pytest.raises(RecipeError, match=r"call gpu_aug.apply\(views, samples\)"):
        Views([clips, clips]).transform()


def test_workers_that_stay_hear_of_the_epoch() -> None:
    transform = Schedule({0: LARGE, 2: SMALL}).transform(seed=0)
    loader = DataLoader(Pictures(transform), batch_size=8, num_workers=1, persistent_workers=True)
    sides = []
    for epoch in range(4):
        transform.set_epoch(epoch)
        sides += [batch.shape[1] for batch in loader]
    assert sides == [32, 32, 16, 16]


def test_a_schedule_must_be_told_the_epoch() -> None:
    transform = Schedule({0: LARGE, 2: SMALL}).transform(seed=7)
    with pytest.raises(RecipeError, match=r"call transform.set_epoch\(epoch\)"):
        transform(PIXELS)
    transform.set_epoch(2)
    [wanted] = apply(SMALL, [{"image": PIXELS}], seed=7, epoch=2, indices=[0])
    got = torch.from_numpy(transform(PIXELS)).permute(2, 0, 1) / 255
    torch.testing.assert_close(got, wanted["image"])
    assert transform.collate([PIXELS]).shape == (1, 3, 16, 16)
    assert Schedule({0: Views([LARGE, SMALL])}).transform()(PIXELS)[1].shape == (16, 16, 3)
