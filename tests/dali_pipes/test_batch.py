"""What a batch answers: by name, unpacked, moved."""

import pytest
import torch

from dali_pipes import Batch


def make(**more: object) -> Batch:
    images = torch.zeros(2, 3, 4, 4)
    labels, indices = torch.tensor([0, 1]), torch.tensor([7, 8])
    return Batch(images, labels, indices, ["a", "b"], torch.tensor([True, True]), **more)  # type: ignore[arg-type]


def test_a_batch_unpacks_to_images_and_labels() -> None:
    batch = make()
    images, labels = batch
    assert images is batch.images
    assert labels is batch.labels


def test_names_lead_to_attributes_and_further_fields() -> None:
    batch = make(fields={"caption": ["x", "y"]}, boxes=[torch.zeros(0, 4), torch.ones(1, 4)])
    assert batch["images"] is batch.images
    assert batch["caption"] == ["x", "y"]
    assert "boxes" in batch
    assert "masks" not in batch
    assert list(batch.to_dict()) == [
        *("images", "labels", "indices", "keys", "valid", "boxes", "caption"),
    ]
    with pytest.raises(KeyError, match="a batch has no 'masks'; it has images, labels"):
        batch["masks"]


def test_views_have_a_name_where_there_are_several() -> None:
    views = (torch.zeros(2, 3, 4, 4), torch.zeros(2, 3, 2, 2))
    assert "views" not in make()
    assert make(views=views)["views"] is views


def test_moving_takes_all_that_lies_on_the_loaders_device_and_nothing_else() -> None:
    fields = {"score": torch.zeros(2), "caption": ["x", "y"]}
    batch = make(fields=fields, boxes=[torch.zeros(1, 4)] * 2, masks=torch.zeros(2, 4, 4))
    moved = batch.to("meta", non_blocking=True)
    assert type(moved) is Batch
    on_device = [moved.images, moved.labels, moved.views[0], moved.masks, moved["score"]]
    assert {one.device.type for one in [*on_device, *moved["boxes"]]} == {"meta"}
    assert {moved.indices.device.type, moved.valid.device.type} == {"cpu"}
    assert moved["caption"] == ["x", "y"]
    assert moved.views[0] is moved.images
    assert batch.images.device.type == "cpu"
