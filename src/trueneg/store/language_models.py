"""Read the records of the language models used by a likelihood study."""

from pathlib import Path
from typing import Any

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
        for model in records.read_json(manifest, records.LANGUAGE_MODELS)["models"]:
            path = results / "language_models" / Path(model["folder"]).name / RunStore.RECORD
            record, state = {}, "used as released"
            if model["checksum"] is not None and path.is_file():
                record = records.read_json(path, records.MODEL)
                is_stale = record["fingerprint"] != provenance.fingerprint(provenance.LANGUAGE_MODELS)
                state = "stale: trained with another version of the code" if is_stale else "finished"
            found.append({**record, **model, "name": manifest.stem, "corpus": manifest.parts[-3], "state": state})
    return found
