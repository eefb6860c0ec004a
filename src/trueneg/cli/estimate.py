"""What a study would run, what exists already, what is missing, and what the missing runs would cost."""

from collections.abc import Mapping
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.cli.cost import cost_text, missing_data
from trueneg.compute.memory import memory_told, smaller_batch
from trueneg.compute.processes import process_pool
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import Run, all_runs, corpora, datasets, pairs_key, source_key
from trueneg.data.images.image_source import ImageSource, read_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.prepare import DRAWING
from trueneg.data.images.subsets import Subset, make_subset
from trueneg.errors import UserError
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.settings import Study
from trueneg.store import provenance, user_files
from trueneg.store.identity import refuse_other_settings, run_id
from trueneg.store.records import RUN, read_json
from trueneg.store.run_store import RunStore

MEASURED_UPDATES = 3
DONE = ("finished", "stale")


def describe(name: str, studies: Mapping[str, Study], results: Path) -> str:
    """A text: what the study would run, what is there already, and what the rest would cost.

    Args:
        name: the study's name in the configuration.
        studies: all studies of the configuration.
        results: folder of the results.

    Raises:
        UserError: if a source is missing or damaged, or a batch does not fit a subset.
    """
    study = studies[name]
    if isinstance(study, ImageStudy):
        return _training(name, study, results)
    if isinstance(study, ImageTextStudy):
        return _training_on_pairs(name, study, studies, results)
    return (_scoring if isinstance(study, LikelihoodStudy) else _experiments)(name, study, results)


def _scoring(name: str, study: LikelihoodStudy, results: Path) -> str:
    lines = [f"{name}: {study.title}"]
    for corpus, reports in corpora(study).items():
        folder = results / name / "text" / corpus
        changes = user_files.look(user_files.of_reports(name, corpus, reports.model_dump(mode="json")), results).changes
        is_made = (folder / "sentences.parquet").is_file()
        is_current = is_made and not changes
        made = [model for model in study.language_models if is_current and (folder / f"likelihoods/{model}.parquet").is_file()]
        state = "made" if is_current else "to be created again" if is_made else "to be made"
        lines.append(f"  {corpus}: sentences {state}; scored by {len(made)} of {len(study.language_models)} language models")
        lines += [f"  {change}" for change in changes if is_made]
        lines += [] if is_made else _missing(study)
    return "\n".join(lines)


def _experiments(name: str, study: Study, results: Path) -> str:
    made = [experiment for experiment in EXPERIMENTS if (results / name / f"artefacts/simulation/{experiment}.parquet").is_file()]
    return f"{name}: {study.title}\n  {len(made)} of {len(EXPERIMENTS)} experiments made; each takes seconds."


def _training(name: str, study: ImageStudy, results: Path) -> str:
    """A text: the study's runs by data set and objective, and the time and disk that the missing ones need.

    The time of a view comes from finished runs with the same networks and image size, else from a short measurement here.
    """
    store = RunStore(results / "runs")
    lines = [f"{name}: {study.title}"]
    counts: dict[str, dict[str, list[str]]] = {}
    missing: list[tuple[Run, ImageSource, Subset]] = []
    for label, settings in datasets(study).items():
        reading = settings.model_dump(mode="json")
        source, changes = _source(reading, results)
        subset = make_subset(source, seed=study.seed_list[0], **{key: reading[key] for key in DRAWING})
        lines.append(
            f"  {label}: {source.name}, {source.images.shape[-1]} px; "
            f"training {len(subset.train):,} of {len(subset.pool):,} images, "
            f"validation {len(subset.validation):,}, test {len(subset.test):,}; "
            f"class probability {subset.eta_low:.4f} (rare) and {subset.eta_high:.4f} (common)"
        )
        lines += [f"  {change}" for change in changes]
        for run in (run for run in all_runs(name, study) if run.dataset == label):
            state = _state(store, run, run_id(run, source.checksum))
            counts.setdefault(run.objective, {}).setdefault(label, []).append(state)
            if state not in DONE:
                missing.append((run, source, subset))
    for objective, by_dataset in counts.items():
        lines.append(f"  {objective}: " + "; ".join(f"{label}: {_finished(states)}" for label, states in by_dataset.items()))
    lines += _stale_rows(name, results)
    lines.append("  " + (_cost(missing, store) if missing else "Nothing to train: every run is in the store."))
    return "\n".join(lines)


