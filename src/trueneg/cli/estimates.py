"""Estimates of the time that missing runs would take on this machine, and on a GPU."""

import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from trueneg.cli.planned_data import PlannedData, bare_pairs
from trueneg.config.likelihood_study import LanguageModelSettings, ScoringSettings
from trueneg.config.order import ASSUMED_SIDE, SIDES, SIZES, TOKENS, image_cost, image_count, relative_cost
from trueneg.config.runs import Run, RunSettings, training_kind
from trueneg.config.trained_study import TrainedStudy
from trueneg.data.images.image_source import ImageSource
from trueneg.io.downloads import DownloadNeededError, without_downloads
from trueneg.legible import counted
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.tasks import measured_by
from trueneg.store.identity import model_of
from trueneg.store.run_store import RunStore

MEASURED_UPDATES = 3
SLOW_UPDATE = 5.0  # seconds; slower updates are measured only once, including warm-up
MEASURED_OPERATIONS, SMALLEST_BATCH = 2e11, 4  # of an update on a CPU, which takes about 10 seconds
MEASURING = 10.0  # seconds, after which further networks are assumed to run at the speed of the last one
MEASURED_TEXTS = 32  # sentences to score
START = 5.0  # seconds to start a job, most of them for imports; measured with two jobs at a time on two cores
SUSTAINED = 1e14  # assumed sustained operations per second of a GPU


def estimated_time(missing: Sequence[Sequence[tuple[Run, PlannedData]]], store: RunStore, study: TrainedStudy) -> str:
    """Estimate the training time from finished runs of the same kind, a few measured updates or an assumed GPU speed.

    Args:
        missing: runs to train, for each job.
        store: store of the finished runs.
        study: the study, whose evaluation may also train networks.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    paces: dict[str, tuple[float, str] | None] = {}  # seconds per update, and where they come from
    for record in store.records().values():
        if updates := _updates(record["settings"], record["images"]):
            paces[_kind(record["settings"])] = record["seconds"] / updates, f"finished runs on {record.get('device', 'cpu')}"
    runs = [run for job in missing for run in job]
    seconds: defaultdict[str, float] = defaultdict(float)  # by origin of the pace
    operations, spent, per_operation, unknown, slow = 0.0, 0.0, 0.0, 0, 0
    for run, data in runs:
        dataset, training, kind = run.settings["dataset"], run.settings["training"], _kind(run.settings)
        updates = _updates(run.settings, data.samples(training) or image_count(dataset))
        if not (data.images or training["updates"] or dataset.get("images") or dataset["source"] in SIZES):
            unknown += 1
        elif updates:
            if kind not in paces and (has_gpu or training["device"] != "cuda"):
                cost, began = operations_per_update(run.settings), time.perf_counter()
                measured = cost * per_operation if spent > MEASURING else _measured(run, data)
                per_operation = measured / cost if measured else per_operation
                paces[kind] = (measured, "a measurement of a few updates on this machine") if measured else None
                spent += time.perf_counter() - began
            pace = paces.get(kind)
            if pace is not None:
                seconds[pace[1]] += pace[0] * updates
            if training["device"] != "cpu" and (pace is None or not (has_gpu or pace[1].startswith("finished"))):
                operations += updates * operations_per_update(run.settings)
            slow += pace is None and training["device"] == "cpu"
    parts = []
    if total := sum(seconds.values()):
        parts.append(f"about {duration(total)} with one process (from {' and '.join(seconds)})")
    if operations:
        assumed = f"assumed: {SUSTAINED / 1e12:.0f} TFLOP/s{'' if has_gpu else '; this machine has none'}"
        parts.append(f"about {duration(operations / SUSTAINED)} on one GPU ({assumed})")
    if unknown:
        parts.append(f"{unknown:,} of unknown duration (their data do not exist yet)")
    if slow:
        parts.append(f"{slow:,} of unknown duration (updates too slow to measure, or weights that are not on this machine)")
    training_time = f"{counted(len(runs), 'run')} to train in {counted(len(missing), 'job')}: {'; '.join(parts) or 'seconds'}."
    started = f"starting these and as many evaluation jobs takes about {duration(2 * len(missing) * START)}"
    return f"{training_time} In addition, {started}; {_evaluation(runs, study)}." if parts else training_time


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
    hours = duration(1e9 * sum(passes.values()) * images / SUSTAINED)
    return f"evaluation by {names} takes about {hours} on one GPU (same assumption); other evaluation is not estimated"


def operations_per_update(settings: RunSettings) -> float:
    """Return the number of operations of an update; a backward pass costs about two forward passes."""
    return 3e9 * relative_cost({**settings, "training": {**settings["training"], "updates": 1, "epochs": None}})


def _kind(settings: RunSettings) -> str:
    """Return a key of the settings that determine a run's speed."""
    networks = [settings.get(section) for section in ("encoder", "text_encoder", "projection", "augmentation")]
    data = [settings["dataset"].get(key) for key in ("source", "path", "resolution")]
    training = [settings["training"].get(key, 1) for key in ("batch_size", "threads", "device", "devices")]
    return repr((networks, data, training))


