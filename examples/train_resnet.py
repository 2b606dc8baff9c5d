"""Train a small ResNet; a run that is stopped goes on as if it had not been.

python examples/train_resnet.py [DATA] --steps 20
python examples/train_resnet.py [DATA] --steps 40      # goes on from train_resnet.pt
torchrun --nnodes 1:3 --max-restarts 10 --rdzv-backend c10d --rdzv-endpoint HOST:29400 examples/train_resnet.py [DATA]

Under torchrun, on each of up to three machines with one folder in common, machines may die and come back.
"""

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.nn.functional as F
from arguments import parse_arguments
from torch.nn.parallel import DistributedDataParallel
from torchvision.models.resnet import BasicBlock, ResNet

from dali_pipes import Loader, Monitoring
from gpu_aug import Recipe
from readers import open_dataset


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    given = parse_arguments(argv, steps=40, checkpoint="train_resnet.pt")
    torch.manual_seed(0)
    photos = open_dataset(given.data)
    recipe = Recipe.imagenet_train(size=64)
    audit, num_processes, is_first, under_torchrun = None, 1, True, "RANK" in os.environ
    if under_torchrun:
        dist.init_process_group()
        num_processes, is_first = dist.get_world_size(), dist.get_rank() == 0
        audit = f"{given.checkpoint.with_suffix('')}-{{rank}}.jsonl"
    loader = Loader(
        photos, recipe, batch_size=16 // num_processes, monitoring=Monitoring(audit=audit)
    )
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=len(photos.class_names))
    model = model.to(loader.device, memory_format=torch.channels_last)
    forward = DistributedDataParallel(model) if under_torchrun else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    if given.checkpoint.exists():
        saved = torch.load(given.checkpoint, map_location=loader.device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    if step >= given.steps:
        print(f"{given.checkpoint} is at step {step} already; give a larger --steps")

    losses: list[float] = []
    while step < given.steps:
        for batch in loader:  # one epoch, or the rest of the one that was stopped
            loss = F.cross_entropy(forward(batch.images), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
            print(f"epoch {loader.epoch} step {step}: loss {losses[-1]:.4f}")
            if is_first and given.saves_at(step):
                saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                with given.saving() as file:
                    torch.save({**saved, "step": step, "loader": loader.state_dict()}, file)
            if step >= given.steps:
                break
    if under_torchrun:
        dist.destroy_process_group()
    return losses


if __name__ == "__main__":
    main()
