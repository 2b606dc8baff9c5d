"""Train from a torchdata.nodes pipeline over a loader: two batches to a step, one step read ahead.

python examples/train_torchdata.py [DATA] --steps 20
python examples/train_torchdata.py [DATA] --steps 40      # goes on from train_torchdata.pt
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
import torchdata.nodes
from arguments import parse_arguments
from torchvision.models.resnet import BasicBlock, ResNet

from dali_pipes import Loader
from dali_pipes.integrations.torchdata import LoaderNode
from gpu_aug import Recipe
from readers import open_dataset


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    given = parse_arguments(argv, steps=40, checkpoint="train_torchdata.pt")
    torch.manual_seed(0)
    photos = open_dataset(given.data)
    loader = Loader(photos, Recipe.imagenet_train(size=64), batch_size=8)
    node = torchdata.nodes.Batcher(LoaderNode(loader), batch_size=2)
    nodes = torchdata.nodes.Loader(
        torchdata.nodes.Prefetcher(node, prefetch_factor=1), restart_on_stop_iteration=False
    )
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=len(photos.class_names)).to(loader.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    if given.checkpoint.exists():
        saved = torch.load(given.checkpoint, map_location=loader.device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        nodes.load_state_dict(saved["nodes"])
        step = saved["step"]
    if step >= given.steps:
        print(f"{given.checkpoint} is at step {step} already; give a larger --steps")

    losses: list[float] = []
    while step < given.steps:
        for batches in nodes:
            optimizer.zero_grad()
            losses.append(0.0)
            for batch in batches:  # their gradients are added up
                loss = F.cross_entropy(model(batch.images), batch.labels) / len(batches)
                loss.backward()
                losses[-1] += loss.item()
            optimizer.step()
            step += 1
            print(f"step {step}: loss {losses[-1]:.4f}")
            if given.saves_at(step):
                saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                with given.saving() as file:
                    torch.save({**saved, "step": step, "nodes": nodes.state_dict()}, file)
            if step >= given.steps:
                break
    return losses


if __name__ == "__main__":
    main()
