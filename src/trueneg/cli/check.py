"""Report what a study would run, what exists, what is missing, and how long the missing runs would take."""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.order import image_cost, image_count, relative_cost
from trueneg.config.runs import Job, Run, RunSettings, datasets, families, jobs, pairs_key
from trueneg.config.trained_study import TrainedStudy
from trueneg.data import false_negatives
from trueneg.data.images.image_source import ImageSource, data_checksum, read_source
from trueneg.data.images.loading import drawing_settings, load_source
from trueneg.data.images.subsets import TEST_FRACTION, Subset, make_subset
from trueneg.data.pairs import chexpert_8x200
from trueneg.data.pairs.mimic_cxr import missing_reports
from trueneg.data.pairs.registry import source_module
from trueneg.data.user_files import DataChanges, check_own_rows, check_own_table, compare_files
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.report import known_data
from trueneg.report.published import published_numbers
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.settings import Study
from trueneg.specs.sources import OWN
from trueneg.specs.tasks import measured_by
from trueneg.store import blocks, data_input, versions
from trueneg.store.data_input import DataInput
from trueneg.store.identity import identity, refuse_other_settings, run_id
from trueneg.store.protocol import CHECKOUT, committed_protocol
from trueneg.store.records import RunRecord, UserFilesRecord, read_json
from trueneg.store.run_store import RunStore
from trueneg.store.winners import WINNERS, chosen, read_winners

MEASURED_UPDATES = 3
SLOW_UPDATE = 5.0  # seconds; slower updates (a GPU study on a CPU) are measured only once, including warm-up
START = 5.0  # seconds to start a job, most of them for imports; measured with two jobs at a time on two cores
SUSTAINED = 1e14  # assumed sustained operations per second of a GPU
PUBLISHED = CHECKOUT / "config/published.csv"
DONE = (*RunStore.TRAINED, "stale")


class PlannedData(NamedTuple):
    """The data shared by all runs of a study on one data set."""

    description: str
    changes: list[str]
    images: int = 0  # number of training images; 0: the data have not been read yet
    checksum: Callable[[RunSettings], str] | None = None
    measure: Callable[[Run], float] | None = None  # seconds per update
    facts: Callable[[RunSettings], false_negatives.Facts] | None = None


def describe(name: str, studies: Mapping[str, Study], results: Path) -> str:
    """Describe what the study would run, what exists, what is missing, and how long the rest would take.

    Raises:
        UserError: if a source is missing or damaged, a subset is smaller than a batch, or the protocol is not committed.
    """
    study = studies[name]
    if isinstance(study, TrainedStudy):
        if PUBLISHED.is_file():  # missing if the package is not used from a checkout; Snakemake cannot run then
            published_numbers(study, PUBLISHED)  # raises UserError if a paper has no such numbers
        lines = []
        if protocol := committed_protocol(name, study.protocol, results):
            when = f"committed on {protocol['date']}" if protocol["date"] else "the date of its commit is unknown"
            lines.append(f"protocol {protocol['file']}: SHA-256 {protocol['checksum']}, {when}")
        lines += _training(name, study, studies, results)
    elif isinstance(study, LikelihoodStudy):
        lines = _scoring(name, study, results)
    else:
        finished = sum((results / name / f"artefacts/simulation/{key}.parquet").is_file() for key in EXPERIMENTS)
        lines = [f"{finished} of {len(EXPERIMENTS)} experiments finished; each takes seconds."]
    return "\n  ".join([f"{name}: {study.title}", *lines])


def _scoring(name: str, study: LikelihoodStudy, results: Path) -> list[str]:
    lines = []
    for corpus, reports in data_input.of_corpora(name, study).items():
        check_own_table(reports)
        folder, changes = results / name / "text" / corpus, compare_files(reports, results).sentences
        is_made = (folder / "sentences.parquet").is_file()
        state = "not created yet" if not is_made else "outdated" if changes else "up to date"
        scores = [folder / f"likelihoods/{model}.parquet" for model in study.language_models]
        made = sum(path.is_file() for path in scores) if state == "up to date" else 0
        lines.append(f"{corpus}: sentences {state}; scored by {made} of {len(scores)} language models")
        lines += changes if is_made else [f"MISSING {part}" for part in _missing_texts(study)]
        lines += filter(None, [check_own_rows(reports)])
    return lines


