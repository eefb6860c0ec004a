"""A moving average of the networks as the guide."""

from collections.abc import Mapping
from typing import Any

from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trueneg.training.guides.base import Batch, Guide, Rated


class EmaGuide(Guide):
    """Similarities from an exponential moving average of the networks, buffers included, in evaluation mode."""

    def __init__(self, settings: Mapping[str, Any], run: Any):
        super().__init__(settings, run)
        self.average = AveragedModel(run.network, multi_avg_fn=get_ema_multi_avg_fn(settings["momentum"]), use_buffers=True)
        self.average.requires_grad_(False).eval()

    def rate(self, batch: Batch) -> Rated:
        return batch.rated(self.average.module)

    def after_update(self) -> None:
        self.average.update_parameters(self.run.network)
