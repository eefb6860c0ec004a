"""Report what a study would run, what exists, what is missing, and how long the missing runs would
take.
"""

import itertools
import operator
import os
import pkgutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from trueneg.cli.estimates import OTHERS, estimated_time, towers_to_compute
from trueneg.cli.pace import Paces
from trueneg.cli.planned_data import PlannedData, PlannedRun, planned_data
from trueneg.cli.planned_networks import check_language_models, check_towers
from trueneg.config.equal_temperature import cautions
from trueneg.config.order import relative_cost
from trueneg.config.runs import (
    Job,
    Run,
    datasets,
    features_key,
    frozen_towers,
    is_wanted,
    jobs,
    mining_key,
)
from trueneg.data.mining import mined_checksum
from trueneg.data.stored_features import stored_weights
from trueneg.data.user_files import DataChanges, check_own_table, compare_files, missing_files
from trueneg.io import privacy
from trueneg.io.seals import require_intact
from trueneg.legible import counted, duration
from trueneg.planning.updates import planned_updates
from trueneg.report import known_data
from trueneg.report.published import published_numbers
from trueneg.specs.kinds.experiments import ExperimentStudy
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.settings import Study
from trueneg.store import blocks, data_input, versions
from trueneg.store.identity import refuse_other_settings, run_id, with_inputs
from trueneg.store.protocol import CHECKOUT, committed_protocol
from trueneg.store.records import RunRecord, read_json
from trueneg.store.run_store import RunStore
from trueneg.store.winners import WINNERS, Decision, chosen, selecting

PUBLISHED = CHECKOUT / "config/published.csv"
A_DAY = 86_400.0  # seconds; longer studies are not for this machine
DONE = (*RunStore.TRAINED, "stale")
FIRST = "first stage: "
ByStage: TypeAlias = dict[str, list[list[PlannedRun]]]  # for each job of a stage


def describe(
    name: str, studies: Mapping[str, Study], results: Path, paces: Paces, every_image: bool = False
) -> str:
    """Describe what the study would run, what exists, what is missing, and how long the rest would
    take.

    Args:
        name: the study.
        studies: all studies of the configuration.
        results: the results folder.
        paces: the paces of runs.
        every_image: whether to decode all of the user's own images that have not been read yet.

    Raises:
        UserError: for all that a job would refuse and that is known before training: data,
            networks, language models, numbers of updates; also if the protocol is not committed.
    """
    study = studies[name]
    describe_kind = pkgutil.resolve_name(study.DESCRIBED_BY)
    lines = describe_kind(name, study, studies, results, paces, every_image)
    return "\n  ".join([f"{name}: {study.title}", *lines])


def describe_trained(
    name: str,
    study: TrainedStudy,
    studies: Mapping[str, Any],
    results: Path,
    paces: Paces,
    every_image: bool,
) -> list[str]:
    """Describe a study that trains encoders."""
    # missing if the package is not used from a checkout; Snakemake cannot run then
    if PUBLISHED.is_file():
        published_numbers(study, PUBLISHED)  # raises UserError if a paper has no such numbers
    lines = [f"WARNING {caution}" for caution in cautions(study)]
    if protocol := committed_protocol(name, study.protocol, results):
        when = "the date of its commit is unknown"
        if protocol["date"]:
            when = f"committed on {protocol['date']}"
        lines.append(f"protocol {protocol['file']}: SHA-256 {protocol['checksum']}, {when}")
    winners = _winners(name, study, results)
    planned = _planned(name, study, studies, results, every_image, winners)
    lines += [*_about_data(planned), *_about_negatives(study, planned), *_progress(planned)]
    if missing_blocks := blocks.without_rows(name, study, results):
        count = counted(len(missing_blocks), "trained block")
        lines.append(
            f"{count} without rows, which Snakemake will evaluate: {blocks.listed(missing_blocks)}"
        )
    lines += _outdated(results, results / name / "artefacts/runs.json")
    missing = _missing(study, planned, winners)
    runs = [each for of_jobs in missing.values() for job in of_jobs for each in job]
    refuse_schedules(runs)
    downloads, paces.towers = check_towers(runs)
    lines += downloads
    if study.PLANNED_NETWORKS:
        lines += pkgutil.resolve_name(study.PLANNED_NETWORKS)(study, runs, results)
    if not missing:
        return [*lines, "Nothing to train: every run is in the store."]
    return lines + _times(study, missing, runs, results, paces)


def describe_experiments(
    name: str, study: ExperimentStudy, studies: Any, results: Path, *unused: Any
) -> list[str]:
    """Describe a study that trains nothing."""
    folder = results / name / "artefacts/simulation"
    finished = sum((folder / f"{key}.parquet").is_file() for key in study.EXPERIMENTS)
    return [f"{finished} of {len(study.EXPERIMENTS)} experiments finished; each takes seconds."]


