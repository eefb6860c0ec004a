"""Paths and parameters that the rules need from the studies that train encoders, looked up by a
job's wildcards.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.order import relative_cost
from trueneg.errors import UserError
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.resources import gpus
from trueneg.specs.sections import Section
from trueneg.store import data_input, versions
from trueneg.store.records import Manifest, read_json
from trueneg.store.run_files import checksum_of, named_files, stored_files
from trueneg.store.run_store import RunStore
from trueneg.store.winners import WINNERS, selecting

WILDCARDS = ("study", "dataset", "objective", "block")  # of training jobs
SUBSETS = "results/{study}/subsets/{dataset}/{block}.parquet"
SAMPLES = "results/{study}/artefacts/samples/{dataset}/{objective}/{block}.parquet"
MINED = "results/{study}/mined/{dataset}/{features}/{block}.npz"
SUSPECTS = "results/{study}/artefacts/suspects/{dataset}.parquet"
FEATURES = "results/features/{features}.npz"
MANIFESTS = "results/{study}/manifests/{dataset}/{objective}/{block}.json"


class TrainingJobs:
    """Data sets, objectives and blocks of seeds of all studies; most methods take a job's
    wildcards.

    The list of all jobs is built once, because the rules look up every job in it.

    Attributes:
        studies: the studies that train encoders, by name.
        tuned: the tuned studies' tuning settings, by name.
    """

    def __init__(self, configuration: Configuration):
        self.studies = configuration.trained
        self.tuned = {
            name: study.tuning for name, study in self.studies.items() if study.tuning is not None
        }
        jobs = [job for name, study in self.studies.items() for job in runs.jobs(name, study)]
        self._jobs = {(job.study, job.dataset, job.objective, job.block): job for job in jobs}
        self._longest = max(map(_cost, jobs), default=0.0)
        # by study, label and block; if each seed has its own corpus, None has that of the first
        self._datasets: dict[tuple[str, str, str | None], Section] = {
            (job.study, job.dataset, job.block): job.runs[0].settings["dataset"] for job in jobs
        }
        for job in (job for job in jobs if not job.is_pilot):
            first = self._datasets[job.study, job.dataset, job.block]
            self._datasets.setdefault((job.study, job.dataset, None), first)
        # by name of the vectors: the section of the tower, and the first job whose runs use it
        self._frozen = {
            runs.features_key(made): (section, job, choice.runs[0].settings)
            for job in reversed(jobs)
            for choice in job.choices.values()
            for section, made in runs.frozen_towers(choice.runs[0].settings).items()
        }

    def _job(self, wildcards: Any) -> runs.Job:
        return self._jobs[wildcards.study, wildcards.dataset, wildcards.objective, wildcards.block]

    def _matching(self, wildcards: Any) -> list[runs.Job]:
        wanted = {field: value for field, value in dict(wildcards).items() if field in WILDCARDS}
        if len(wanted) == len(WILDCARDS):
            return [self._job(wildcards)]
        return [job for job in self._jobs.values() if wanted.items() <= vars(job).items()]

    def every(self, pattern: str) -> Callable[[Any], list[str]]:
        """Return an input function that fills in the pattern for every training job of a study,
        except first-stage jobs.
        """
        return lambda wildcards: self.each_block(pattern, study=wildcards.study, is_pilot=False)

    def every_output(self, rule: Any) -> dict[str, Callable[[Any], list[str]]]:
        """Return such an input function for each output of a rule, by its name."""
        return {name: self.every(path) for name, path in rule.output.items()}

    def pilots(self, pattern: str) -> Callable[[Any], list[str]]:
        """Return an input function that fills in the pattern for every training job of a tuned
        study's first stage.
        """
        return lambda wildcards: self.each_block(pattern, study=wildcards.study, is_pilot=True)

    def each_block(
        self, *patterns: str, study: str | None = None, is_pilot: bool | None = None
    ) -> list[str]:
        """Fill in the patterns for every training job (of one study or stage, if given); duplicate
        paths are listed once.
        """
        jobs = [
            job
            for job in self._jobs.values()
            if study in (None, job.study) and is_pilot in (None, job.is_pilot)
        ]
        return list(
            dict.fromkeys(pattern.format(**vars(job)) for pattern in patterns for job in jobs)
        )

    def dataset(self, wildcards: Any) -> Section:
        """Return the settings of a data set, for the block's seeds if a block is given."""
        block = dict(wildcards).get("block")
        return self._datasets[wildcards.study, wildcards.dataset, block]

    def each_corpus(self, study: str) -> list[Section]:
        """Return the settings of a study's data sets, one entry per data set and corpus."""
        by_corpus = {
            (label, dataset.get("corpus")): dataset
            for (name, label, _), dataset in self._datasets.items()
            if name == study
        }
        return list(by_corpus.values())

    def pair_sources(self, wildcards: Any) -> list[str]:
        """Return the paths of the decoded images of an image–text study, one per data set and
        corpus.
        """
        return [
            f"results/{self.studies[wildcards.study].data_place(dataset)}.npz"
            for dataset in self.each_corpus(wildcards.study)
        ]

    def source(self, wildcards: Any) -> str:
        """Return the path of a data set's decoded images, with any sentences beside them, or of its
        texts.
        """
        place = self.studies[wildcards.study].data_place(self.dataset(wildcards))
        return f"results/{place}.npz"

    def vectors(self, wildcards: Any) -> list[str]:
        """Return the paths of the stored vectors of the frozen towers of all matching jobs; an
        empty list if there are none.
        """
        if not self._frozen:
            return []
        towers = [
            made
            for job in self._matching(wildcards)
            for choice in job.choices.values()
            for made in runs.frozen_towers(choice.runs[0].settings).values()
        ]
        return [
            f"results/features/{name}.npz" for name in dict.fromkeys(map(runs.features_key, towers))
        ]

    def miners(self, wildcards: Any) -> dict[str, str]:
        """Return the paths of the hard negatives that all matching jobs need, without pilots beside
        others, each with the name of the tower that mines, or of BM25.
        """
        jobs = self._matching(wildcards)
        names = {}
        for job in [job for job in jobs if not job.is_pilot] or jobs:
            for choice in job.choices.values():
                settings = choice.runs[0].settings
                made = runs.miner(settings)
                if made is not None:
                    key: Any = runs.mining_key(settings)
                    tower = made["tower"].get("model") or made["tower"]["name"]
                    name = "BM25" if key.endswith(runs.BM25) else tower
                    names[MINED.format(**vars(job), features=key)] = name
        return names

    def mined(self, wildcards: Any) -> list[str]:
        """Return the paths of :meth:`miners`; an empty list if nothing is mined."""
        return list(self.miners(wildcards))

    def mining_memory(self, wildcards: Any, files: Any) -> float:
        """Return the memory of mining that depends on the number of texts, in MB."""
        return 6 * files.size_mb

    def mining_minutes(self, wildcards: Any, files: Any) -> float:
        """Return the time of mining that depends on the number of texts, twice as long as measured
        (benchmarks/mining.md): 100,000 have vectors of 150 MB.
        """
        return len(self.seeds(wildcards)) * (files.size_mb / 50) ** 2

    def _first(self, wildcards: Any) -> runs.Job:
        """Return the first matching job, preferably one that trains."""
        return min(
            self._matching(wildcards),
            key=lambda job: job.runs[0].settings["objective"]["name"] in NOT_TRAINED,
        )

    def first_subsets(self, wildcards: Any) -> str:
        """Return the path of the subsets of the first matching job's block."""
        return SUBSETS.format(**vars(self._first(wildcards)))

    def networks(self, wildcards: Any) -> dict[str, str | list[str]]:
        """Return the paths of what a job reads to use trained networks, by the names of its inputs:
        those of its block or, for other jobs, of the first matching one, preferably one that
        trains.
        """
        first = self._first(wildcards)
        return {
            "source": self.source(wildcards),
            "subsets": SUBSETS.format(**vars(first)),
            "manifest": MANIFESTS.format(**vars(first)),
            "vectors": self.vectors(wildcards),
        }

    def frozen_source(self, wildcards: Any) -> str:
        """Return the path of the source whose images or texts a frozen tower is computed for."""
        _, job, _ = self._frozen[wildcards.features]
        place = self.studies[job.study].data_place(job.runs[0].settings["dataset"])
        return f"results/{place}.npz"

    def frozen_tower(self, wildcards: Any) -> dict[str, Any]:
        """Return what the vectors of a frozen tower are made of, and the versions and checksums of
        what the job reads.
        """
        section, _, settings = self._frozen[wildcards.features]
        made = runs.frozen_towers(settings)[section]
        files = {
            name for role, name in named_files(settings).items() if role.startswith(f"{section} ")
        }
        # Missing files count as unchanged, so that Snakemake removes no vectors made of them.
        known = {}
        with contextlib.suppress(UserError):  # damaged, which the jobs that read it say
            known = stored_files(FEATURES.format(**wildcards))
        present = {name: checksum_of(name) for name in files if Path(name).exists()}
        return {
            "made_of": made,
            "files": dict(sorted((known | present).items())),
            **versions.version_parameter(
                f"{made['section']}/{made['kind']}/{made['tower']['name']}", "features"
            ),
        }

    def frozen_study(self, wildcards: Any) -> str:
        """Return the study on whose device a frozen tower is computed: that of the first job that
        uses it.
        """
        return self._frozen[wildcards.features][1].study

    def frozen_gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs for computing a frozen tower."""
        return gpus(self.studies[self.frozen_study(wildcards)].training.device)

    def beside_source(self, table: str) -> Callable[[Any], str | list[str]]:
        """Return an input function for a table beside an image–text source; it returns an empty
        list for other studies.
        """
        return lambda wildcards: (
            self.source(wildcards).replace(".npz", f"-{table}.parquet")
            if self.studies[wildcards.study].joins_reports
            else []
        )

    def seeds(self, wildcards: Any) -> list[int]:
        """Return the seeds of a block."""
        return runs.blocks(self.studies[wildcards.study])[wildcards.block]

    def runs(self, wildcards: Any) -> Any:
        """Return the runs of a training job in the format of
        :meth:`trueneg.config.runs.Job.to_json`.
        """
        return self._job(wildcards).to_json()

    def winners(self, wildcards: Any) -> str | list[str]:
        """Return the path of the winners file that a job or a study's comparison needs; an empty
        list if none is needed.
        """
        tuning = self.tuned.get(wildcards.study)
        if tuning is None or ("block" in dict(wildcards) and self._job(wildcards).family is None):
            return []
        return tuning.winners or f"results/{wildcards.study}/{WINNERS}"

    def selecting(self, wildcards: Any) -> Section:
        """Return everything that determines a tuned study's winners except the rows of its first
        stage.
        """
        return selecting(self.studies[wildcards.study])

    def files(self, wildcards: Any) -> dict[str, str]:
        """Return the checksums of a training job's features and weights; for a missing file, the
        one recorded by its runs.
        """
        named = set(named_files(self._job(wildcards).runs[0].settings).values())
        checksums = {name: checksum_of(name) for name in named if Path(name).exists()}
        # Formatted here, because Snakemake does not rerun a job if a parameter that depends on
        # `output` changes.
        manifest = Path(MANIFESTS.format(**wildcards))
        if checksums.keys() != named and manifest.is_file():
            store = RunStore("results/runs")
            identifier = read_json(manifest, Manifest)["runs"][0]["id"]
            if store.state(identifier) in RunStore.TRAINED:
                recorded = store.record(identifier).get("files", {})
                checksums = {name: recorded[name] for name in recorded.keys() & named} | checksums
        return dict(sorted(checksums.items()))

    def row_names(self, wildcards: Any) -> dict[str, str]:
        """Return the names that identify the rows of a data set and an objective."""
        return self._job(wildcards).row_names

    def longest_first(self, wildcards: Any) -> float:
        """Return a training job's priority from 1 to 9; long jobs go first, so that none is left
        running alone at the end.
        """
        return 1 + 8 * _cost(self._job(wildcards)) / self._longest if self._longest else 1

    def threads(self, wildcards: Any) -> int:
        """Return the number of threads of a training job, across all of its devices."""
        training = self.studies[wildcards.study].training
        return training.threads * training.devices

    def gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs for a training job."""
        return gpus(*runs.training_devices(self._job(wildcards).runs[0].settings))

    def evaluation_gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs of an evaluation job, which uses the same type of device as
        training.
        """
        return gpus(self.studies[wildcards.study].training.device)

    def benchmark(self, wildcards: Any) -> str | list[str]:
        """Return the path of CheXpert 8×200, resized like the study's images; an empty list if the
        study does not use it.
        """
        lists = getattr(self.studies[wildcards.study].evaluation, "chexpert_8x200", None)
        if lists is None:
            return []
        return f"results/{data_input.of_benchmark(lists, self.dataset(wildcards)).place}.npz"

    def samples(self, wildcards: Any) -> list[str]:
        """Return the paths of the values by test sample that a study's comparison needs: those of
        its primary data set if the interval covers new samples, too.
        """
        study = self.studies[wildcards.study]
        if study.primary.over == "runs":
            return []
        dataset = study.primary.dataset or next(iter(runs.datasets(study)))
        compared = (
            job
            for job in self._jobs.values()
            if (job.study, job.dataset, job.is_pilot) == (wildcards.study, dataset, False)
        )
        return [SAMPLES.format(**vars(job)) for job in compared]

    def suspects(self) -> list[str]:
        """Return the paths of the suspicious pairs of training samples on the page: of the primary
        data set of each study of own data, if it has stored vectors.
        """
        places = (
            {"study": name, "dataset": study.primary.dataset or next(iter(runs.datasets(study)))}
            for name, study in self.studies.items()
            if study.primary.over != "runs" and not study.joins_reports
        )
        return [SUSPECTS.format(**place) for place in places if self.vectors(place)]

    def primary(self, wildcards: Any) -> dict[str, Any]:
        """Return the keys of a study's primary measurement."""
        measured: dict[str, Any] = self.studies[wildcards.study].primary.measurement._asdict()
        return measured

    def retrieval_examples(self) -> list[str]:
        """Return the paths of the page's retrieval examples."""
        shown = (
            (name, place)
            for name, study in self.studies.items()
            if study.has_examples
            for place in runs.shown_examples(study)
        )
        return [f"results/{name}/artefacts/retrieval/{place}.parquet" for name, place in shown]

    def phrases(self, wildcards: Any) -> int:
        """Return the number of phrases for which heatmaps are kept."""
        return getattr(self.studies[wildcards.study].figures.overlays, "phrases", 0)


def _cost(job: runs.Job) -> float:
    return max(
        relative_cost(choice.runs[0].settings) * len(choice.runs) for choice in job.choices.values()
    )
