"""A small detector without anchors: the network, its loss, and COCO's mean average precision."""

import contextlib
import io
from typing import Any

import torch
import torch.nn.functional as F
from networks import small_resnet
from torch import nn
from torchvision.ops import batched_nms, generalized_box_iou_loss, sigmoid_focal_loss

SIDE, STRIDE, NUM_KINDS = 64, 8, 3
_line = torch.arange(STRIDE / 2, SIDE, STRIDE)
POINTS = torch.cartesian_prod(_line, _line).flip(1)  # (x, y) of the cells' centres, row by row


class Detector(nn.Module):
    """For each cell: a score of each kind, and the distances to the four sides of a box."""

    def __init__(self) -> None:
        super().__init__()
        self.body, last = small_resnet(), nn.Conv2d(64, NUM_KINDS + 4, 1)
        self.head = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), last)
        nn.init.constant_(last.bias, -2.0)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores [B, P, 3] before the sigmoid, and boxes [B, P, 4] in pixels."""
        cells = self.head(self.body(images)).flatten(2).transpose(1, 2)
        away = STRIDE * F.softplus(cells[..., NUM_KINDS:] + 3)
        points = POINTS.to(images.device)
        return cells[..., :NUM_KINDS], torch.cat(
            [points - away[..., :2], points + away[..., 2:]], -1
        )


def assign(boxes: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each cell's kind [P], -1 for none, and box [P, 4]: the smallest whose centre is near."""
    if len(boxes) == 0:
        return torch.full((len(POINTS),), -1), torch.zeros(len(POINTS), 4)
    away = POINTS[:, None] - (boxes[:, :2] + boxes[:, 2:]) / 2
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    cost, nearest = torch.where(away.abs().amax(2) < STRIDE, area, torch.inf).min(1)
    return torch.where(cost.isfinite(), labels[nearest], -1), boxes[nearest]


def loss_of(model: nn.Module, batch: Any) -> torch.Tensor:
    """Focal loss of the kinds, and 1 - GIoU of the boxes where there is a shape."""
    scores, found = model(batch.images)
    cells = [assign(*one) for one in zip(batch.boxes, batch.box_labels, strict=True)]
    kinds, boxes = (torch.stack(one).to(scores.device) for one in zip(*cells, strict=True))
    is_shape = kinds >= 0
    wanted = F.one_hot(kinds.clamp(min=0), NUM_KINDS) * is_shape[..., None]
    focal = sigmoid_focal_loss(scores, wanted.float(), alpha=0.5, reduction="sum")
    apart = generalized_box_iou_loss(found[is_shape], boxes[is_shape], reduction="sum")
    return (focal + apart) / is_shape.sum().clamp(min=1)


def mean_precision(model: nn.Module, test: Any) -> dict[str, float]:
    """Return COCO's mean average precision over IoU 0.5 to 0.95, and that at 0.5."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth: dict[str, list[Any]] = {"images": [], "annotations": [], "categories": []}
    truth["categories"] = [{"id": kind} for kind in range(NUM_KINDS)]
    found = []
    model.eval()
    with torch.inference_mode():
        for batch in test:
            for number, (scores, boxes) in enumerate(zip(*model(batch.images), strict=True)):
                image = len(truth["images"])
                truth["images"].append({"id": image})
                pairs = zip(batch.boxes[number], batch.box_labels[number], strict=True)
                for box, kind in pairs:
                    entry = _entry(image, box, kind) | {"id": len(truth["annotations"]) + 1}
                    truth["annotations"].append(entry | {"iscrowd": 0})
                best, kinds = scores.sigmoid().max(1)
                for place in batched_nms(boxes, best, kinds, 0.5)[:20]:
                    entry = _entry(image, boxes[place], kinds[place])
                    found.append(entry | {"score": best[place].item()})
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a page
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        judge = COCOeval(coco, coco.loadRes(found), "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return {"map": float(judge.stats[0]), "map_50": float(judge.stats[1])}


def _entry(image: int, box: torch.Tensor, kind: torch.Tensor) -> dict[str, Any]:
    left, top, right, bottom = box.tolist()
    size = [right - left, bottom - top]
    area = size[0] * size[1]
    return {"image_id": image, "category_id": int(kind), "bbox": [left, top, *size], "area": area}
