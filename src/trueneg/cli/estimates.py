"""Estimates of the time that missing runs would take on this machine, and on a GPU."""

import functools
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trueneg.cli.planned_data import PlannedData
from trueneg.config.likelihood_study import LanguageModelSettings
from trueneg.config.order import PER_PIXEL, SIZES, TOKENS, features_cost, image_cost, image_count, relative_cost
from trueneg.config.runs import Run, RunSettings, features_key, frozen_towers, towers_of, training_kind
from trueneg.config.trained_study import TrainedStudy
from trueneg.io.downloads import announced
from trueneg.legible import counted, duration
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.tasks import measured_by
from trueneg.store.identity import model_of
from trueneg.store.run_store import RunStore

MEASURED_UPDATES = 3
SLOW_UPDATE = 2.0  # seconds; slower updates are not measured
OVERHEAD = 0.01  # seconds of an update besides the networks' operations
START = 5.0  # seconds to start a job, most of them for imports; measured with two jobs at a time on two cores
SUSTAINED = 1e14  # assumed sustained operations per second of a GPU
ROUGH = "the speed of a ResNet-18 on this machine, roughly"


def estimated_time(missing: Sequence[Sequence[tuple[Run, PlannedData]]], store: RunStore, study: TrainedStudy) -> str:
    """Estimate the training time from finished runs of the same kind, measured updates, or the networks' operations.

    Args:
        missing: runs to train, for each job.
        store: store of the finished runs.
        study: the study, whose evaluation may also train networks.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    paces: dict[str, tuple[float, str]] = {}  # seconds per update, and where they come from
    for record in store.records().values():
        if updates := _updates(record["settings"], record["images"]):
            paces[_kind(record["settings"])] = record["seconds"] / updates, f"finished runs on {record.get('device', 'cpu')}"
    finished = set(paces)
    runs = [run for job in missing for run in job]
    seconds: defaultdict[str, float] = defaultdict(float)  # by origin of the pace
    operations, unknown = 0.0, 0
    for run, data in runs:
        dataset, training, kind = run.settings["dataset"], run.settings["training"], _kind(run.settings)
        updates = _updates(run.settings, data.samples(training) or image_count(dataset))
        if not (data.images or training["updates"] or dataset.get("images") or dataset["source"] in SIZES):
            unknown += 1
        elif updates:
            if kind not in paces and (has_gpu or training["device"] != "cuda"):
                paces[kind] = _pace(run, data)
            if kind in paces:
                pace, origin = paces[kind]
                seconds[origin] += pace * updates
            if training["device"] != "cpu" and not has_gpu and kind not in finished:
                operations += updates * operations_per_update(run.settings)
    parts = []
    if seconds:
        parts.append(f"about {duration(sum(seconds.values()))} with one process (from {' and '.join(seconds)})")
    if operations:
        assumed = f"assumed: {SUSTAINED / 1e12:.0f} TFLOP/s; this machine has none"
        parts.append(f"about {duration(operations / SUSTAINED)} on one GPU ({assumed})")
    if unknown:
        parts.append(f"{unknown:,} of unknown duration (their data do not exist yet)")
    training_time = f"{counted(len(runs), 'run')} to train in {counted(len(missing), 'job')}: {'; '.join(parts) or 'seconds'}."
    started = f"starting these and as many evaluation jobs takes about {duration(2 * len(missing) * START)}"
    return f"{training_time} In addition, {started}; {_evaluation(runs, study)}." if parts else training_time


def features_time(runs: Sequence[tuple[Run, PlannedData]], results: Path) -> list[str]:
    """Estimate the time of computing the missing vectors of frozen towers, once for all runs; an empty list if none are missing.

    Args:
        runs: runs to train.
        results: the results folder.
    """
    import torch

    costs = {}
    for run, data in runs:
        for made in frozen_towers(run.settings).values():
            samples = data.images if made["samples"] == "images" else len(set(data.sentences))
            if not (results / f"features/{features_key(made)}.npz").is_file():
                costs[features_key(made)] = 1e9 * features_cost(run.settings, made, samples)
    if not (missing := list(filter(None, costs.values()))):  # files of vectors cost nothing
        return []
    on_gpu = not torch.cuda.is_available() and runs[0][0].settings["training"]["device"] != "cpu"
    seconds, where = sum(missing) / (SUSTAINED if on_gpu else machine_speed()), "one GPU" if on_gpu else "this machine"
    return [f"{counted(len(missing), 'frozen tower')} to compute once: about {duration(seconds)} on {where}, roughly."]


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


def _pace(run: Run, data: PlannedData) -> tuple[float, str]:
    """Return the seconds per update on this machine, and where they come from.

    A few updates are measured if the images were decoded, the weights are on this machine, updates are fast, and there are no
    towers, whose libraries take long to import.
    """
    import torch

    from trueneg.runtime.devices import choose_device
    from trueneg.training.engine import TRAININGS

    torch.set_num_threads(run.settings["training"]["threads"])
    rough = operations_per_update(run.settings) / machine_speed() + OVERHEAD
    objective: Any = model_of({**run.settings, "objective": {"name": "cl"}}, "objective")  # needs no language model or features
    out_of_memory = catch_out_of_memory(f"{run.study}, {run.objective}", smaller_batch(run.settings["training"]["batch_size"]))
    with announced([]), out_of_memory:
        for updates in (1, MEASURED_UPDATES) if data.checksum and rough < SLOW_UPDATE and not towers_of(run.settings) else ():
            training = {**run.settings["training"], "updates": updates, "epochs": None, "warmup_updates": 0}
            settings = {**run.settings, "training": training, "objective": objective(name="cl").model_dump()}
            device = choose_device(training["device"])
            row = TRAININGS[training_kind(settings)](settings, run.seed, data.source, data.subset, device).train_epoch()
            if updates == MEASURED_UPDATES:
                return row["seconds"] / updates, "a measurement of a few updates on this machine"
    return rough, ROUGH


@functools.cache
def machine_speed() -> float:
    """Measure how many operations per second this machine's GPU, or one of its cores, performs in training a ResNet-18."""
    import torch
    from torchvision.models import resnet18

    has_gpu = torch.cuda.is_available()
    device, count, side = ("cuda", 256, 112) if has_gpu else ("cpu", 8, 64)
    clock = time.perf_counter if has_gpu else time.process_time  # another process may use the same core now
    network, images = resnet18().to(device), torch.zeros(count, 3, side, side, device=device)
    for _ in range(2):  # the first pass is slower
        began = clock()
        network(images).sum().backward()
        network.conv1.weight.grad.sum().item()  # waits for the GPU
    return 3e9 * PER_PIXEL["image-text"]["resnet18"] * side**2 * count / (clock() - began)


def language_model_seconds(parameters: int, sentences: Sequence[str], model: LanguageModelSettings) -> float:
    """Estimate how long it takes to train a language model and to score all sentences on this machine, from their operations.

    Args:
        parameters: number of parameters.
        sentences: all sentences, with repetitions; each distinct one is scored in one pass for each of its tokens.
        model: settings of the model.
    """
    passes = float(len(set(sentences)) * TOKENS)
    if model.train:  # a backward pass costs about two forward passes
        trained = 3 * (model.folds - 1) * (1 - model.validation) * len(sentences)
        passes += model.epochs * (trained + model.folds * model.validation_sentences * TOKENS)
    return 2 * parameters * TOKENS * passes / machine_speed()
