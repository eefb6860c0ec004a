"""Read the manifests and records of the language models used by a likelihood study."""

from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.io.files import file_checksum
from trueneg.store import provenance, records
from trueneg.store.run_store import RunStore


def language_models(results: Path, study: str) -> list[dict[str, Any]]:
    """List the models in the manifests of a likelihood study, with their records if they were trained here.

    Returns:
        For each model ``name``, ``corpus``, ``state`` (``finished``, ``stale: …`` or ``used as released``), ``folder``,
        ``checksum`` and the keys of its record.
    """
    found = []
    for manifest in sorted((results / study / "text").glob("*/language_models/*.json")):
        for model in records.read_json(manifest, records.LanguageModelManifest)["models"]:
            path = results / "language_models" / Path(model["folder"]).name / RunStore.RECORD
            record, state = {}, "used as released"
            if model["checksum"] is not None and path.is_file():
                record = records.read_json(path, records.LanguageModelRecord)
                is_stale = record["fingerprint"] != provenance.fingerprint(provenance.LANGUAGE_MODELS)
                state = "stale: trained with another version of the code" if is_stale else "finished"
            found.append({**record, **model, "name": manifest.stem, "corpus": manifest.parts[-3], "state": state})
    return found


def read_language_models(manifest: str | Path) -> dict[str, Any]:
    """Read a manifest and verify the checksums of its models.

    Raises:
        UserError: if a model is missing or does not match its checksum.
    """
    listed = records.read_json(manifest, records.LanguageModelManifest, "Remove it to train the language model again.")
    for model in listed["models"]:
        path = Path(model["folder"]) / RunStore.MODEL
        if model["checksum"] is not None and (not path.is_file() or file_checksum(path) != model["checksum"]):
            raise UserError(f"{path} is missing or is not the model in {manifest}; remove the manifest to train the model again.")
    return listed
