"""Settings, user files and joined tables of the data sources, as needed by the rules."""

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from trueneg.planning.corpora import Corpora
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.specs.pairs import PAIRS
from trueneg.specs.sections import Section
from trueneg.store import data_input
from trueneg.store.data_input import DataInput


class DataInputs:
    """All data that the studies read, keyed by output path in the results folder; most methods take
    a job's wildcards.

    Args:
        training_jobs: the studies that train encoders.
        corpora: the likelihood studies.
        file_parameter: function that describes the files of an input and detects their changes,
            given the results folder.
    """

    def __init__(
        self,
        training_jobs: TrainingJobs,
        corpora: Corpora,
        file_parameter: Callable[[DataInput, Path], dict[str, Any]],
    ):
        self._training_jobs = training_jobs
        self._corpora = corpora
        # if one of the studies that share a source downloads it, its job does
        inputs = sorted(self._all(), key=lambda data: bool(data.settings.get("download")))
        self._by_place = {data.place: data for data in inputs}
        # Cached, because Snakemake evaluates parameters several times, and there may be many files.
        self._files = functools.cache(
            lambda place: file_parameter(self._by_place[place], Path("results"))
        )

    def _all(self) -> Iterator[DataInput]:
        for name, corpus_study in self._corpora.studies.items():
            yield from data_input.of_corpora(name, corpus_study).values()
        for name, study in self._training_jobs.studies.items():
            lists = getattr(study.evaluation, "chexpert_8x200", None)
            for dataset in self._training_jobs.each_corpus(name):
                yield data_input.of_dataset(study, dataset, self._corpora.studies)
                if lists is not None:
                    yield data_input.of_benchmark(lists, dataset)

    def tables(self) -> list[DataInput]:
        """Return the inputs that may be a user's own table; some are read late, so that an early
        check is worth it.
        """
        return [data for data in self._by_place.values() if data.kind in ("pairs", "texts")]

    def settings(self, place: str) -> Callable[[Any], dict[str, Any]]:
        """Return a function that maps wildcards to the settings of a source; `place` is its path in
        the results folder.
        """

        def of_job(wildcards: Any) -> dict[str, Any]:
            data = self._by_place[place.format(**wildcards)]
            seed = (
                {"seed": self._corpora.studies[data.settings["text"]].seed}
                if data.kind == "pairs"
                else {}
            )
            return {**seed, **data.settings}  # a corpus may have its own seed

        return of_job

    def parameters(self, place: str) -> dict[str, Callable[[Any], dict[str, Any]]]:
        """Return the parameters of a job that reads user files: its settings, and the files with a
        stamp of their content.
        """
        return {
            "settings": self.settings(place),
            "files": lambda wildcards: self._files(place.format(**wildcards)),
        }

    def pair_source(self, wildcards: Any) -> str:
        """Return the name of an image–text source."""
        return self._by_place[f"pairs/{wildcards.pairs}"].settings["source"]

    def pair_texts(self, wildcards: Any) -> dict[str, str]:
        """Return the paths of the text tables to join with the images, and of the language models
        that embed the sentences.
        """
        settings = self._by_place[f"pairs/{wildcards.pairs}"].settings
        return self._joined(settings, PAIRS[settings["source"]].TEXT_TABLES)

    def texts(self, wildcards: Any) -> dict[str, str]:
        """Return the paths of the class probabilities to join with the texts of a text study, and
        of their language models.
        """
        settings = self._by_place[f"texts/{wildcards.texts}"].settings
        if settings["text"] not in self._corpora.studies:
            return {}
        tables = self._joined(settings, ("sentences", "eta"))
        return tables if "eta" in tables else {}

    def _joined(self, settings: Section, names: Iterable[str]) -> dict[str, str]:
        """Return paths by name; what no objective uses is not computed, but joined if another
        configuration computed it, so that the two do not rewrite each other's table.
        """
        tables = {name: self._corpora.table(settings, name) for name in names}
        if settings["text"] in self._corpora.wanted or Path(tables["eta"]).is_file():
            return {**tables, "language_models": self._corpora.embedding_models(settings)}
        tables.pop("eta")
        return tables
