"""Train the pipeline's language models: one per fold, so that no model scores reports it was
trained on.
"""

import hashlib
import itertools
import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from pandas import DataFrame
from safetensors.torch import save_file

from trueneg.io import privacy
from trueneg.io.files import atomic_write, file_checksum, write_tables, write_text
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.runtime.devices import device_name, leased_device
from trueneg.runtime.memory import catch_out_of_memory
from trueneg.specs.sections import Section
from trueneg.specs.stages import VERSIONS
from trueneg.store import identity, provenance, versions
from trueneg.store.language_models import read_language_models
from trueneg.store.run_store import RunStore
from trueneg.text.folds import training_parts, with_folds
from trueneg.text.loading import load_language_model, longest_input, weights_checksum
from trueneg.text.masked_lm import MaskedLMTraining, Parts, new_masked_lm
from trueneg.text.tokenizing import unexpressed

log = logging.getLogger(__name__)

TECHNICAL = ("device", "threads", "checkpoint_minutes")  # settings that do not affect the result
PATIENCE = math.inf  # seconds to wait for the owner of a training run: as long as it lives


def train_language_models(
    sentences: str | Path,
    *,
    settings: Section,
    seed: int,
    store: str | Path,
    manifest: str | Path,
    start: str | Path | None = None,
    files: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Train the language model of each fold, and write a manifest that lists the models.

    Finished models are reused from the store, and interrupted training resumes. With ``train:
    false`` nothing is trained, and the model named in the settings scores every report.

    Args:
        sentences: table written by :func:`trueneg.text.sentences.split_reports`.
        settings: :class:`~trueneg.specs.kinds.likelihood.LanguageModelSettings` as a mapping.
        seed: the study's seed.
        store: folder with one subfolder per language model.
        manifest: JSON file to write: ``folds``, ``seed``, and for each fold the model's ``folder``
            (or hub name) and ``checksum``.
        start: manifest of another corpus's models; the first of them is fine-tuned instead of
            ``model``.
        files: checksum of a local folder of ``model``, by its path, which the manifest records.

    Raises:
        UserError: if there are too few sentences, another process is training the same model, or a
            model cannot be loaded.
    """
    listed: list[tuple[str, str | None, str | None]] = []
    restricted = False
    if settings["train"]:
        runs = RunStore(store)
        begin = _initial_model(settings, start)
        table, restricted = privacy.read_table(sentences)
        table = with_folds(table, settings["folds"], seed)
        torch.set_num_threads(settings["threads"])
        with privacy.owner_only(restricted):
            for fold in range(settings["folds"]):
                parts = training_parts(table, fold, settings["validation"], seed)
                training, validation = (part["sentence"].tolist() for part in parts)
                record = {"settings": dict(settings), "seed": seed, "fold": fold, "begin": begin}
                folder = _trained(runs, record, (training, validation))
                listed.append((str(folder), None, runs.checksum(folder.name)))
    else:
        listed.append((str(settings["model"]), settings["revision"], None))
    models = [
        {"fold": fold, "folder": folder, "revision": revision, "checksum": checksum}
        for fold, (folder, revision, checksum) in enumerate(listed)
    ]
    content = {"folds": len(models), "seed": seed, "restricted": restricted, "models": models}
    content |= {"files": dict(files)} if files else {}
    write_text(manifest, json.dumps(content, indent=2) + "\n")


def _trained(runs: RunStore, record: dict[str, Any], parts: Parts) -> Path:
    """Return the folder of a fold's model; train the model first if it is not finished."""
    size = record["settings"]["batch_size"]
    fold = record["fold"]
    identifier = _identifier(record, parts)
    with runs.owned(identifier, patience=PATIENCE) as folder:
        if runs.state(identifier) == "finished":
            log.info(f"fold {fold}: reusing the trained language model {identifier}")
        else:
            with (
                leased_device(record["settings"]["device"]) as device,
                catch_out_of_memory(
                    f"language model, fold {fold}",
                    f"Lower its batch_size from {size} to {max(size // 2, 1)}.",
                ),
            ):
                _train(folder, {"id": identifier, **record}, parts, device)
        runs.forget_progress(identifier)
    return folder


def _train(folder: Path, record: dict[str, Any], parts: Parts, device: torch.device) -> None:
    settings, seed, fold, begin = (record[key] for key in ("settings", "seed", "fold", "begin"))
    code = {"language_model": VERSIONS["language_model"]}
    if begin is None:
        model, tokenizer = new_masked_lm(parts[0], settings, seed)
    else:
        model, tokenizer = load_language_model(**begin)
    unique = list(dict.fromkeys(itertools.chain(*parts)))
    if problem := unexpressed(unique, tokenizer, longest_input(model, tokenizer)):
        log.warning(f"fold {fold}: {problem}")
    task = MaskedLMTraining(model, tokenizer, parts, settings, seed, device)
    checkpoint = Checkpoint(
        folder,
        f"{record['id']}-{versions.digest(code)}",
        minutes=settings["checkpoint_minutes"],
        about={
            "dataset": "sentences",
            "objective": "masked language model",
            "seed": seed,
            "fold": fold,
        },
        device=device_name(device),
    )
    rows = checkpoint.restore(task)
    while task.epoch < task.epochs:
        row = task.train_epoch(after_update=lambda: checkpoint.after_update(task, rows))
        rows.append({"epoch": task.epoch, **row})
        checkpoint.after_epoch(task, rows)
        log.info(
            f"fold {fold}  epoch {task.epoch}/{settings['epochs']}  loss {row['loss']:.4f} "
            f" held-out pseudo-perplexity {row['pseudo-perplexity']:.3f}"
        )
    finished = task.finished_model()
    finished.config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    record |= {
        "sentences": {"training": len(parts[0]), "validating": len(parts[1])},
        "pseudo-perplexity": task.best,
        **provenance.environment(code),
        "device": device_name(device),
        **checkpoint.spent(),
    }
    write_tables({folder / RunStore.CURVES: DataFrame(rows)})
    with atomic_write(folder / RunStore.MODEL) as path:
        save_file(_tensors(finished), path, metadata={"format": "pt"})
    RunStore(folder.parent).finish(folder.name, record)


def _tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the model's tensors, tied ones under their first name only.

    ``save_model`` lists the other names in the file's metadata, in random order, so equal models
    would have different checksums.
    """
    first: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in model.state_dict().items():
        first.setdefault(tensor.data_ptr(), (name, tensor))
    return dict(first.values())


def _initial_model(settings: Section, start: str | Path | None) -> dict[str, Any] | None:
    """Return the arguments of :func:`load_language_model` for the initial model; None: train from
    scratch.
    """
    if start is not None:
        return {"name": read_language_models(start)["models"][0]["folder"]}
    if settings["model"] is None:
        return None
    return {
        "name": str(settings["model"]),
        "revision": settings["revision"],
        "trust_remote_code": settings["trust_remote_code"],
    }


def _identifier(record: Mapping[str, Any], parts: Parts) -> str:
    """Hash everything that determines the model: settings, seed, sentences, and the initial
    model.
    """
    begin = dict(record["begin"] or {})
    if begin and (weights := Path(begin["name"]) / RunStore.MODEL).is_file():
        begin["name"] = file_checksum(weights)
    elif begin and Path(begin["name"]).is_dir():  # weights in several files, or in another format
        begin["name"] = weights_checksum({"folder": begin["name"], "revision": None})
    frozen = identity.frozen()["likelihood"]["language_models"]
    settings = record["settings"]
    kept = {
        key: value
        for key, value in settings.items()
        if key not in TECHNICAL and value != frozen.get(key, identity.MISSING)
    }
    if VERSIONS["language_model"] > 1:  # another version trains another model
        kept["version"] = VERSIONS["language_model"]
    digest = hashlib.sha256(
        json.dumps(
            [kept, record["seed"], record["fold"], begin], sort_keys=True, default=str
        ).encode()
    )
    for texts in parts:
        digest.update("\0".join(texts).encode("utf-8", "surrogatepass") + b"\1")
    return "lm-" + digest.hexdigest()[:12]
