"""Estimates of the time that missing runs would take on this machine, and on a GPU."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from trueneg.cli.pace import SUSTAINED, Pace, operations_per_update, speed_key
from trueneg.cli.planned_data import PlannedRun
from trueneg.config.order import SIZES, TOKENS, features_cost, image_cost, image_count
from trueneg.config.runs import RunSettings, features_key, frozen_towers
from trueneg.legible import counted, duration
from trueneg.specs.kinds.likelihood import LanguageModelSettings
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.tasks import measured_by
from trueneg.store.run_store import RunStore

HOUR = 3600.0
IF = "if each is as large as ViT-B/16 or BERT-base; less if it is smaller"
# seconds to start a job, most of them for imports; measured with two jobs at a time on two cores
START = 5.0


def estimated_time(
    missing: Sequence[Sequence[PlannedRun]],
    store: RunStore,
    study: TrainedStudy,
    machine: Pace,
) -> tuple[str, float]:
    """Estimate the training time from finished runs of the same kind, measured updates, or the
    networks' operations.

    A GPU that this machine lacks is mentioned if a study asks for one, or would take more than an
    hour without.

    Args:
        missing: runs to train, for each job.
        store: store of the finished runs.
        study: the study, whose evaluation may also train networks.
        machine: the speed of this machine.

    Returns:
        A sentence, and the seconds of one process on this machine (NaN: unknown).
    """
    paces = _paces_of_finished_runs(store)
    finished = set(paces)
    runs = [run for job in missing for run in job]
    seconds: defaultdict[str, float] = defaultdict(float)  # by origin of the pace
    operations = 0.0
    unknown = 0
    for run, data in runs:
        dataset = run.settings["dataset"]
        training = run.settings["training"]
        kind = speed_key(run.settings)
        updates = _updates(run.settings, data.samples(training) or image_count(dataset))
        if not (
            data.images
            or training["updates"]
            or dataset.get("images")
            or dataset["source"] in SIZES
        ):
            unknown += 1
        elif updates:
            if kind not in paces and (machine.has_gpu or training["device"] != "cuda"):
                paces[kind] = machine.of_update(run, data)
            if kind in paces:
                pace, origin = paces[kind]
                seconds[origin] += pace * updates
            if training["device"] != "cpu" and not machine.has_gpu and kind not in finished:
                operations += updates * operations_per_update(run.settings)
    needed = sum(seconds.values()) + 2 * len(missing) * START
    asks_for_gpu = any(run.settings["training"]["device"] == "cuda" for run, _ in runs)
    on_gpu = operations if needed > HOUR or asks_for_gpu else 0.0
    parts = _durations(seconds, on_gpu, unknown)
    training_time = (
        f"{counted(len(runs), 'run')} to train in {counted(len(missing), 'job')}:"
        f" {'; '.join(parts) or 'seconds'}."
    )
    started = (
        "starting these and as many evaluation jobs takes about"
        f" {duration(2 * len(missing) * START)}"
    )
    if parts:
        training_time += f" In addition, {started}; {_evaluation(runs, study)}."
    return training_time, math.nan if unknown else needed


def _durations(seconds: Mapping[str, float], operations: float, unknown: int) -> list[str]:
    """Say how long runs take with one process, and on one GPU, and of how many this is unknown."""
    parts = []
    if seconds:
        origins = " and ".join(seconds)
        parts.append(f"about {duration(sum(seconds.values()))} with one process (from {origins})")
    if operations:
        assumed = f"assumed: {SUSTAINED / 1e12:.0f} TFLOP/s; this machine has none"
        parts.append(f"about {duration(operations / SUSTAINED)} on one GPU ({assumed})")
    if unknown:
        parts.append(f"{unknown:,} of unknown duration (their data do not exist yet)")
    return parts


def _paces_of_finished_runs(store: RunStore) -> dict[str, tuple[float, str]]:
    """Return the seconds per update of each kind of run, and where they come from."""
    paces = {}
    for record in store.records().values():
        if updates := _updates(record["settings"], record["images"]):
            origin = f"finished runs on {record.get('device', 'cpu')}"
            paces[speed_key(record["settings"])] = record["seconds"] / updates, origin
    return paces


def features_time(runs: Sequence[PlannedRun], results: Path, machine: Pace) -> list[str]:
    """Estimate the time of computing the missing vectors of frozen towers, once for all runs; an
    empty list if none are missing.

    Args:
        runs: runs to train.
        results: the results folder.
        machine: the speed of this machine.
    """
    costs = {}
    for run, data in runs:
        for made in frozen_towers(run.settings).values():
            samples = data.images if made["samples"] == "images" else len(set(data.sentences))
            if not (results / f"features/{features_key(made)}.npz").is_file():
                costs[features_key(made)] = 1e9 * features_cost(run.settings, made, samples)
    if not (missing := list(filter(None, costs.values()))):  # files of vectors cost nothing
        return []
    on_gpu = not machine.has_gpu and runs[0][0].settings["training"]["device"] == "cuda"
    seconds = sum(missing) / (SUSTAINED if on_gpu else machine.speed)
    where = "one GPU" if on_gpu else "this machine"
    return [
        f"{counted(len(missing), 'frozen tower')} to compute once: about {duration(seconds)} on"
        f" {where} {IF}."
    ]


def _evaluation(runs: Sequence[PlannedRun], study: TrainedStudy) -> str:
    """Estimate the time of the tasks that pass the training images through the encoder many times,
    or name them.
    """
    passes = {
        task.ROWS[0]: task.encoder_passes
        for task in measured_by(study).values()
        if task.encoder_passes
    }
    names = " and ".join(passes)
    if not passes or any(run.settings["training"]["device"] == "cpu" for run, _ in runs):
        return f"evaluation itself{f', including {names},' if names else ''} is not estimated"
    images = 0.0  # labelled ones, by the cost of each
    for run, data in runs:
        dataset = run.settings["dataset"]
        labelled = (data.images or image_count(dataset)) - (dataset.get("unlabelled") or 0)
        images += image_cost(run.settings) * labelled
    hours = duration(1e9 * sum(passes.values()) * images / SUSTAINED)
    return (
        f"evaluation by {names} takes about {hours} on one GPU (same assumption); other evaluation"
        " is not estimated"
    )


def _updates(settings: RunSettings, images: float) -> float:
    training = settings["training"]
    count = training["updates"] or (training["epochs"] or 0) * images / training["batch_size"]
    return 0.0 if settings["objective"]["name"] in NOT_TRAINED else count


def language_model_seconds(
    parameters: int, sentences: Sequence[str], model: LanguageModelSettings, speed: float
) -> float:
    """Estimate how long it takes to train a language model and to score all sentences on this
    machine, from their operations.

    Args:
        parameters: number of parameters.
        sentences: all sentences, with repetitions; each distinct one is scored in one pass for each
            of its tokens.
        model: settings of the model.
        speed: operations per second of this machine.
    """
    passes = float(len(set(sentences)) * TOKENS)
    if model.train:  # a backward pass costs about two forward passes
        trained = 3 * (model.folds - 1) * (1 - model.validation) * len(sentences)
        passes += model.epochs * (trained + model.folds * model.validation_sentences * TOKENS)
    return 2 * parameters * TOKENS * passes / speed
