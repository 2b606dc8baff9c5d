"""The operations of a recipe: what each one means, and how its random parameters are drawn.

A module lists its operations in its ``__all__``; they are exported by this package and by gpu_aug.
"""

from gpu_aug.ops.blur.blurs import *
from gpu_aug.ops.blur.edges import *
from gpu_aug.ops.blur.kernels import *
from gpu_aug.ops.boxes import *
from gpu_aug.ops.color.adjust import *
from gpu_aug.ops.color.jitter import *
from gpu_aug.ops.color.lookup_tables import *
from gpu_aug.ops.color.matrices import *
from gpu_aug.ops.color.normalize import *
from gpu_aug.ops.combine import *
from gpu_aug.ops.dropout.dropout import *
from gpu_aug.ops.dropout.erase import *
from gpu_aug.ops.foreign.foreign import *
from gpu_aug.ops.foreign.function import *
from gpu_aug.ops.foreign.transforms import *
from gpu_aug.ops.geometric.affine import *
from gpu_aug.ops.geometric.box_crops import *
from gpu_aug.ops.geometric.crops import *
from gpu_aug.ops.geometric.elastic import *
from gpu_aug.ops.geometric.flips import *
from gpu_aug.ops.geometric.iou_crop import *
from gpu_aug.ops.geometric.pads import *
from gpu_aug.ops.geometric.perspective import *
from gpu_aug.ops.geometric.random_resizes import *
from gpu_aug.ops.geometric.resized_crops import *
from gpu_aug.ops.geometric.resizes import *
from gpu_aug.ops.geometric.rotate import *
from gpu_aug.ops.imported.color import *
from gpu_aug.ops.imported.control_points import *
from gpu_aug.ops.imported.crops import *
from gpu_aug.ops.imported.distortion import *
from gpu_aug.ops.imported.dropout import *
from gpu_aug.ops.imported.filters import *
from gpu_aug.ops.imported.noise import *
from gpu_aug.ops.imported.planckian import *
from gpu_aug.ops.imported.shading import *
from gpu_aug.ops.imported.tones import *
from gpu_aug.ops.mix import *
from gpu_aug.ops.noise.compression import *
from gpu_aug.ops.noise.noise import *
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.policy.policy import *
from gpu_aug.ops.temporal import *