def _training_on_pairs(name: str, study: ImageTextStudy, studies: Mapping[str, Study], results: Path) -> str:
    """A text: the study's runs by data set and objective; their time is known when the first of them is finished."""
    from trueneg.data.pairs.pair_source import read_pairs
    from trueneg.training.image_text_objectives import data_checksum

    store, lines, to_be_made = RunStore(results / "runs"), [f"{name}: {study.title}"], False
    for label, settings in datasets(study).items():
        runs = [run for run in all_runs(name, study) if run.dataset == label]
        dataset = settings.model_dump(mode="json")
        path = results / "pairs" / f"{pairs_key(dataset)}.npz"
        readings = (user_files.of_joined_reports(dataset, studies), user_files.of_pairs(dataset, studies))
        changes = dict.fromkeys(change for reading in readings for change in user_files.look(reading, results).changes)
        if not path.is_file() or changes:
            again = " again" if path.is_file() else ""
            made = f"images and sentences will be created{again} from the reports of {settings.text}"
            lines.append(f"  {label}: {made}; {len(runs)} runs")
            lines += [f"  {change}" for change in changes if again]
            to_be_made = True
            continue
        pairs = read_pairs(path)
        lines.append(
            f"  {label}: {pairs.name}, {len(pairs.images):,} images of {pairs.size[0]} px, {len(pairs.sentences):,} sentences"
        )
        identifiers = [run_id(run, data_checksum(pairs, run.settings)) for run in runs]
        states = [_state(store, run, identifier) for run, identifier in zip(runs, identifiers, strict=True)]
        for objective in dict.fromkeys(run.objective for run in runs):
            own = [state for run, state in zip(runs, states, strict=True) if run.objective == objective]
            lines.append(f"  {objective}: {_finished(own)}")
        finished = [state in DONE for state in states]
        missing = len(runs) - sum(finished)
        seconds = [store.record(one)["seconds"] for one, done in zip(identifiers, finished, strict=True) if done]
        if not missing:
            lines.append("  Nothing to train: every run is in the store.")
        elif seconds:
            cost = _duration(missing * sum(seconds) / len(seconds))
            lines.append(f"  {missing} runs to train: about {cost} of one process (from {len(seconds)} finished runs).")
        else:
            lines.append(f"  {missing} runs to train; their time is known when the first of them is finished.")
    lines += _stale_rows(name, results)
    if study.evaluation.chexpert_8x200 is not None:
        lines += [f"  {change}" for change in _changed_benchmark(study, results)]
    if to_be_made:
        cost = cost_text(name, study)
        lines += [*_missing(study), *([] if cost is None else [f"  {cost}"])]
    return "\n".join(lines)


def _state(store: RunStore, run: Run, identifier: str) -> str:
    """The state of a run in the store; of a finished one that other code trained ``"stale"``."""
    state = store.state(identifier)
    if state != "finished":
        return state
    record = store.record(identifier, RUN)
    refuse_other_settings(store.folder(identifier) / RunStore.RECORD, record["settings"], run.settings)
    return "stale" if provenance.is_stale(record) else state


def _finished(states: list[str]) -> str:
    stale = states.count("stale")
    marked = f" ({stale} stale: trained with other code than today's, and reused)" if stale else ""
    return f"{sum(state in DONE for state in states)} of {len(states)} runs finished{marked}"


def _stale_rows(name: str, results: Path) -> list[str]:
    path = results / name / "artefacts" / "runs.json"
    made = read_json(path, [RUN]) if path.is_file() else []
    stale = sum(map(provenance.evaluated_by_other_code, made))
    return [f"  {stale} of {len(made)} runs have stale rows: evaluated with other code than today's, and reused"] if stale else []


def _changed_benchmark(study: ImageTextStudy, results: Path) -> list[str]:
    """How the files of CheXpert 8×200 changed, where they were read before."""
    settings = study.evaluation.chexpert_8x200.model_dump()
    sizes = {dataset.resolution for dataset in datasets(study).values()}
    readings = [user_files.of_benchmark(settings | {"resolution": size}) for size in sorted(sizes)]
    read = [reading for reading in readings if reading.record(results).is_file()]
    return [change for reading in read for change in user_files.look(reading, results).changes]


