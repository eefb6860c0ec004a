"""A study's data sets, objectives, seed blocks and run settings, computed once because the rules need them for every job."""

from typing import Any

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.config.order import relative_cost
from trueneg.config.trained_study import TrainedStudy


class Expansion:
    """One study, expanded by :mod:`trueneg.config.runs`.

    Args:
        name: the study's name in the configuration.
        study: the study.

    Attributes:
        datasets: resolved settings of each data set, as plain values, by label.
        sources: path of each data set's decoded images, or of its image–sentence file, by label.
        row_names: values of the identifying row columns, by the labels of data set and objective.
        settings: resolved run settings by section, by the labels of data set and objective.
        blocks: seeds of each block, by block name.
    """

    def __init__(self, name: str, study: TrainedStudy):
        self._name = name
        self.datasets = {label: settings.model_dump(mode="json") for label, settings in runs.datasets(study).items()}
        images = isinstance(study, ImageStudy)
        self.sources = {
            label: f"results/sources/{runs.source_key(own)}.npz" if images else f"results/pairs/{runs.pairs_key(own)}.npz"
            for label, own in self.datasets.items()
        }
        self.row_names = runs.row_names(name, study)
        self.settings = runs.settings_of(study)
        self.blocks = runs.blocks(study)
        self._costs = {labels: relative_cost(settings) for labels, settings in self.settings.items()}

    def paths(self, pattern: str) -> list[str]:
        """Format `pattern` for every data set, objective and block."""
        return [
            pattern.format(study=self._name, dataset=dataset, objective=objective, block=block)
            for dataset, objective in self.settings
            for block in self.blocks
        ]

    def runs(self, dataset: str, objective: str, block: str) -> list[dict[str, Any]]:
        """Return the runs of a job in the format of :meth:`trueneg.config.runs.Run.to_json`."""
        settings = self.settings[dataset, objective]
        return [runs.Run(self._name, dataset, objective, seed, settings).to_json() for seed in self.blocks[block]]

    def cost(self, dataset: str, objective: str, block: str) -> float:
        """Estimate how long a job takes relative to other jobs."""
        return self._costs[dataset, objective] * len(self.blocks[block])

    @property
    def longest(self) -> float:
        """The largest :meth:`cost`."""
        return max(self._costs.values()) * max(map(len, self.blocks.values()))
