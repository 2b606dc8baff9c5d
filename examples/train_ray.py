"""Train a small ResNet on as many Ray workers as there are: machines may die and come back, no sample is lost or seen twice.

python examples/train_ray.py [DATA] --steps 40             # the cluster at RAY_ADDRESS, else this machine alone
python examples/train_ray.py [DATA] --steps 80             # goes on from the folder train_ray
gpu-aug audit train_ray/audit                              # each sample of each epoch exactly once

DATA, and the folder that --checkpoint names, must lie where all machines find them.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from arguments import SAVE_EVERY, parse_arguments
from torchvision.models.resnet import BasicBlock, ResNet

from dali_pipes import Loader, Monitoring
from dali_pipes.integrations.ray.cluster import connect
from gpu_aug import Recipe
from readers import open_dataset

try:
    import ray.train
    from ray.train.torch import TorchTrainer, prepare_model
except ImportError as error:
    raise SystemExit(
        f"this example needs Ray Train ({error}): pip install 'gpu-aug[ray]'"
    ) from None

GLOBAL_BATCH = 12  # samples of a step, of all workers together: 12, 6 or 4 each


def train(given: dict[str, Any]) -> None:
    """Be one worker; all of them begin anew, from the latest checkpoint, when their number changes."""
    torch.manual_seed(0)
    num_workers = ray.train.get_context().get_world_size()
    photos = open_dataset(given["data"])
    loader = Loader(
        photos,
        Recipe.imagenet_train(size=64),
        batch_size=GLOBAL_BATCH // num_workers,
        monitoring=Monitoring(audit=f"{given['folder']}/audit/rank-{{rank}}.jsonl"),
    )
    resnet = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=len(photos.class_names))
    model = prepare_model(resnet)  # on the device, and its gradients those of all workers
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(f"{folder}/saved.pt", map_location=loader.device)
        resnet.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        step = saved["step"]
    while step < given["steps"]:
        for batch in loader:  # one epoch, or the rest of the one that was interrupted
            loss = F.cross_entropy(model(batch.images), batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % SAVE_EVERY == 0 or step == given["steps"]:
                saved = {"model": resnet.state_dict(), "optimizer": optimizer.state_dict()}
                report({**saved, "loader": loader.state_dict(), "step": step}, loss.item())
            if step >= given["steps"]:
                break


def report(saved: dict[str, Any], loss: float) -> None:
    """Tell Ray where training stands; all workers wait for each other here, and rank 0 saves."""
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if ray.train.get_context().get_world_rank() == 0:
            torch.save(saved, f"{folder}/saved.pt")
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report({"step": saved["step"], "loss": loss}, checkpoint=checkpoint)


def main(argv: Sequence[str] | None = None) -> None:
    """Train on one to three workers, whatever the cluster has room for."""
    given = parse_arguments(argv, steps=40, checkpoint="train_ray")
    folder = given.checkpoint.resolve()
    (folder / "audit").mkdir(parents=True, exist_ok=True)
    connect()
    trainer = TorchTrainer(
        train,
        train_loop_config={
            "data": str(Path(given.data).resolve()),
            "folder": str(folder),
            "steps": given.steps,
        },
        scaling_config=ray.train.ScalingConfig(
            num_workers=(1, 3),
            use_gpu=torch.cuda.is_available(),
            elastic_resize_monitor_interval_s=10,
        ),
        run_config=ray.train.RunConfig(
            name=folder.name,
            storage_path=str(folder.parent),
            failure_config=ray.train.FailureConfig(max_failures=10),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    )
    print(f"at the end: {trainer.fit().metrics}")


if __name__ == "__main__":
    main()