def _training(name: str, study: TrainedStudy, studies: Mapping[str, Any], results: Path) -> list[str]:
    store, winners, lines = RunStore(results / "runs"), _winners(name, study, results), []
    sources: dict[str, PlannedData] = {}
    facts: list[tuple[str, str, false_negatives.Facts]] = []
    states: dict[str, dict[str, list[str]]] = {}
    missing: dict[str, list[list[tuple[Run, PlannedData]]]] = {}  # by stage, for each job
    for job in jobs(name, study):
        is_open, absent = job.family is not None and winners is None, []
        for run in _costliest(job) if is_open else _decided(job, winners):
            dataset = run.settings["dataset"]
            label = ", ".join(filter(None, (run.dataset, dataset.get("corpus"))))
            if label not in sources:
                is_image = isinstance(study, ImageStudy)
                sources[label] = _images(dataset, run.seed, results) if is_image else _pairs(dataset, run.seed, studies, results)
                changes = [change for change in sources[label].changes if change not in lines]
                lines += [f"{label}: {sources[label].description}", *changes]
            data, state = sources[label], "missing"
            if data.facts is not None and run.seed == job.runs[0].seed:
                facts.append((label, run.objective, data.facts(run.settings)))
            if data.checksum is not None and not is_open:
                state = _state(store, run, run_id(run, data.checksum(run.settings)))
                states.setdefault(run.objective, {}).setdefault(run.dataset, []).append(state)
            if state not in DONE:
                absent.append((run, data))
        if absent:
            missing.setdefault(_stage(study, job, winners), []).append(absent)
    about_data, warnings = known_data.sentences(facts, study.primary.baseline)
    lines += [*about_data, *(f"WARNING {warning}" for warning in warnings)]
    for objective, by_label in states.items():
        lines.append(f"{objective}: " + "; ".join(f"{label}: {_finished(of_runs)}" for label, of_runs in by_label.items()))
    if missing_blocks := blocks.without_rows(name, study, results):
        count = counted(len(missing_blocks), "trained block")
        lines.append(f"{count} without rows, which Snakemake will evaluate: {blocks.listed(missing_blocks)}")
    lines += _outdated(results, results / name / "artefacts/runs.json")
    if isinstance(study, ImageTextStudy):
        lines += [f"MISSING {part}" for part in _missing_networks(study)]
        lines += _changed_benchmark(study, results)
        if any(data.checksum is None for data in sources.values()):
            lines += [f"MISSING {part}" for part in _missing_images(study)]
    times = [f"{stage}{_time(of_jobs, store, study)}" for stage, of_jobs in missing.items()]
    return [*lines, *(times or ["Nothing to train: every run is in the store."])]


def _winners(name: str, study: TrainedStudy, results: Path) -> Path | None:
    """Return the file with the winners of a tuned study, if its first stage is finished or is replaced by a file."""
    if study.tuning is None:
        return None
    if study.tuning.winners is not None:
        return Path(study.tuning.winners)
    path = results / name / WINNERS
    if not path.is_file():
        return None
    _, table = read_winners(path)
    compared = {place: set(rows["variant"]) for place, rows in table.groupby(["dataset", "objective"])}
    planned = {(label, name): set(variants.values()) for label in datasets(study) for name, variants in families(study).items()}
    is_current = planned.items() <= compared.items() and set(table["seeds"]) == {len(study.tuning.seeds)}
    return path if is_current else None  # if the candidates differ, Snakemake will select again


def _stage(study: TrainedStudy, job: Job, winners: Path | None) -> str:
    """Return the prefix of a stage's time estimate, which is an upper limit for the second stage until its winners are known."""
    if study.tuning is None:
        return ""
    return "first stage: " if job.is_pilot else f"second stage{', at most' if winners is None else ''}: "


def _decided(job: Job, winners: Path | None) -> list[Run]:
    """Return a job's runs; if they depend on known winners, only those of the winners."""
    if job.family is None or winners is None:
        return job.runs
    _, runs = chosen(job.to_json(), winners)
    return [Run(**run) for run in runs]


