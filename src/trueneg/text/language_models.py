"""Train the pipeline's language models: one per fold, so that no model scores reports it was trained on."""

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save_model

from trueneg.compute.checkpoint import Checkpoint
from trueneg.compute.devices import device_name, leased_device
from trueneg.compute.memory import catch_out_of_memory
from trueneg.errors import UserError
from trueneg.io.files import atomic_write, file_checksum, write_tables, write_text
from trueneg.store import identity, provenance, records
from trueneg.store.run_store import RunStore
from trueneg.text import privacy
from trueneg.text.folds import training_parts, with_folds
from trueneg.text.loading import load_language_model
from trueneg.text.masked_lm import MaskedLMTraining, new_masked_lm

log = logging.getLogger(__name__)

TECHNICAL = ("device", "threads", "checkpoint_minutes")  # settings that do not affect the result
PATIENCE = 15.0  # seconds to wait for the previous owner of a training to exit


def train_language_models(
    sentences: str | Path,
    *,
    settings: Mapping[str, Any],
    seed: int,
    store: str | Path,
    manifest: str | Path,
    start: str | Path | None = None,
) -> None:
    """Train the language model of each fold, and write a manifest that lists the models.

    Finished models are reused from the store, and interrupted trainings resume. With ``train: false`` nothing is trained, and the
    model named in the settings scores every report.

    Args:
        sentences: from :func:`trueneg.text.sentences.split_reports`.
        settings: :class:`~trueneg.config.likelihood_study.LanguageModelSettings` as a mapping.
        seed: the study's seed.
        store: folder with one subfolder per language model.
        manifest: JSON file to write: ``folds``, ``seed``, and for each fold the model's ``folder`` (or hub name) and
            ``checksum``.
        start: manifest of another corpus's models to fine-tune, in place of ``model``.

    Raises:
        UserError: if the sentences are too few, another process trains the same model, or a model cannot be loaded.
    """
    models = [{"fold": 0, "folder": str(settings["model"]), "revision": settings["revision"], "checksum": None}]
    folds, restricted = 1, False
    if settings["train"]:
        folds, models = settings["folds"], []
        table, restricted = privacy.read_table(sentences)
        table = with_folds(table, folds, seed)
        torch.set_num_threads(settings["threads"])
        with privacy.owner_only(restricted):
            for fold in range(folds):
                parts = training_parts(table, fold, settings["validation"], seed)
                record = {"settings": dict(settings), "seed": seed, "fold": fold, "begin": _beginning(settings, start)}
                folder = _trained(RunStore(store), record, *(part["sentence"].tolist() for part in parts))
                checksum = file_checksum(folder / RunStore.MODEL)
                models.append({"fold": fold, "folder": str(folder), "revision": None, "checksum": checksum})
    content = {"folds": folds, "seed": seed, "restricted": restricted, "models": models}
    write_text(manifest, json.dumps(content, indent=2) + "\n")


def read_language_models(manifest: str | Path) -> dict[str, Any]:
    """Read a manifest and verify the checksums of its models.

    Raises:
        UserError: if a model is missing or does not match its checksum.
    """
    listed = records.read_json(manifest, records.LANGUAGE_MODELS, "Remove it to have the language model trained again.")
    for model in listed["models"]:
        path = Path(model["folder"]) / RunStore.MODEL
        if model["checksum"] is not None and (not path.is_file() or file_checksum(path) != model["checksum"]):
            raise UserError(f"{path}: is missing or another model than {manifest} lists; remove the manifest to have it trained.")
    return listed


def _trained(runs: RunStore, record: dict[str, Any], training: Sequence[str], validating: Sequence[str]) -> Path:
    """Return the folder of a fold's model, after training the model if it is not finished."""
    settings, identifier = record["settings"], _identifier(record, training, validating)
    with runs.owned(identifier, patience=PATIENCE) as folder:
        if runs.state(identifier) == "finished":
            log.info("fold %d: language model %s is finished and reused", record["fold"], identifier)
        else:
            remedy = f"Lower its batch_size from {settings['batch_size']} to {max(settings['batch_size'] // 2, 1)}."
            with (
                leased_device(settings["device"]) as device,
                catch_out_of_memory(f"language model, fold {record['fold']}", remedy),
            ):
                _train(folder, {"id": identifier, **record}, training, validating, device)
        runs.forget_progress(identifier)
    return folder


def _train(
    folder: Path, record: dict[str, Any], training: Sequence[str], validating: Sequence[str], device: torch.device
) -> None:
    began = time.monotonic()
    settings, seed, fold = record["settings"], record["seed"], record["fold"]
    fingerprint = provenance.fingerprint(provenance.LANGUAGE_MODELS)
    begin = record["begin"]
    model, tokenizer = new_masked_lm(training, settings, seed) if begin is None else load_language_model(**begin)
    task = MaskedLMTraining(model, tokenizer, training, validating, settings, seed, device)
    about = {"dataset": "sentences", "objective": "masked language model", "seed": seed, "fold": fold}
    digest, minutes = f"{record['id']}-{fingerprint}", settings["checkpoint_minutes"]
    checkpoint = Checkpoint(folder, digest, minutes=minutes, about=about, device=device_name(device))
    rows = checkpoint.restore(task)
    while task.epoch < task.epochs:
        row = task.train_epoch(after_update=lambda: checkpoint.after_update(task, rows))
        rows.append({"epoch": task.epoch, **row})
        checkpoint.after_epoch(task, rows)
        log.info(
            "fold %d  epoch %d/%d  loss %.4f  held-out pseudo-perplexity %.3f  %.0f s",
            *(fold, task.epoch, settings["epochs"], row["loss"], row["pseudo-perplexity"], time.monotonic() - began),
        )
    finished = task.finished_model()
    finished.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record |= {
        "sentences": {"training": len(training), "validating": len(validating)},
        "pseudo-perplexity": task.best,
        **provenance.environment(fingerprint),
        "device": device_name(device),
        **checkpoint.spent(),
    }
    write_tables({folder / RunStore.CURVES: pd.DataFrame(rows)})
    with atomic_write(folder / RunStore.MODEL) as path:
        save_model(finished, str(path), metadata={"format": "pt"})
    write_text(folder / RunStore.RECORD, json.dumps(record, indent=2, default=str) + "\n")


def _beginning(settings: Mapping[str, Any], start: str | Path | None) -> dict[str, Any] | None:
    """What :func:`load_language_model` needs for the model to begin with; None: from scratch."""
    if start is not None:
        return {"name": read_language_models(start)["models"][0]["folder"]}
    if settings["model"] is None:
        return None
    return {"name": str(settings["model"])} | {key: settings[key] for key in ("revision", "trust_remote_code")}


def _identifier(record: Mapping[str, Any], training: Sequence[str], validating: Sequence[str]) -> str:
    """A hash of what shapes the model: settings, seed, sentences, and the model it begins with."""
    begin = dict(record["begin"] or {})
    if begin and (weights := Path(begin["name"]) / RunStore.MODEL).is_file():
        begin["name"] = file_checksum(weights)
    frozen = identity.frozen()["likelihood"]["language_models"]
    shaping = {
        name: value
        for name, value in sorted(record["settings"].items())
        if name not in TECHNICAL and value != frozen.get(name, identity.MISSING)
    }
    digest = hashlib.sha256(json.dumps([shaping, record["seed"], record["fold"], begin], sort_keys=True, default=str).encode())
    for texts in (training, validating):
        digest.update("\0".join(texts).encode("utf-8", "surrogatepass") + b"\1")
    return "lm-" + digest.hexdigest()[:12]
