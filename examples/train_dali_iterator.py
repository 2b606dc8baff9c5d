"""A training script for NVIDIA DALI's PyTorch iterator, with its import changed and a Loader for its pipeline.

python examples/train_dali_iterator.py [DATA] --steps 20
python examples/train_dali_iterator.py [DATA] --steps 40      # goes on from train_dali_iterator.pt
"""

import json
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from arguments import parse_arguments
from torchvision.models.resnet import BasicBlock, ResNet

from dali_pipes import Loader
from dali_pipes.integrations.dali import (  # was nvidia.dali.plugin
    DALIClassificationIterator,
    LastBatchPolicy,
)
from gpu_aug import Recipe
from readers import open_dataset


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    given = parse_arguments(argv, steps=40, checkpoint="train_dali_iterator.pt")
    torch.manual_seed(0)
    photos = open_dataset(given.data)
    pipeline = Loader(photos, Recipe.imagenet_train(size=64), batch_size=16)
    saved = torch.load(given.checkpoint) if given.checkpoint.exists() else None
    if saved:
        pipeline.load_state_dict(json.loads(saved["iterator"][0]))
    train_iter = DALIClassificationIterator(
        pipeline, reader_name="Reader", auto_reset=True, last_batch_policy=LastBatchPolicy.DROP
    )
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=len(photos.class_names))
    model = model.to(pipeline.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    if step >= given.steps:
        print(f"{given.checkpoint} is at step {step} already; give a larger --steps")

    losses: list[float] = []
    while step < given.steps:
        for data in train_iter:
            images = data[0]["data"]
            labels = data[0]["label"].squeeze(-1).long()
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
            print(f"step {step}: loss {losses[-1]:.4f}")
            if given.saves_at(step):
                saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                with given.saving() as file:
                    torch.save({**saved, "step": step, "iterator": train_iter.checkpoints()}, file)
            if step >= given.steps:
                break
    return losses


if __name__ == "__main__":
    main()
