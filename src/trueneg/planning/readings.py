"""Settings, user files and joined tables of the data sources, as needed by the rules."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trueneg.config.runs import pairs_key
from trueneg.planning.corpora import Corpora
from trueneg.planning.trainings import Trainings
from trueneg.specs.pairs import PAIRS
from trueneg.store import user_files
from trueneg.store.user_files import Reading


class Readings:
    """All sources that the studies read, keyed by output path in the results folder; methods take a job's wildcards.

    Raises:
        UserError: if a user's own table of images and texts has columns or labels that cannot be used.
    """

    def __init__(self, trainings: Trainings, corpora: Corpora):
        self._trainings, self._corpora = trainings, corpora
        self._by_place = {reading.place: reading for reading in self._all()}
        for reading in self._by_place.values():
            if reading.kind == "pairs":  # checked here, because the images are read late; the first jobs read the reports
                user_files.check_own_table(reading)
        # Cached, because Snakemake evaluates parameters several times, and there may be many files.
        self._files = functools.cache(lambda place: user_files.parameter(self._by_place[place], Path("results")))

    def _all(self) -> list[Reading]:
        corpora = self._corpora.studies
        found = [reading for name, study in corpora.items() for reading in user_files.of_corpora(name, study).values()]
        for name, study in self._trainings.studies.items():
            lists = getattr(study.evaluation, "chexpert_8x200", None)
            for dataset in self._trainings.each_corpus(name):
                is_paired = name in self._trainings.image_text
                found.append(user_files.of_pairs(dataset, corpora) if is_paired else user_files.of_images(dataset))
                found += [user_files.of_benchmark(lists, dataset)] if lists is not None else []
        return found

    def settings(self, place: str) -> Callable[[Any], dict[str, Any]]:
        """Return a function that maps wildcards to the settings of a source; `place` is its path in the results folder."""

        def read(wildcards: Any) -> dict[str, Any]:
            reading = self._by_place[place.format(**wildcards)]
            seed = {"seed": self._corpora.studies[reading.settings["text"]].seed} if reading.kind == "pairs" else {}
            return {**seed, **reading.settings}  # a corpus may have its own seed

        return read

    def parameters(self, place: str) -> dict[str, Callable[[Any], dict[str, Any]]]:
        """Return the parameters of a job that reads user files: its settings, and the files with a stamp of their content."""
        return {"settings": self.settings(place), "files": lambda wildcards: self._files(place.format(**wildcards))}

    def pair_source(self, wildcards: Any) -> str:
        """Return the name of an image–text source."""
        return self._by_place[f"pairs/{wildcards.pairs}"].settings["source"]

    def pair_texts(self, wildcards: Any) -> dict[str, str]:
        """Return the paths of the text tables to join with the images, and of the language models that embed the sentences."""
        settings = self._by_place[f"pairs/{wildcards.pairs}"].settings
        tables = {name: self._corpora.table(settings, name) for name in PAIRS[settings["source"]].TEXT_TABLES}
        return {**tables, "language_models": self._corpora.embedding_models(settings)}

    def eta_by_class(self, wildcards: Any) -> dict[str, str]:
        """Return the paths of the tables of an image–text study's sentences and latent classes."""
        dataset = next(iter(self._trainings.datasets[wildcards.study].values()))
        return {"sentences": f"results/pairs/{pairs_key(dataset)}.parquet", "classes": self._corpora.table(dataset, "classes")}
