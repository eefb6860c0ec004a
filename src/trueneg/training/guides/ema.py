"""A moving average of the networks as the guide."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trueneg.training.guides.base import Guide, GuideBatch, Rated

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class EmaGuide(Guide):
    """Similarities from an exponential moving average of the networks, floating-point buffers
    included, in evaluation mode.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        average = get_ema_multi_avg_fn(settings["momentum"])

        def averaged(averages: Sequence[Tensor], current: Sequence[Tensor], count: Any) -> None:
            """Average tensors of one type; integers, such as positions, are copied, because their
            mean would be truncated.
            """
            if averages[0].is_floating_point():
                average(averages, current, count)
            else:
                for mean, value in zip(averages, current, strict=True):
                    mean.copy_(value)

        self.average = AveragedModel(run.network, multi_avg_fn=averaged, use_buffers=True)
        self.average.requires_grad_(False).eval()

    def rate(self, batch: GuideBatch) -> Rated:
        return batch.rated(self.average.module)

    def after_update(self) -> None:
        self.average.update_parameters(self.run.network)
