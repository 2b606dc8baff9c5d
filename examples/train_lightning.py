"""Train with a Lightning Trainer; its checkpoints hold where the data stand.

python examples/train_lightning.py [DATA] --steps 20
python examples/train_lightning.py [DATA] --steps 40      # goes on from train_lightning.ckpt
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from arguments import parse_arguments
from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torchvision.models.resnet import BasicBlock, ResNet

from dali_pipes import Batch, Loader
from dali_pipes.integrations.lightning import LoaderModule
from gpu_aug import Recipe
from readers import open_dataset


class Classifier(LightningModule):
    """A small ResNet that prints and keeps its losses."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=num_classes)
        self.losses: list[float] = []

    def training_step(self, batch: Batch) -> torch.Tensor:
        """Take one step."""
        loss = F.cross_entropy(self.model(batch.images), batch.labels)
        self.losses.append(loss.item())
        print(f"epoch {self.current_epoch} step {self.global_step + 1}: loss {loss:.4f}")
        return loss

    def validation_step(self, batch: Batch) -> None:
        """Note the share of photographs that are told rightly."""
        right = self.model(batch.images).argmax(1) == batch.labels
        self.log("accuracy", right.float().mean(), batch_size=len(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return what steps."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Train; return the losses of this run's steps."""
    given = parse_arguments(argv, steps=40, checkpoint="train_lightning.ckpt")
    torch.manual_seed(0)
    train, val = open_dataset(given.data).split(0.75, 0.25, seed=0)
    data = LoaderModule(
        train=lambda: Loader(train, Recipe.imagenet_train(size=64), batch_size=16),
        val=lambda: Loader.eval(val, Recipe.imagenet_eval(size=64), batch_size=16),
    )
    model = Classifier(len(train.class_names))
    place = given.checkpoint.with_suffix(".ckpt")
    keep = ModelCheckpoint(
        place.parent, place.stem, every_n_train_steps=1, enable_version_counter=False
    )
    trainer = Trainer(
        max_steps=given.steps, callbacks=[keep], logger=False, enable_progress_bar=False
    )
    trainer.fit(model, data, ckpt_path=place if place.exists() else None)
    if not model.losses:
        print(f"{place} is at step {trainer.global_step} already; give a larger --steps")
    return model.losses


if __name__ == "__main__":
    main()
