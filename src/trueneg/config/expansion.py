"""A study's data sets, objectives, blocks of seeds and settings of runs, computed once: the rules ask for every job."""

from typing import Any

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.config.order import relative_cost
from trueneg.config.trained_study import TrainedStudy


class Expansion:
    """What :mod:`trueneg.config.runs` makes of one study.

    Args:
        name: the study's name in the configuration.
        study: the study.

    Attributes:
        datasets: resolved settings of each data set, as plain values, by label.
        objectives: labels of the objectives.
        row_names: what rows are named by, by the labels of data set and objective.
        blocks: seeds of each block, by its name.
        sources: each data set's decoded images, or images with their sentences, by label.
    """

    def __init__(self, name: str, study: TrainedStudy):
        self._name, self._study = name, study
        self.datasets = {label: settings.model_dump(mode="json") for label, settings in runs.datasets(study).items()}
        self.objectives = list(runs.objectives(study))
        self.row_names = runs.row_names(name, study)
        self.blocks = runs.blocks(study)
        images = isinstance(study, ImageStudy)
        self.sources = {
            label: f"results/sources/{runs.source_key(own)}.npz" if images else f"results/pairs/{runs.pairs_key(own)}.npz"
            for label, own in self.datasets.items()
        }
        self._settings: dict[tuple[str, str], Any] = {}
        self._costs: dict[tuple[str, str], float] = {}

    def paths(self, pattern: str) -> list[str]:
        """`pattern` for every data set, objective and block."""
        return [
            pattern.format(study=self._name, dataset=dataset, objective=objective, block=block)
            for dataset in self.datasets
            for objective in self.objectives
            for block in self.blocks
        ]

    def settings(self, dataset: str, objective: str) -> dict[str, dict[str, Any]]:
        """Resolved settings of the runs of a data set and an objective, by section."""
        if (dataset, objective) not in self._settings:
            (run,) = runs.runs_of(self._name, self._study, dataset, objective, [0])
            self._settings[dataset, objective] = run.settings
        return self._settings[dataset, objective]

    def runs(self, dataset: str, objective: str, block: str) -> list[dict[str, Any]]:
        """The runs of a job, as :meth:`trueneg.config.runs.Run.to_json` gives them.

        Args:
            dataset: a label of :attr:`datasets`.
            objective: one of :attr:`objectives`.
            block: a name of :attr:`blocks`.
        """
        settings = self.settings(dataset, objective)
        return [runs.Run(self._name, dataset, objective, seed, settings).to_json() for seed in self.blocks[block]]

    def cost(self, dataset: str, objective: str, block: str) -> float:
        """About how long a job takes beside others; arguments as for :meth:`runs`."""
        if (dataset, objective) not in self._costs:
            self._costs[dataset, objective] = relative_cost(self.settings(dataset, objective))
        return self._costs[dataset, objective] * len(self.blocks[block])

    @property
    def longest(self) -> float:
        """The largest :meth:`cost`."""
        block = max(self.blocks, key=lambda name: len(self.blocks[name]))
        return max(self.cost(dataset, objective, block) for dataset in self.datasets for objective in self.objectives)
