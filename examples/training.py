"""What the training examples share: their command line, the loop, stopping and going on, and several ranks."""

import argparse
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from arguments import Arguments
from figures import mean_over_ranks
from saved_runs import settings_of, steps_done
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dali_pipes import Loader


def parser(*, epochs: int, peer: str | None, checkpoint: str) -> argparse.ArgumentParser:
    """Return the options that all have; --pipeline takes our pipeline, or `peer`'s."""
    made = argparse.ArgumentParser()
    made.set_defaults(is_first=True)
    made.add_argument("--epochs", type=int, default=epochs)
    made.add_argument("--stop", type=_step, help="leave after this step; the next run goes on")
    made.add_argument("--ranks", type=int, default=1, help="processes that train together")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--batch-size", type=int, default=128, help="over all ranks")
    made.add_argument("--lr", type=float, default=3e-3)
    made.add_argument("--checkpoint", type=Path, default=Path(checkpoint))
    made.add_argument(
        "--pipeline", choices=["gpu-aug", *([peer] if peer else [])], default="gpu-aug"
    )
    made.add_argument("--recipe", type=Path, help="a recipe in YAML instead of the example's own")
    made.add_argument("--pace", action="store_true", help="tell images/s without training")
    made.add_argument("--json", type=Path, help="the figures are written there")
    return made


def start(train: Callable[[Namespace], list[float]], given: Namespace) -> list[float]:
    """Let `given.ranks` processes train; return the losses of this run's steps.

    Raises:
        SystemExit: The batch cannot be shared, or the checkpoint is that of another run, or of one that is over.
    """
    if given.batch_size % given.ranks:
        raise SystemExit(f"{given.ranks} ranks cannot share --batch-size {given.batch_size}")
    before = 0 if given.pace else steps_done(given)
    if given.ranks == 1:
        return train(given)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_rank, (train, given, f"file://{folder}/store"), given.ranks)
    return torch.load(given.checkpoint)["losses"][before:]


def _step(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"the first step is 1, got {text}")
    return int(text)


def _rank(rank: int, train: Callable[[Namespace], Any], given: Namespace, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=given.ranks)
    train(Namespace(**{**vars(given), "is_first": rank == 0}))
    dist.destroy_process_group()


def fit(
    given: Namespace, model: nn.Module, loader: Any, loss_of: Callable[[nn.Module, Any], Any]
) -> list[float]:
    """Train with AdamW and one cycle of the learning rate, from the checkpoint on if there is one.

    Args:
        given: The command line.
        model: Moved to the loader's device.
        loader: A Loader, or what another library has; then there is nothing to go on from.
        loss_of: Of the model and a batch, a scalar.

    Returns:
        The losses of this run's steps, means over the ranks.
    """
    total, losses, device = given.epochs * len(loader), [], getattr(loader, "device", "cpu")
    model.to(device)
    forward = DistributedDataParallel(model) if given.ranks > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), given.lr, weight_decay=0.05)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, given.lr, total_steps=total)
    parts = {"model": model, "optimizer": optimizer, "cycle": cycle}
    parts |= {"loader": loader} if isinstance(loader, Loader) else {}
    if given.checkpoint.exists():
        saved = torch.load(given.checkpoint, map_location=device)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        losses = saved["losses"]
    begin, end = len(losses), min(total, given.stop or total)
    keep = Arguments("", end, given.checkpoint)
    model.train()
    while len(losses) < end:
        for batch in loader:  # one epoch, or the rest of the one that was stopped
            loss = loss_of(forward, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            cycle.step()
            losses.append(mean_over_ranks(loss.detach()).item())
            if given.is_first and keep.saves_at(len(losses)):
                print(f"step {len(losses)} of {total}: loss {losses[-1]:.4f}", flush=True)
                with keep.saving() as file:
                    states = {name: part.state_dict() for name, part in parts.items()}
                    settings = {"settings": settings_of(given), "total": total}
                    torch.save({**states, **settings, "losses": losses}, file)
            if len(losses) >= end:
                break
    return losses[begin:]
