"""A tiny run that is exported: an image encoder from scratch, and a text encoder."""

from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from tests.textures import SIZE, settings_of, texture_source
from trueneg.config.runs import Run
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.store.run_store import RunStore
from trueneg.training.export import export_run
from trueneg.training.image_text import ReleasedNetworks

DATASET = {"source": "phantom", "resolution": SIZE}


def finish(results: Path, name: str, run: Run, weights: Any, source: Any) -> None:
    """Store a run as finished, with these weights."""
    store = RunStore(results / "runs")
    store.folder(name).mkdir(parents=True)
    save_file(weights, store.folder(name) / RunStore.MODEL)
    made = {
        "code": {"versions": {}},
        "commit": "",
        "machine": {"host": "", "system": ""},
        "versions": {},
    }
    made |= {
        "device": "cpu",
        "images": 1,
        "seconds": 1.0,
        "attempts": [],
        "finished": "2026-01-01 00:00:00 +0000",
    }
    store.finish(
        name,
        run.to_json()
        | made
        | {"id": name, "source": {"name": source.name, "checksum": source.checksum}, "data": "0"},
    )


def finish_pairs(results: Path, name: str, settings: dict[str, Any], pairs: Any) -> None:
    """Store the initial networks of an image–text run as a finished run."""
    run = Run("tiny", "textures", "CL", 0, settings | {"dataset": DATASET})
    finish(
        results,
        name,
        run,
        ReleasedNetworks(run.settings, 0, pairs, split_pairs(pairs, 0)).weights(),
        pairs,
    )


def write_exported(folder: Path) -> None:
    """Export such a run."""
    finish_pairs(folder / "results", "tiny", settings_of(), texture_source(patients=20))
    export_run("tiny", folder / "exported", folder / "results")
