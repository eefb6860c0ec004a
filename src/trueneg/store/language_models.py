"""Read the manifests and records of the language models used by a likelihood study."""

from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.io.seals import require_intact
from trueneg.store import records, versions
from trueneg.store.run_store import RunStore, fault_of_listed


def language_models(results: Path, study: str) -> list[dict[str, Any]]:
    """List the models in the manifests of a likelihood study, with their records if they were
    trained here.

    Returns:
        For each model ``name``, ``corpus``, ``state`` (``finished``, ``stale: …`` or ``used as
            released``), ``folder``, ``checksum`` and the keys of its record.
    """
    store = RunStore(results / "language_models")
    models = []
    for manifest in sorted((results / study / "text").glob("*/language_models/*.json")):
        require_intact(results, [manifest])
        for model in records.read_json(manifest)["models"]:
            identifier = Path(model["folder"]).name
            record = {}
            state = "used as released"
            if (
                model["checksum"] is not None
                and (store.folder(identifier) / RunStore.RECORD).is_file()
            ):
                record = store.record(identifier, records.TrainingRecord)
                raised = versions.stale_language_model(record)
                state = f"stale: {raised[0]}" if raised else "finished"
            models.append(
                {
                    **record,
                    **model,
                    "name": manifest.stem,
                    "corpus": manifest.parts[-3],
                    "state": state,
                }
            )
    return models


def read_language_models(manifest: str | Path) -> dict[str, Any]:
    """Read a manifest and verify the checksums of its models.

    Raises:
        UserError: if the manifest cannot be read, or a model is missing or does not match its
            checksum.
    """
    with reading(
        manifest, "a list of language models", "Remove it to train the language model again."
    ):
        listed: dict[str, Any] = records.read_json(manifest)
        for model in listed["models"]:
            if model["checksum"] is None:
                continue
            folder = Path(model["folder"])  # relative to the folder in which Snakemake runs
            if not folder.is_dir():
                folder = Path(manifest).parents[4] / "language_models" / folder.name
            if fault := fault_of_listed(
                {**model, "id": folder.name}, manifest, RunStore(folder.parent)
            ):
                raise UserError(fault)
    return listed
