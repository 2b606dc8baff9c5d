"""Train a small ResNet; a run that is stopped goes on as if it had not been.

python examples/train_resnet.py [DATA] --steps 20
python examples/train_resnet.py [DATA] --steps 40      # goes on from train_resnet.pt
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from arguments import parse_arguments
from torchvision.models.resnet import BasicBlock, ResNet

from dali_pipes import Loader
from gpu_aug import Recipe
from readers import open_dataset


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    given = parse_arguments(argv, steps=40, checkpoint="train_resnet.pt")
    torch.manual_seed(0)
    photos = open_dataset(given.data)
    recipe = Recipe.imagenet_train(size=64)
    loader = Loader(photos, recipe, batch_size=16)
    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=len(photos.class_names))
    model = model.to(loader.device, memory_format=torch.channels_last)
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
            loss = F.cross_entropy(model(batch.images), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            step += 1
            print(f"epoch {loader.epoch} step {step}: loss {losses[-1]:.4f}")
            if given.saves_at(step):
                saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                with given.saving() as file:
                    torch.save({**saved, "step": step, "loader": loader.state_dict()}, file)
            if step >= given.steps:
                break
    return losses


if __name__ == "__main__":
    main()