def _missing(study: ImageTextStudy | LikelihoodStudy) -> list[str]:
    return [f"  MISSING {part}" for part in missing_data(study)]


def _source(dataset: dict[str, Any], results: Path) -> tuple[ImageSource, list[str]]:
    """The images that a run would be trained on, and why those that were decoded before are not."""
    reading = {key: dataset[key] for key in ("source", "path", "resolution", "download")}
    decoded = results / "sources" / f"{source_key(reading)}.npz"
    changes = user_files.look(user_files.of_images(reading), results).changes if decoded.is_file() else []
    if decoded.is_file() and not changes:
        return read_source(decoded), []
    source = load_source(reading["source"], path=reading["path"], resolution=reading["resolution"], download=reading["download"])
    return source, changes


def _cost(missing: list[tuple[Run, ImageSource, Subset]], store: RunStore) -> str:
    known = {_speed_key(record["settings"], record["source"]["checksum"]): record for record in store.records().values()}
    measured: dict[str, float] = {}
    seconds = 0.0
    for run, source, subset in missing:
        key = _speed_key(run.settings, source.checksum)
        if key in known:
            per_view = known[key]["seconds"] / known[key]["views"]
        else:
            per_view = measured[key] if key in measured else measured.setdefault(key, _measured_apart(run, source, subset))
        training = run.settings["training"]
        updates = training["updates"] or training["epochs"] * (len(subset.train) // training["batch_size"])
        seconds += per_view * 2 * training["batch_size"] * updates
    how = "a measurement of a few updates here" if measured else "finished runs"
    disk = sum(path.stat().st_size for path in store.path.glob("*/*")) / max(len(store.records()), 1)
    size = f"; about {disk * len(missing) / 1e6:,.0f} MB of disk" if disk else ""
    return f"{len(missing)} runs to train: about {_duration(seconds)} of one process (from {how}){size}."


def _speed_key(settings: dict[str, Any], checksum: str) -> str:
    training = {key: settings["training"].get(key, 1) for key in ("batch_size", "threads", "device", "devices")}
    return repr((checksum, settings["encoder"], settings["projection"], settings["augmentation"], training))


def _measured_apart(run: Run, source: ImageSource, subset: Subset) -> float:
    """Seconds per view, measured in a subprocess on a subset of the images; a crash is reported as a UserError."""
    batch_size = run.settings["training"]["batch_size"]
    few = subset.train[:: max(1, len(subset.train) // (MEASURED_UPDATES * batch_size))]
    kept = np.union1d(few, subset.validation)
    images, labels, is_test = source.images[kept], source.labels[kept], source.is_test[kept]
    source = replace(source, images=images, labels=labels, is_test=is_test)
    subset = replace(subset, train=np.searchsorted(kept, few), validation=np.searchsorted(kept, subset.validation))
    with process_pool(1) as pool:
        try:
            return pool.submit(_measure, run, source, subset).result()
        except BrokenProcessPool as error:
            raise UserError(
                f"{run.study}, {run.objective}: the process that measured {MEASURED_UPDATES} updates crashed or was killed; the "
                f"training would fail in the same way. If the machine ran out of memory: {smaller_batch(batch_size)}"
            ) from error


def _measure(run: Run, source: ImageSource, subset: Subset) -> float:
    """Seconds per view, from a few updates after one to warm up."""
    import torch

    from trueneg.compute.devices import choose_device
    from trueneg.training.simclr import SimCLR

    technical = run.settings["training"]
    torch.set_num_threads(technical["threads"])
    device = choose_device(technical["device"])
    with memory_told(f"{run.study}, {run.objective}", smaller_batch(technical["batch_size"])):
        for updates in (1, MEASURED_UPDATES):
            settings = dict(run.settings) | {"training": dict(technical) | {"updates": updates, "epochs": None}}
            row = SimCLR(settings, run.seed, source, subset, device).train_epoch()
    return 1 / row["views_per_second"]


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
