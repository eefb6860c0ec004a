"""What the rules ask: which files, settings and resources belong to a study, a data set, an objective, a block of seeds.

Nothing here imports torch or looks at this machine: the plan is the same on a laptop and on a cluster's login node.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.expansion import Expansion
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.theory_study import TheoryStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.report import catalogue
from trueneg.store import provenance, user_files
from trueneg.store.run_store import RunStore

OFFICIALLY_SPLIT = ("flickr8k", "flickr30k", "mimic_cxr")  # sources of images with sentences
ROLES = ("baseline", "treatment", "oracle")  # objectives of a primary contrast


class Plan:
    """The answers for one configuration. Methods that take `wildcards` are input functions and parameters of rules.

    Args:
        configuration: the checked configuration.

    Attributes:
        studies: its studies by name.
        images: those that train on images.
        image_text: those that train on images and sentences.
        trained: both.
        theory: those that simulate.
        likelihood: those that score sentences.
        resolved: the configuration as plain values, every default filled in.
        settings: its studies: what jobs are handed.
    """

    def __init__(self, configuration: Configuration):
        self.configuration = configuration
        self.studies = configuration.studies
        self.images = {name: study for name, study in self.studies.items() if isinstance(study, ImageStudy)}
        self.image_text = {name: study for name, study in self.studies.items() if isinstance(study, ImageTextStudy)}
        self.trained = {name: study for name, study in self.studies.items() if isinstance(study, TrainedStudy)}
        self.likelihood = {name: study for name, study in self.studies.items() if isinstance(study, LikelihoodStudy)}
        self.theory = {name: study for name, study in self.studies.items() if isinstance(study, TheoryStudy)}
        self.settings = {name: study.model_dump(mode="json") for name, study in self.studies.items()}
        self.resolved = self.settings | configuration.model_dump(mode="json", exclude={"studies"})
        self._expanded = {name: Expansion(name, study) for name, study in self.trained.items()}
        self._files: dict[str, dict[str, Any]] = {}
        self._longest = max((expanded.longest for expanded in self._expanded.values()), default=0.0)

    def of_block(self, pattern: str) -> list[str]:
        """`pattern` for every study that trains, data set, objective and block of seeds."""
        return [path for expanded in self._expanded.values() for path in expanded.paths(pattern)]

    def of_study(self, pattern: str) -> Callable[[Any], list[str]]:
        """An input function: `pattern` for every data set, objective and block of seeds of the study."""

        def paths(wildcards: Any) -> list[str]:
            return self._expanded[wildcards.study].paths(pattern)

        return paths

    def setting(self, place: str) -> Callable[[Any], Any]:
        """A parameter or resource: what a study sets, such as ``training/threads``; the whole study for ``""``.

        In place of Snakemake's ``lookup``, which walks through all settings of all studies whenever a job asks.

        Args:
            place: keys below the study's, which may name wildcards, such as ``language_models/{model}/threads``.
        """
        keys = place.split("/") if place else []

        def of_study(wildcards: Any) -> Any:
            found = self.settings[wildcards.study]
            for key in keys:
                found = found[key.format(**wildcards)]
            return found

        return of_study

    def figures(self, studies: Iterable[str] | None = None, names: Iterable[str] | None = None) -> list[str]:
        """The figures of some studies, or some of their figures; of all studies and all of them, where none are named."""
        return [
            f"results/{study}/figures/{figure}.png"
            for study in (self.studies if studies is None else studies)
            for figure in catalogue.figures_of(self.studies[study])
            if names is None or figure in names
        ]

    def tables(self, studies: Iterable[str] | None = None, names: Iterable[str] | None = None) -> list[str]:
        """The tables of some studies, or some of their tables; of all studies and all of them, where none are named."""
        return [
            f"results/{name}/tables/{table}.csv"
            for name in (self.studies if studies is None else studies)
            for table in catalogue.tables_of(self.studies[name])
            if names is None or table in names
        ]

    def seeds(self, wildcards: Any) -> list[int]:
        """The seeds of a block."""
        return self._expanded[wildcards.study].blocks[wildcards.block]

    def dataset(self, wildcards: Any) -> dict[str, Any]:
        """Resolved settings of a data set."""
        return self._expanded[wildcards.study].datasets[wildcards.dataset]

    def source(self, wildcards: Any) -> str:
        """The decoded images of a data set; or its images with their sentences."""
        return self._expanded[wildcards.study].sources[wildcards.dataset]

    def reading(self, wildcards: Any) -> dict[str, Any]:
        """How to read a source."""
        return self._readings()[wildcards.source]

    def _readings(self) -> dict[str, dict[str, Any]]:
        keys = {"source", "path", "resolution", "download"}
        listed = [
            dataset.model_dump(mode="json", include=keys)
            for study in self.images.values()
            for dataset in runs.datasets(study).values()
        ]
        return {runs.source_key(reading): reading for reading in listed}

    def files(self, wildcards: Any) -> dict[str, Any]:
        """The user's own files that a first rule reads, with a stamp that changes when their content does.

        Looked at once: the files may be many, and Snakemake asks several times.
        """
        reading = self._user_files(wildcards)
        if reading.place not in self._files:
            self._files[reading.place] = user_files.parameter(reading, Path("results"))
        return self._files[reading.place]

    def _user_files(self, wildcards: Any) -> user_files.Reading:
        if hasattr(wildcards, "source"):
            return user_files.of_images(self.reading(wildcards))
        if hasattr(wildcards, "pairs"):
            return user_files.of_pairs(self.joining(wildcards), self.likelihood)
        if hasattr(wildcards, "benchmark"):
            return user_files.of_benchmark(self.benchmark_settings(wildcards))
        return user_files.of_reports(wildcards.study, wildcards.corpus, self.reading_reports(wildcards))

    def sentences(self, wildcards: Any) -> str:
        """The sentences beside :meth:`source`."""
        return self._beside(wildcards, ".parquet")

    def boxes(self, wildcards: Any) -> str | list[str]:
        """The boxes of what the images show; none where none are known."""
        return self._beside(wildcards, "-boxes.parquet") if self.image_text[wildcards.study].dataset.boxed else []

    def splits(self, wildcards: Any) -> str | list[str]:
        """The official splits beside :meth:`source`; none where seeds draw their own."""
        return self._beside(wildcards, "-splits.parquet") if self.dataset(wildcards)["source"] in OFFICIALLY_SPLIT else []

    def benchmark(self, wildcards: Any) -> str | list[str]:
        """CheXpert 8×200 at the size of the study's images; none where it is not measured."""
        settings = self.settings[wildcards.study]["evaluation"]["chexpert_8x200"]
        if settings is None:
            return []
        return f"results/benchmarks/{runs.benchmark_key(settings, self.dataset(wildcards)['resolution'])}.npz"

    def benchmark_settings(self, wildcards: Any) -> dict[str, Any]:
        """Where CheXpert 8×200 is read from, and at what size."""
        found = {
            runs.benchmark_key(given.model_dump(), dataset.resolution): given.model_dump() | {"resolution": dataset.resolution}
            for study in self.image_text.values()
            if (given := study.evaluation.chexpert_8x200) is not None
            for dataset in runs.datasets(study).values()
        }
        return found[wildcards.benchmark]

    def _beside(self, wildcards: Any, ending: str) -> str:
        return self.source(wildcards).removesuffix(".npz") + ending

    def ratings(self, wildcards: Any) -> str:
        """What people say of pairs, beside :meth:`source`."""
        return self._beside(wildcards, "-ratings.parquet")

    def rated(self) -> list[str]:
        """The studies whose images people have rated captions for."""
        return [name for name, study in self.image_text.items() if catalogue.is_rated(study)]

    def trained_manifest(self, wildcards: Any) -> str:
        """A manifest of a block's runs of an objective that trains: the first, as all begin with the same networks."""
        labelled = runs.objectives(self.trained[wildcards.study]).items()
        objective = next(label for label, sections in labelled if sections["objective"].name != "released")
        return f"results/{wildcards.study}/manifests/{wildcards.dataset}/{objective}/{wildcards.block}.json"

    def of_blocks(self, pattern: str) -> Callable[[Any], list[str]]:
        """An input function: `pattern` for every data set and block of seeds of the study."""

        def paths(wildcards: Any) -> list[str]:
            expanded = self._expanded[wildcards.study]
            return [
                pattern.format(study=wildcards.study, dataset=dataset, block=block)
                for dataset in expanded.datasets
                for block in expanded.blocks
            ]

        return paths

    def joining(self, wildcards: Any) -> dict[str, Any]:
        """How to draw images and join them with sentences."""
        return self._joinings()[wildcards.pairs]

    def joined(self, wildcards: Any) -> dict[str, str]:
        """The tables of the reports that are joined with images, by name."""
        joining = self.joining(wildcards)
        of_source = {"phantom": ("assigned", "reports", "classes"), "open_i": ("assigned",)}
        return self._text_tables(joining, "sentences", "eta", *of_source.get(joining["source"], ()))

    def joined_reports(self, wildcards: Any) -> dict[str, Any]:
        """How to read the reports that images are joined with."""
        joining = self.joining(wildcards)
        corpora = runs.corpora(self.likelihood[joining["text"]])
        return corpora[joining["corpus"] or next(iter(corpora))].model_dump(mode="json")

    def archive(self, wildcards: Any) -> str | None:
        """Where the reports are that images are joined with."""
        return self.likelihood[self.joining(wildcards)["text"]].reports.path

    def phrases(self, wildcards: Any) -> int:
        """How many phrases have their heatmaps kept."""
        wanted = self.image_text[wildcards.study].figures.overlays
        return 0 if wanted is None else wanted.phrases

    def reports_seed(self, wildcards: Any) -> int:
        """The seed of the reports that images are drawn for."""
        return self.likelihood[self.joining(wildcards)["text"]].seed

    def classes(self, wildcards: Any) -> str:
        """The classes of the sentences of a study's first data set."""
        return self._text_tables(self._first_dataset(wildcards), "classes")["classes"]

    def first_sentences(self, wildcards: Any) -> str:
        """The sentences of a study's first data set."""
        return f"results/pairs/{runs.pairs_key(self._first_dataset(wildcards))}.parquet"

    def _first_dataset(self, wildcards: Any) -> dict[str, Any]:
        return next(iter(self._expanded[wildcards.study].datasets.values()))

    def _joinings(self) -> dict[str, dict[str, Any]]:
        listed = [
            dataset.model_dump(mode="json", exclude={"validation", "test"})
            for study in self.image_text.values()
            for dataset in runs.datasets(study).values()
        ]
        return {runs.pairs_key(joining): joining for joining in listed}

    def _text_tables(self, joining: dict[str, Any], *names: str) -> dict[str, str]:
        corpus = joining["corpus"] or next(iter(runs.corpora(self.likelihood[joining["text"]])))
        return {name: f"results/{joining['text']}/text/{corpus}/{name}.parquet" for name in names}

    def runs(self, wildcards: Any) -> list[dict[str, Any]]:
        """The runs of a block, every setting resolved."""
        return self._expanded[wildcards.study].runs(wildcards.dataset, wildcards.objective, wildcards.block)

    def row_names(self, wildcards: Any) -> dict[str, str]:
        """What the rows of a data set and an objective are named by."""
        return self._expanded[wildcards.study].row_names[wildcards.dataset, wildcards.objective]

    def of_devices(self, key: str) -> Callable[[Any], int]:
        """A resource of a training job: what ``training`` sets for each of the devices that it wants."""

        def of_job(wildcards: Any) -> int:
            training = self.settings[wildcards.study]["training"]
            return training[key] * training["devices"]

        return of_job

    def priority(self, wildcards: Any) -> float:
        """Of a training job: from 1 to 9, the more the longer it takes beside others (:mod:`trueneg.config.order`).

        What trainings wait for has 10, what waits for them 0.
        """
        cost = self._expanded[wildcards.study].cost(wildcards.dataset, wildcards.objective, wildcards.block)
        return 1 + 8 * cost / self._longest if self._longest else 1

    def growing(self, amount: int | str) -> Callable[[Any, int], int]:
        """A job's memory or time: the first attempt's amount, twice as much for the second, and so on.

        Args:
            amount: of the first attempt; or where a study tells it, such as ``training/mem_mb``.
        """

        def of_attempt(wildcards: Any, attempt: int) -> int:
            if isinstance(amount, int):
                return amount * attempt
            first = self.settings[wildcards.study]
            for key in amount.split("/"):
                first = first[key]
            return first * attempt

        return of_attempt

    def fingerprint_if_retraining(self, wildcards: Any) -> str | None:
        """A training job knows the code's fingerprint only when stale runs are to be trained anew."""
        if not self.configuration.retrain_stale:
            return None
        settings = self._expanded[wildcards.study].settings(wildcards.dataset, wildcards.objective)
        return provenance.training_fingerprint(settings)

    @staticmethod
    def code(roots: tuple[str, ...]) -> Callable[[Any], str]:
        """A parameter: the fingerprint of the code that `roots` reach, computed only when a job of the rule is planned.

        When that code is edited, the parameter changes and Snakemake reruns the job.
        """

        def of_job(wildcards: Any) -> str:
            return provenance.fingerprint(roots)

        return of_job

    def first_manifest(self, wildcards: Any) -> str:
        """The manifest that lists the first seed's run."""
        folder = f"results/{wildcards.study}/manifests/{wildcards.dataset}/{wildcards.objective}"
        return f"{folder}/{self._first_block(wildcards)}.json"

    def first_subsets(self, wildcards: Any) -> str:
        """The subsets that hold the first seed's."""
        return f"results/{wildcards.study}/subsets/{wildcards.dataset}/{self._first_block(wildcards)}.parquet"

    def _first_block(self, wildcards: Any) -> str:
        return next(iter(self._expanded[wildcards.study].blocks))

    def drawn_from(self, wildcards: Any) -> dict[str, Any]:
        """Inputs of a figure or table by name: the study, what is gathered of it, and the artefacts of this one alone."""
        name, what = wildcards.study, "figure" if hasattr(wildcards, "figure") else "table"
        wanted = getattr(wildcards, what)
        catalogue.require(what, wanted, name, self.studies[name])
        folder = f"results/{name}/artefacts"
        gathered = (
            {"rows": "rows.parquet", "curves": "curves.parquet", "comparison": "comparison.json"} if name in self.trained else {}
        )
        return {
            "study": f"{folder}/study.yaml",
            **{key: f"{folder}/{file}" for key, file in gathered.items()},
            "artefacts": catalogue.artefacts_of(wanted, name, self.studies[name]),
        }

    def reading_reports(self, wildcards: Any) -> dict[str, Any]:
        """How to read or draw a corpus's reports."""
        return runs.corpora(self.likelihood[wildcards.study])[wildcards.corpus].model_dump(mode="json")

    def of_source(self, *sources: str) -> list[str]:
        """The likelihood studies whose reports come from there."""
        return [name for name, study in self.likelihood.items() if study.reports.source in sources]

    def of_corpora(self, pattern: str, studies: Iterable[str] | None = None) -> list[str]:
        """`pattern` for every corpus of some likelihood studies; of all, where none are named."""
        names = self.likelihood if studies is None else studies
        return [pattern.format(study=name, corpus=corpus) for name in names for corpus in runs.corpora(self.likelihood[name])]

    def language_model(self, wildcards: Any) -> dict[str, Any]:
        """Settings of a language model."""
        return self.settings[wildcards.study]["language_models"][wildcards.model]

    def beginning(self, wildcards: Any) -> str | list[str]:
        """The manifest of the models that a training begins with, if they are another study's; none otherwise."""
        start = self.language_model(wildcards)["start"]
        return [] if start is None else _language_models(*start.split("/"))

    def language_models(self, wildcards: Any) -> str:
        """The manifest of the models that score: a study's own, or another's that are taken as they are."""
        settings = self.language_model(wildcards)
        if settings["start"] is not None and not settings["train"]:
            return _language_models(*settings["start"].split("/"))
        return _language_models(wildcards.study, wildcards.corpus, wildcards.model)

    def scoring(self, wildcards: Any) -> dict[str, Any]:
        """How to score with a language model."""
        settings = self.settings[wildcards.study]["scoring"]
        return settings | {"trust_remote_code": self.language_model(wildcards)["trust_remote_code"]}

    def shards(self, wildcards: Any) -> list[str]:
        """What says that the shards of the work are done; none where one job does all."""
        count = self.likelihood[wildcards.study].scoring.shards
        folder = f"results/{wildcards.study}/text/{wildcards.corpus}/likelihoods"
        return [f"{folder}/{wildcards.model}-{shard}.done" for shard in range(count)] if count > 1 else []

    def likelihoods(self, wildcards: Any) -> list[str]:
        """The likelihoods of every language model on a corpus, in the order of the configuration."""
        models = self.likelihood[wildcards.study].language_models
        return [f"results/{wildcards.study}/text/{wildcards.corpus}/likelihoods/{model}.parquet" for model in models]

    def likelihoods_of_eta(self, wildcards: Any) -> str:
        """The likelihoods that become class probabilities."""
        study = self.likelihood[wildcards.study]
        model = study.eta.language_model or next(iter(study.language_models))
        return f"results/{wildcards.study}/text/{wildcards.corpus}/likelihoods/{model}.parquet"

    def folds(self, wildcards: Any) -> int:
        """How many folds the simple scorers count on: as many as the first language model that is trained has."""
        models = self.likelihood[wildcards.study].language_models.values()
        return next((model.folds for model in models if model.train), 2)

    @staticmethod
    def pattern(studies: Iterable[str]) -> str:
        """A wildcard's constraint to these studies; without any it matches nothing."""
        return "|".join(map(re.escape, studies)) or "(?!)"

    def simulation(self, wildcards: Any) -> dict[str, Any]:
        """The settings that the experiments of a theory study share."""
        settings = self.settings[wildcards.study]
        return settings["process"] | settings["sweeps"]

    def retrieval_examples(self) -> list[str]:
        """What the page shows of retrieval: of every image–text study's primary data set, the objectives of its primary contrast.

        Of a swept objective the first variant: which one is selected is known only when all have run.
        """
        found = []
        for name, study in self.image_text.items():
            dataset, variants = study.primary.dataset or next(iter(runs.datasets(study))), runs.candidates(study)
            named = [getattr(study.primary, role) for role in ROLES]
            labels = [next(iter(variants[asked])) for asked in named if asked is not None]
            found += [f"results/{name}/artefacts/retrieval/{dataset}/{label}.parquet" for label in labels]
        return found


def _language_models(study: str, corpus: str, name: str) -> str:
    return f"results/{study}/text/{corpus}/language_models/{name}.json"


def stale_message(store: RunStore) -> str:
    """A line about the finished runs that were made with other training code than today's; empty if there are none."""
    stale = provenance.stale_runs(store)
    if not stale:
        return ""
    return (
        f"{len(stale)} runs in {store.path} were made with other code than today's. `trueneg runs` marks them; "
        "`--config retrain_stale=true` trains them anew.\n"
    )