def describe_likelihood(
    name: str, study: LikelihoodStudy, studies: Any, results: Path, *unused: Any
) -> list[str]:
    """Describe a study of the likelihoods of sentences."""
    lines = []
    wanted = is_wanted(name, studies)
    for corpus, reports in data_input.of_corpora(name, study).items():
        skipped = check_own_table(reports)
        folder = results / name / "text" / corpus
        changes = compare_files(reports, results).sentences
        is_made = (folder / "sentences.parquet").is_file()
        state = "not created yet" if not is_made else "outdated" if changes else "up to date"
        scores = [folder / f"likelihoods/{model}.parquet" for model in study.language_models]
        made = sum(path.is_file() for path in scores) if state == "up to date" else 0
        used = "" if wanted else "; no objective uses their likelihoods"
        lines.append(
            f"{corpus}: sentences {state}; scored by {made} of {len(scores)} language models{used}"
        )
        lines += changes if is_made else [f"MISSING {part}" for part in missing_files(reports)]
        lines += [f"{corpus}: {skipped}"] if skipped else []
        sentences = (
            privacy.read_table(folder / "sentences.parquet")[0] if state == "up to date" else None
        )
        without = [
            model
            for model, path in zip(study.language_models, scores, strict=True)
            if not (made and path.is_file())
        ]
        lines += check_language_models(study, sentences, without if wanted else ())
    return lines


class Planned(NamedTuple):
    """A run of a study, and what is known of it before training.

    Attributes:
        job: the job that trains it.
        run: its settings.
        label: the name of its data: that of the data set, and any corpus.
        data: its data.
        state: its state in the store; ``"stale"`` if a VERSION was raised since it was trained;
            None if it is not known yet.
    """

    job: Job
    run: Run
    label: str
    data: PlannedData
    state: str | None


def _planned(
    name: str,
    study: TrainedStudy,
    studies: Mapping[str, Any],
    results: Path,
    every_image: bool,
    winners: Path | None,
) -> list[Planned]:
    """Return the runs of a study; each data set is read once."""
    sources: dict[str, PlannedData] = {}
    planned = []
    for job in jobs(name, study):
        for run in _runs(job, winners):
            dataset = run.settings["dataset"]
            label = ", ".join(filter(None, (run.dataset, dataset.get("corpus"))))
            if label not in sources:
                sources[label] = planned_data(
                    study, studies, dataset, run.seed, results, every_image
                )
            is_open = job.family is not None and winners is None
            state = None if is_open else _state(run, sources[label], results)
            planned.append(Planned(job, run, label, sources[label], state))
    return planned


def _about_data(planned: Iterable[Planned]) -> list[str]:
    """Describe each data set once, and what has changed."""
    return list(
        dict.fromkeys(
            line
            for _, _, label, data, _ in planned
            for line in (f"{label}: {data.description}", *data.changes)
        )
    )


def _about_negatives(study: TrainedStudy, planned: Iterable[Planned]) -> list[str]:
    """Say what the data tell about false negatives, for the first seed of each job."""
    known = pkgutil.resolve_name(study.FALSE_NEGATIVES)
    facts = [
        (label, run.objective, known(data.source, data.subset, run.settings))
        for job, run, label, data, _ in planned
        if data.source is not None and run.seed == job.runs[0].seed and _is_trained(run)
    ]
    sentences, warnings = known_data.sentences(facts, study.primary.baseline)
    return [*sentences, *(f"WARNING {warning}" for warning in warnings)]


def _is_trained(run: Run) -> bool:
    return run.settings["objective"]["name"] not in NOT_TRAINED


def _progress(planned: Iterable[Planned]) -> list[str]:
    """Count the finished runs of each objective, by data set."""
    states: dict[str, dict[str, list[str]]] = {}
    for _, run, _, _, state in planned:
        if state is not None:
            states.setdefault(run.objective, {}).setdefault(run.dataset, []).append(state)
    return [
        f"{objective}: "
        + "; ".join(f"{label}: {_finished(of_runs)}" for label, of_runs in by_label.items())
        for objective, by_label in states.items()
    ]


def _missing(study: TrainedStudy, planned: Iterable[Planned], winners: Path | None) -> ByStage:
    """Return the runs that are yet to be trained, by stage, for each job."""
    missing: ByStage = {}
    for job, of_job in itertools.groupby(planned, operator.attrgetter("job")):
        if absent := [(run, data) for _, run, _, data, state in of_job if state not in DONE]:
            missing.setdefault(_stage(study, job, winners), []).append(absent)
    return missing