def _costliest(job: Job) -> list[Run]:
    """Return the runs of the choice that takes the longest to train."""
    return max((choice.runs for choice in job.choices.values()), key=lambda runs: relative_cost(runs[0].settings))


def _images(dataset: Mapping[str, Any], seed: int, results: Path) -> PlannedData:
    images = data_input.of_images(dataset)
    decoded = results / f"{images.place}.npz"
    changes = compare_files(images, results).sentences if decoded.is_file() else []
    is_current = decoded.is_file() and not changes
    try:
        source = read_source(decoded) if is_current else load_source(**images.settings)
    except UserError as error:
        if not is_current and (recorded := _recorded(images, results)) is not None:
            return recorded._replace(changes=[str(error)])
        if is_current or dataset["source"] in OWN or Path(dataset["path"] or "").expanduser().exists():
            raise
        return PlannedData("not read yet", [f"MISSING {error}"])  # a published data set
    subset = make_subset(source, seed=seed, **drawing_settings(source, dataset))
    unlabelled = int((source.labels[subset.train] < 0).sum())
    held_out = "" if source.is_test.any() else f" (no test images: dataset.test = {dataset['test'] or TEST_FRACTION:g} held out)"
    own = " (the data's own; dataset.validation is not used)" if source.is_validation.any() else ""
    description = (
        f"{source.name}, {source.images.shape[-1]} px; training {len(subset.train) - unlabelled:,} of {len(subset.pool):,} images"
        f"{f' and {unlabelled:,} unlabelled ones' if unlabelled else ''}, validation "
        f"{len(subset.validation):,}{own}, test {len(subset.test):,}{held_out}"
    )
    measure = functools.partial(_measured, source=source, subset=subset)
    checksum = functools.partial(data_checksum, source)
    facts = functools.partial(false_negatives.of_views, source, subset)
    return PlannedData(description, changes, len(subset.train), checksum, measure, facts)


def _pairs(dataset: Mapping[str, Any], seed: int, studies: Mapping[str, Any], results: Path) -> PlannedData:
    path = results / "pairs" / f"{pairs_key(dataset)}.npz"
    reports, images = data_input.of_joined_reports(dataset, studies), data_input.of_pairs(dataset, studies)
    check_own_table(images)
    changes = dict.fromkeys(change for data in (reports, images) for change in compare_files(data, results).sentences)
    if not path.is_file() and not changes and (recorded := _recorded(images, results)) is not None:
        absent = source_module(dataset["source"]).missing_files(dataset) if "path" in dataset else []
        return recorded._replace(changes=[f"MISSING {part}" for part in absent])
    if not path.is_file() or changes:
        again = " again" if path.is_file() else ""
        description = f"images and sentences will be created{again} from the reports of {dataset['text']}"
        return PlannedData(description, list(changes) if again else [])
    from trueneg.data.pairs.pair_source import beside, read_pairs
    from trueneg.data.pairs.pair_splits import pair_subset
    from trueneg.io import privacy
    from trueneg.training.image_text_objectives import data_checksum as checksum_of_pairs

    pairs = read_pairs(path)
    description = f"{pairs.name}, {len(pairs.images):,} images of {pairs.size[0]} px, {len(pairs.sentences):,} sentences"
    subset = pair_subset(pairs, privacy.read_table(beside(path, "splits"))[0], dataset, seed)
    facts = functools.partial(false_negatives.of_pairs, pairs, subset)
    return PlannedData(description, [], len(pairs.images), functools.partial(checksum_of_pairs, pairs), facts=facts)


def _recorded(data: DataInput, results: Path) -> PlannedData | None:
    """Describe data that are not on this machine, from their record; None if they were never read."""
    if not data.record(results).is_file():
        return None
    checksum = read_json(data.record(results), UserFilesRecord)["data"]
    runs = [run for run in RunStore(results / "runs").records().values() if run["source"]["checksum"] == checksum]
    checksums = {repr(identity(run["settings"])): run.get("data", checksum) for run in runs}
    images = max((run["images"] for run in runs), default=0)
    description = (
        f"{data.settings['source']}: not on this machine; recorded checksum {checksum[:6]}…, training at most {images:,} images"
    )
    return PlannedData(description, [], images, lambda settings: checksums.get(repr(identity(settings)), checksum))