def _updates(settings: RunSettings, images: float) -> float:
    training = settings["training"]
    count = training["updates"] or (training["epochs"] or 0) * images / training["batch_size"]
    return 0.0 if settings["objective"]["name"] in NOT_TRAINED else count


def _measured(run: Run, data: PlannedData) -> float | None:
    """Measure seconds per update on this machine; None if it would take too long, or weights are not on this machine yet.

    On a CPU, the batches are made so small that an update takes seconds; the time grows in proportion to the size.
    """
    import torch

    from trueneg.runtime.devices import choose_device

    training = run.settings["training"]
    torch.set_num_threads(training["threads"])
    device, size = choose_device(training["device"]), training["batch_size"]
    if device.type == "cpu":
        size = min(size, int(size * MEASURED_OPERATIONS / operations_per_update(run.settings)))
    out_of_memory = catch_out_of_memory(f"{run.study}, {run.objective}", smaller_batch(size))
    with contextlib.suppress(DownloadNeededError), without_downloads(), out_of_memory:
        for updates in (1, MEASURED_UPDATES) if size >= SMALLEST_BATCH else ():
            seconds = _random_training(run, data, updates, size, device).train_epoch()["seconds"]
            pace = seconds / updates * training["batch_size"] / size
            if updates == MEASURED_UPDATES or seconds > SLOW_UPDATE:
                return pace
    return None


def _random_training(run: Run, data: PlannedData, updates: int, size: int, device: Any) -> Any:
    """Return a run like this one, but of one epoch on random images of the right shape, and without correction."""
    from trueneg.data.images.subsets import Subset
    from trueneg.data.pairs.pair_splits import PairSubset
    from trueneg.training.engine import TRAININGS

    kind, dataset = training_kind(run.settings), run.settings["dataset"]
    training = {**run.settings["training"], "batch_size": size, "updates": updates, "epochs": None, "warmup_updates": 0}
    objective: Any = model_of({**run.settings, "objective": {"name": "cl"}}, "objective")
    settings = {**run.settings, "training": training, "objective": objective(name="cl").model_dump()}
    side = dataset["resolution"] or SIDES.get(dataset["source"], ASSUMED_SIDE)
    count, shape = updates * size, data.shape or (1 if dataset["source"] == "digits" else 3, side, side)
    pixels = np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)
    places, none, names = np.arange(count), np.arange(0), np.arange(count).astype(str)
    if kind == "images":
        source: Any = ImageSource("random", pixels, places % 2, np.zeros(count, bool), ("a", "b"))
        subset: Any = Subset(run.seed, places, places, none, none, (), 0.5, 0.5, source.checksum)
    else:
        settings["text_encoder"] = {**run.settings["text_encoder"], "truncate": True}
        texts = [*itertools.islice(itertools.cycle(data.sentences or ["word " * (TOKENS - 2)]), count)]
        source = bare_pairs(pixels, names, names, pd.DataFrame({"report": names, "sentence": texts}))
        subset = PairSubset(run.seed, places, none, none, source.checksum)
    return TRAININGS[kind](settings, run.seed, source, subset, device)


def language_model_seconds(
    network: Any, tokenizer: Any, model: LanguageModelSettings, scoring: ScoringSettings, sentences: Sequence[str], seed: int
) -> float:
    """Estimate how long it takes to train a language model and to score all sentences, from a few of them on this machine.

    Args:
        network: the model before training.
        tokenizer: its tokenizer.
        model: settings of the model.
        scoring: settings of the scoring.
        sentences: all sentences, with repetitions.
        seed: the study's seed.
    """
    from trueneg.runtime.devices import choose_device
    from trueneg.text.masked_lm import MaskedLMTraining
    from trueneg.text.pseudo_likelihood import score

    unique, size = list(dict.fromkeys(sentences)), sum(value.numel() for value in network.parameters())
    count = int(min(MEASURED_TEXTS, 2 + MEASURED_OPERATIONS / 10 / (2 * size * TOKENS**2)))  # one masked copy for each token
    sample, variant = unique[:: -(-len(unique) // count)], "original" if model.train else scoring.variant
    began = time.perf_counter()
    for _ in score(network, tokenizer, sample, device=choose_device(scoring.device), variant=variant):
        pass
    per_text = (time.perf_counter() - began) / len(sample)
    if not model.train:
        return per_text * len(unique)
    batch = (sample * model.batch_size)[: model.batch_size]
    parts = batch, sample[:1]
    task = MaskedLMTraining(network, tokenizer, parts, model.model_dump(), seed, choose_device(model.device))
    began = time.perf_counter()
    task.train_epoch(lambda: None)
    per_update = time.perf_counter() - began
    updates = len(sentences) * (1 - 1 / model.folds) * (1 - model.validation) / model.batch_size
    return per_text * len(unique) + model.folds * model.epochs * (updates * per_update + model.validation_sentences * per_text)


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