def _times(
    study: TrainedStudy,
    missing: ByStage,
    runs: Sequence[PlannedRun],
    results: Path,
    paces: Paces,
) -> list[str]:
    """Estimate how long the missing runs would take, by stage and in all."""
    times = {
        stage: estimated_time(of_jobs, paces, study.primary.over != "runs" and stage != FIRST)
        for stage, of_jobs in missing.items()
    }
    lines = [f"{stage}{sentence}" for stage, (sentence, _) in times.items()]
    towers, of_towers = towers_to_compute(runs, results, paces)
    seconds = sum(each for _, each in times.values()) + of_towers + OTHERS  # NaN: unknown
    if seconds < A_DAY:
        cores = os.cpu_count() or 1
        towers.append(
            f"in all: roughly {duration(seconds)} of processor time, with {duration(OTHERS)} for"
            f" data and figures; at least {duration(seconds / cores)} on"
            f" {counted(cores, 'core')} of this machine"
        )
    return lines + towers


def _winners(name: str, study: TrainedStudy, results: Path) -> Path | None:
    """Return the file with the winners of a tuned study, if its first stage is finished or is
    replaced by a file.
    """
    if study.tuning is None:
        return None
    if study.tuning.winners is not None:
        return Path(study.tuning.winners)
    path = results / name / WINNERS
    if not path.is_file():
        return None
    require_intact(results, [path])
    decision = Decision.of(read_json(path))
    # if they differ, Snakemake will select again
    is_current = (
        decision.model_dump(include={*selecting(study)}) == selecting(study)
        and decision.winners.keys() >= datasets(study).keys()
        and {*decision.seeds} == {*study.tuning.seeds}
    )
    return path if is_current else None


def _stage(study: TrainedStudy, job: Job, winners: Path | None) -> str:
    """Return the prefix of a stage's time estimate, which is an upper limit for the second stage
    until its winners are known.
    """
    if study.tuning is None:
        return ""
    return FIRST if job.is_pilot else f"second stage{', at most' if winners is None else ''}: "


def _runs(job: Job, winners: Path | None) -> list[Run]:
    """Return a job's runs. If they depend on winners, only those of the winners or, until these are
    known, of the choice that takes the longest to train.
    """
    if job.family is None:
        return job.runs
    if winners is None:
        return max(
            (choice.runs for choice in job.choices.values()),
            key=lambda runs: relative_cost(runs[0].settings),
        )
    _, runs = chosen(job.to_json(), winners)
    return [Run(**run) for run in runs]


def _state(run: Run, data: PlannedData, results: Path) -> str | None:
    """Return the state of a run, as in :class:`Planned`."""
    towers: Any = {
        section: stored_weights(results / "features" / f"{features_key(made)}.npz")
        for section, made in frozen_towers(run.settings).items()
    }
    if data.checksum is None or None in towers.values():
        return None
    mined = None
    if (key := mining_key(run.settings)) is not None:
        mined = mined_checksum(results / run.study / "mined" / run.dataset / key, run.seed)
        if mined is None:
            return None
    store = RunStore(results / "runs")
    identifier = run_id(run, with_inputs(data.checksum(run.settings), towers, mined))
    state = store.state(identifier)
    if state not in RunStore.TRAINED:
        return state
    record = store.record(identifier, RunRecord)
    refuse_other_settings(
        store.folder(identifier) / RunStore.RECORD, record["settings"], run.settings
    )
    return "stale" if versions.stale_training(record) else state


def _finished(states: list[str]) -> str:
    stale = states.count("stale")
    imported = states.count("imported")
    marked = f" ({stale} stale: a VERSION was raised after the training; reused)" if stale else ""
    marked += f" ({imported} imported, without weights)" if imported else ""
    return f"{sum(state in DONE for state in states)} of {len(states)} runs finished{marked}"


def _outdated(results: Path, path: Path) -> list[str]:
    """List the evaluated runs with stale rows, and those whose features or weights changed."""
    evaluated = read_json(path, list[RunRecord]) if path.is_file() else []
    stale = sum(bool(versions.stale_rows(record)) for record in evaluated)
    remedy = (
        "a VERSION was raised after the evaluation; `snakemake --forcerun evaluate` measures them"
        " again"
    )
    lines = [f"{stale} of {len(evaluated)} runs have stale rows: {remedy}"] if stale else []
    changed = Counter(filter(None, map(DataChanges(results).of_files, evaluated)))
    return lines + [
        f"{count} of {len(evaluated)} runs: {sentence}" for sentence, count in changed.items()
    ]


def refuse_schedules(runs: Iterable[PlannedRun]) -> None:
    """Check batch size and warm-up against the number of images, as the training job does."""
    for run, data in runs:
        training = run.settings["training"]
        if data.subset is not None and _is_trained(run):
            planned_updates(training, data.samples(training), data.subset.seed)