def _state(store: RunStore, run: Run, identifier: str) -> str:
    """Return the state of a run in the store; ``"stale"`` if a VERSION was raised since it was trained."""
    state = store.state(identifier)
    if state not in RunStore.TRAINED:
        return state
    record = store.record(identifier, RunRecord)
    refuse_other_settings(store.folder(identifier) / RunStore.RECORD, record["settings"], run.settings)
    return "stale" if versions.stale_training(record) else state


def _finished(states: list[str]) -> str:
    stale, imported = states.count("stale"), states.count("imported")
    marked = f" ({stale} stale: a VERSION was raised after the training; reused)" if stale else ""
    marked += f" ({imported} imported, without weights)" if imported else ""
    return f"{sum(state in DONE for state in states)} of {len(states)} runs finished{marked}"


def _outdated(results: Path, path: Path) -> list[str]:
    """List the evaluated runs with stale rows, and those whose features or weights changed."""
    evaluated = read_json(path, list[RunRecord]) if path.is_file() else []
    stale = sum(bool(versions.stale_rows(record)) for record in evaluated)
    remedy = "a VERSION was raised after the evaluation; `snakemake --forcerun evaluate` measures them again"
    lines = [f"{stale} of {len(evaluated)} runs have stale rows: {remedy}"] if stale else []
    changed = Counter(filter(None, map(DataChanges(results).of_files, evaluated)))
    return lines + [f"{count} of {len(evaluated)} runs: {sentence}" for sentence, count in changed.items()]


def _changed_benchmark(study: ImageTextStudy, results: Path) -> list[str]:
    """List changes to the files of CheXpert 8×200 since they were read."""
    lists = study.evaluation.chexpert_8x200
    if lists is None:
        return []
    inputs = (data_input.of_benchmark(lists, dataset.model_dump()) for dataset in datasets(study).values())
    read = {data.place: data for data in inputs if data.record(results).is_file()}
    return [change for data in read.values() for change in compare_files(data, results).sentences]


def _missing_texts(study: LikelihoodStudy) -> list[str]:
    """List missing report files and where to get them."""
    settings, source = study.reports.model_dump(), study.reports.source
    if study.reports.captions:
        return source_module(source).missing_files(settings)
    if source == "mimic_cxr":
        return missing_reports(settings)
    is_absent = source == "table" and not Path(settings["path"]).expanduser().exists()
    return [f"reports.path, {settings['path']}: your own table"] if is_absent else []


def _missing_images(study: ImageTextStudy) -> list[str]:
    """List missing image files and where to get them; some sources keep images and captions in the same folder."""
    settings, lists = study.dataset.model_dump(), study.evaluation.chexpert_8x200
    missing = source_module(settings["source"]).missing_files(settings) if "path" in settings else []
    return missing + (chexpert_8x200.missing_files(lists.model_dump()) if lists is not None else [])


def _missing_networks(study: ImageTextStudy) -> list[str]:
    """List missing files of released networks and where to get them."""
    files: dict[str, str] = {}
    for objective in study.objectives.values():
        sections = study.sections_of(objective)
        if sections["encoder"].name == "biovil":
            files[sections["encoder"].weights] = "BioViL's image model"
        if (head := getattr(sections["text_encoder"], "projection", None)) is not None:
            files[head] = "BioViL's text projection"
    missing = ", ".join(f"{file} ({what})" for file, what in files.items() if not Path(file).is_file())
    return [f"{missing}. Download and convert them: docs/released-networks.md."] if missing else []


