"""The pipeline's language models: one a fold, none of which has seen the reports that it scores."""

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import save

from trueneg.compute.checkpoint import Checkpoint
from trueneg.compute.devices import device_name, leased_device
from trueneg.compute.memory import memory_told
from trueneg.errors import UserError
from trueneg.io.files import file_checksum, written_whole
from trueneg.store import identity, provenance, records
from trueneg.store.run_store import RunStore
from trueneg.text import privacy
from trueneg.text.folds import training_parts, with_folds
from trueneg.text.loading import load_language_model
from trueneg.text.masked_lm import MaskedLMTraining, new_masked_lm

log = logging.getLogger(__name__)

TECHNICAL = ("device", "threads", "checkpoint_minutes")  # settings that do not shape the result
PATIENCE = 15.0  # seconds that a training's former owner gets to end


def train_language_models(
    sentences: str | Path,
    *,
    settings: Mapping[str, Any],
    seed: int,
    store: str | Path,
    manifest: str | Path,
    start: str | Path | None = None,
) -> None:
    """Train the language model of each fold, and write the manifest that names them.

    A training that is finished is taken from the store, one that is begun continues. With ``train: false`` nothing is trained:
    the model that the settings name scores every report.

    Args:
        sentences: from :func:`trueneg.text.sentences.split_reports`.
        settings: ``model`` (hub name or folder to begin with; None: from scratch), ``revision``, ``trust_remote_code``,
            ``train``, ``folds``, ``validation``, and those of :class:`~trueneg.text.masked_lm.MaskedLMTraining`; ``device``,
            ``threads``, ``checkpoint_minutes``.
        seed: the study's seed.
        store: folder of language models, one folder each.
        manifest: JSON file to write: ``folds``, ``seed``, and for each fold the model's ``folder`` (or hub name) and
            ``checksum``.
        start: the manifest of models to begin with in place of ``model`` (fine-tuning); those of another corpus.

    Raises:
        UserError: if the sentences are too few, another process trains the same model, or a model cannot be loaded.
    """
    if not settings["train"]:
        if settings["model"] is None:
            raise UserError("language_models: train is false and no model is named; name one, or let it train.")
        models = [{"fold": 0, "folder": str(settings["model"]), "revision": settings["revision"], "checksum": None}]
        _write_manifest(manifest, models, folds=1, seed=seed, restricted=False)
        return
    table, restricted = privacy.read_table(sentences)
    folds = settings["folds"]
    if folds < 2:
        raise UserError(f"language_models: folds is {folds}, expected at least 2: a model may not score what it has seen.")
    table = with_folds(table, folds, seed)
    torch.set_num_threads(settings["threads"])
    begin = _beginning(settings, start)
    runs = RunStore(store)
    models = []
    with privacy.owner_only(restricted):
        for fold in range(folds):
            try:
                training, validating = training_parts(table, fold, settings["validation"], seed)
            except ValueError as error:
                raise UserError(f"{sentences}: {error}") from error
            identifier = _identifier(settings, seed, fold, training, validating, begin)
            with runs.owned(identifier, patience=PATIENCE) as folder:
                if runs.state(identifier) == "finished":
                    log.info("fold %d: language model %s is finished, taken as it is", fold, identifier)
                else:
                    remedy = f"Lower its batch_size from {settings['batch_size']} to {max(settings['batch_size'] // 2, 1)}."
                    with leased_device(settings["device"]) as device, memory_told(f"language model, fold {fold}", remedy):
                        _train(folder, identifier, settings, seed, fold, training, validating, begin, device)
                runs.forget_progress(identifier)
            model = runs.folder(identifier) / RunStore.MODEL
            models.append({"fold": fold, "folder": str(model.parent), "revision": None, "checksum": file_checksum(model)})
        _write_manifest(manifest, models, folds=folds, seed=seed, restricted=restricted)


def read_language_models(manifest: str | Path) -> dict[str, Any]:
    """A manifest, after comparing the checksums of the models that it names.

    Raises:
        UserError: if a model is missing or is not the one that the manifest was written for.
    """
    listed = records.read_json(manifest, records.LANGUAGE_MODELS, "Remove it to have the language model trained again.")
    for model in listed["models"]:
        path = Path(model["folder"]) / RunStore.MODEL
        if model["checksum"] is not None and (not path.is_file() or file_checksum(path) != model["checksum"]):
            raise UserError(f"{path}: is missing or another model than {manifest} lists; remove the manifest to have it trained.")
    return listed