def _time(missing: Sequence[Sequence[tuple[Run, PlannedData]]], store: RunStore, study: TrainedStudy) -> str:
    """Estimate the training time from finished runs of the same kind, a few measured updates or an assumed GPU speed.

    Args:
        missing: runs to train, for each job.
        store: store of the finished runs.
        study: the study, whose evaluation may also train networks.
    """
    paces: dict[str, tuple[float, str]] = {}  # seconds per update, and where they come from
    for record in store.records().values():
        if updates := _updates(record["settings"], record["images"]):
            paces[_kind(record["settings"])] = record["seconds"] / updates, "finished runs"
    runs = [run for job in missing for run in job]
    seconds: defaultdict[str, float] = defaultdict(float)  # by origin of the pace
    operations, unknown = 0.0, 0
    for run, data in runs:
        kind, updates = _kind(run.settings), _updates(run.settings, data.images)
        if updates and kind not in paces and data.measure is not None:
            paces[kind] = data.measure(run), "a measurement of a few updates on this machine"
        if data.images and kind in paces:
            pace, origin = paces[kind]
            seconds[origin] += pace * updates
        elif run.settings["training"]["device"] == "cpu":
            unknown += 1
        else:
            operations += training_operations(run)
    parts = []
    if total := sum(seconds.values()):
        parts.append(f"about {_duration(total)} with one process (from {' and '.join(seconds)})")
    if operations:
        parts.append(f"about {_duration(operations / SUSTAINED)} on one GPU (assumed: {SUSTAINED / 1e12:.0f} TFLOP/s)")
    if unknown:
        parts.append(f"{unknown:,} of unknown duration (their data do not exist yet)")
    training = f"{counted(len(runs), 'run')} to train in {counted(len(missing), 'job')}: {', and '.join(parts) or 'seconds'}."
    started = f"starting these and as many evaluation jobs takes about {_duration(2 * len(missing) * START)}"
    return f"{training} In addition, {started}; {_evaluation(runs, study)}." if parts else training


def _evaluation(runs: Sequence[tuple[Run, PlannedData]], study: TrainedStudy) -> str:
    """Estimate the time of the tasks that pass the training images through the encoder many times, or name them."""
    passes = {task.ROWS[0]: task.encoder_passes for task in measured_by(study).values() if task.encoder_passes}
    names = " and ".join(passes)
    if not passes or any(run.settings["training"]["device"] == "cpu" for run, _ in runs):
        return f"evaluation itself{f', including {names},' if names else ''} is not estimated"
    images = 0.0  # labelled ones, by the cost of each
    for run, data in runs:
        dataset = run.settings["dataset"]
        labelled = (data.images or image_count(dataset)) - (dataset.get("unlabelled") or 0)
        images += image_cost(run.settings) * labelled
    hours = _duration(1e9 * sum(passes.values()) * images / SUSTAINED)
    return f"evaluation by {names} takes about {hours} on one GPU (same assumption); other evaluation is not estimated"


def training_operations(run: Run) -> float:
    """Return the number of operations to train a run; a backward pass costs about two forward passes."""
    return 3e9 * relative_cost(run.settings)


def _kind(settings: RunSettings) -> str:
    """Return a key of the settings that determine a run's speed."""
    networks = [settings.get(section) for section in ("encoder", "text_encoder", "projection", "augmentation")]
    data = [settings["dataset"].get(key) for key in ("source", "path", "resolution")]
    training = [settings["training"].get(key, 1) for key in ("batch_size", "threads", "device", "devices")]
    return repr((networks, data, training))


def _updates(settings: RunSettings, images: int) -> float:
    training = settings["training"]
    count = training["updates"] or (training["epochs"] or 0) * images / training["batch_size"]
    return 0.0 if settings["objective"]["name"] in NOT_TRAINED else count


def _measured(run: Run, source: ImageSource, subset: Subset) -> float:
    """Measure seconds per update over a few updates, after one warm-up update."""
    import torch

    from trueneg.runtime.devices import choose_device
    from trueneg.training.simclr import SimCLR

    training = run.settings["training"]
    torch.set_num_threads(training["threads"])
    device = choose_device(training["device"])
    with catch_out_of_memory(f"{run.study}, {run.objective}", smaller_batch(training["batch_size"])):
        for updates in (1, MEASURED_UPDATES):
            settings = {**run.settings, "training": {**training, "updates": updates, "epochs": None}}
            row = SimCLR(settings, run.seed, source, subset, device).train_epoch()
            if row["seconds"] > SLOW_UPDATE:
                break
    return 2 * training["batch_size"] / row["views_per_second"]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