def training_curves(manifest: str | Path) -> pd.DataFrame:
    """Loss and held-out pseudo-perplexity by epoch of every fold: ``fold``, ``epoch``, ``loss``, ``pseudo-perplexity``."""
    listed = read_language_models(manifest)["models"]
    curves = [
        records.read_rows(Path(model["folder"]) / RunStore.CURVES).assign(fold=model["fold"])
        for model in listed
        if model["checksum"] is not None
    ]
    return (
        pd.concat(curves, ignore_index=True) if curves else pd.DataFrame(columns=["epoch", "loss", "pseudo-perplexity", "fold"])
    )


def _train(
    folder: Path,
    identifier: str,
    settings: Mapping[str, Any],
    seed: int,
    fold: int,
    training: pd.DataFrame,
    validating: pd.DataFrame,
    begin: Mapping[str, Any] | None,
    device: torch.device,
) -> None:
    began = time.monotonic()
    fingerprint = provenance.fingerprint(provenance.LANGUAGE_MODELS)
    if begin is None:
        model, tokenizer = new_masked_lm(training["sentence"].tolist(), settings, seed)
    else:
        model, tokenizer = load_language_model(**begin)
    task = MaskedLMTraining(
        model, tokenizer, training["sentence"].tolist(), validating["sentence"].tolist(), settings, seed, device
    )
    about = {"dataset": "sentences", "objective": "masked language model", "seed": seed, "fold": fold}
    minutes, digest = settings["checkpoint_minutes"], f"{identifier}-{fingerprint}"
    checkpoint = Checkpoint(folder, digest, minutes=minutes, about=about, device=device_name(device))
    rows = checkpoint.restore(task)
    if not rows:
        log.info("fold %d: held-out pseudo-perplexity before training %.2f", fold, task.pseudo_perplexity())
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
    with written_whole(folder / RunStore.CURVES) as path:
        pd.DataFrame(rows).to_parquet(path, index=False)
    with written_whole(folder / RunStore.MODEL) as path:
        path.write_bytes(save(_weights(finished), metadata={"format": "pt"}))
    record = {
        "id": identifier,
        "settings": dict(settings),
        "seed": seed,
        "fold": fold,
        "begin": dict(begin) if begin else None,
        "sentences": {"training": len(training), "validating": len(validating)},
        "pseudo-perplexity": task.best,
        "fingerprint": fingerprint,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "machine": provenance.machine(),
        "device": device_name(device),
        **checkpoint.spent(),
    }
    with written_whole(folder / RunStore.RECORD) as path:
        path.write_text(json.dumps(record, indent=2, default=str) + "\n")


def _weights(model: Any) -> dict[str, torch.Tensor]:
    """Each tensor once: what shares the memory of an earlier one is tied to it again when the model is loaded."""
    seen: set[int] = set()
    found = {}
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            found[name] = value.detach().cpu().contiguous()
    return found


def _beginning(settings: Mapping[str, Any], start: str | Path | None) -> dict[str, Any] | None:
    """What :func:`load_language_model` needs for the model to begin with; None: from scratch."""
    if start is not None:
        return {"name": read_language_models(start)["models"][0]["folder"]}
    if settings["model"] is None:
        return None
    return {
        "name": str(settings["model"]),
        "revision": settings["revision"],
        "trust_remote_code": settings["trust_remote_code"],
    }


def _identifier(
    settings: Mapping[str, Any],
    seed: int,
    fold: int,
    training: pd.DataFrame,
    validating: pd.DataFrame,
    begin: Mapping[str, Any] | None,
) -> str:
    """A hash of what shapes the model: settings, seed, sentences, and the model it begins with."""
    begun = dict(begin) if begin else {}
    weights = Path(begun.get("name", "")) / RunStore.MODEL
    if begun and weights.is_file():
        begun["name"] = file_checksum(weights)
    frozen = identity.frozen()["likelihood"]["language_models"]
    shaping = {
        name: value
        for name, value in sorted(settings.items())
        if name not in TECHNICAL and value != frozen.get(name, identity.MISSING)
    }
    digest = hashlib.sha256(json.dumps([shaping, seed, fold, begun], sort_keys=True, default=str).encode())
    for part in (training, validating):
        digest.update("\0".join(part["sentence"]).encode("utf-8", "surrogatepass") + b"\1")
    return "lm-" + digest.hexdigest()[:12]


def _write_manifest(path: str | Path, models: Sequence[Mapping[str, Any]], *, folds: int, seed: int, restricted: bool) -> None:
    content = {"folds": folds, "seed": seed, "restricted": restricted, "models": list(models)}
    with written_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")
