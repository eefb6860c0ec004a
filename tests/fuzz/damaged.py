"""Small files of every kind that the project reads, and ways to damage them."""

import gzip
import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file

from tests.data.image_layouts import pngs, random_images, write_parquet
from tests.data.pictures import encoded as picture_bytes
from tests.data.pictures import picture
from tests.data.test_reports import XML, archive
from tests.fuzz.changes import changed, drawn_kinds, leaves
from tests.textures import texture_source
from tests.training.interrupted import new_job
from trueneg.cli.main import main
from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.image_source import read_source, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.image_table import read_image_table
from trueneg.data.pairs.pair_source import read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.reports.prepare import prepare_reports
from trueneg.data.samples import read_subsets, write_subsets
from trueneg.errors import UserError
from trueneg.io.privacy import read_table, write_table
from trueneg.models.spatial_encoders import _state_dict
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.store.language_models import read_language_models
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.text.chunks import append_chunk, read_chunks
from trueneg.training.engine import train_runs


@dataclass(frozen=True)
class Target:
    """A file, and a function that reads it.

    Attributes:
        exact: whether the file has checksums: if it is read in spite of damage, its values are
            those of the whole file.
        is_json: single values are changed as well.
        hidden: no user puts a folder in its place.
    """

    path: Path
    read: Callable[[], Any]
    exact: bool = False
    is_json: bool = False
    hidden: bool = False


class Forged:
    """A pickle that makes a folder when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def _bits_flipped(content: bytes, draw: random.Random) -> bytes:
    flipped = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def _zeroed(content: bytes, draw: random.Random) -> bytes:
    start = draw.randrange(len(content))
    end = min(len(content), start + draw.choice([1, 16, 512, 4096]))
    return content[:start] + bytes(end - start) + content[end:]


DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": lambda content, draw: content[: draw.randrange(len(content))],
    "start missing": lambda content, draw: content[draw.randrange(1, len(content)) :],
    "bits flipped": _bits_flipped,
    "zeroed": _zeroed,
    "emptied": lambda content, draw: b"",
    "random": lambda content, draw: draw.randbytes(draw.choice([1, 100, 5000])),
    "a pickle": lambda content, draw: pickle.dumps(Forged(), protocol=draw.choice([0, 2, 4])),
    "another format": lambda content, draw: (
        draw.choice([b"PAR1", b"PK\x03\x04", b"\x93NUMPY", b"null"]) + content[:20]
    ),
    "deeply nested": lambda content, draw: b"[" * 100_000 + b"]" * 100_000,
    "not UTF-8": lambda content, draw: b'{"a": "\xff\xfe"}' + content[40:],
}


def kinds(target: Target) -> list[str]:
    """Return the kinds of damage to try."""
    return [
        *DAMAGE,
        *([] if target.hidden else ["a folder"]),
        *(["value changed"] * 6 if target.is_json else []),
    ]


def damage(target: Target, kind: str, draw: random.Random) -> None:
    """Damage a target's file."""
    content = target.path.read_bytes()
    if kind == "value changed":
        whole = {"": json.loads(content)}
        other = changed(
            whole, draw.choice(list(leaves(whole))), *drawn_kinds(draw, 1, keys=False), draw
        )[""]
        target.path.write_text(json.dumps(other, default=str, skipkeys=True))
    elif kind == "a folder":
        target.path.unlink()
        target.path.mkdir()
    else:
        target.path.write_bytes(DAMAGE[kind](content, draw))


def repair(target: Target, kept: Path) -> None:
    """Restore the intact file from a copy."""
    shutil.rmtree(target.path) if target.path.is_dir() else target.path.unlink(missing_ok=True)
    shutil.copy2(kept, target.path)


def targets(folder: Path) -> dict[str, Target]:
    """Write small intact files to a folder."""
    source, pairs = load_source("digits"), texture_source(patients=12)
    write_source(source, folder / "source.npz")
    write_subsets([make_subset(source, seed=0)], folder / "subsets.parquet")
    write_pairs(pairs, folder / "pairs.npz")
    write_subsets([split_pairs(pairs, 0)], folder / "splits.parquet")
    write_table(
        pd.DataFrame({"report": ["a", "b"], "text": ["No effusion.", "Clear."]}),
        folder / "text.parquet",
        False,
    )
    append_chunk(
        folder / "chunks", pd.DataFrame({"value": [1.0, 2.0]}, index=["a", "b"]), restricted=False
    )
    (chunk,) = (folder / "chunks").iterdir()
    (folder / "own").mkdir()
    write_parquet(folder / "own/train.parquet", pngs(random_images(20, (8, 8, 3))), [0, 1] * 10)
    (folder / "reports").mkdir()
    report = XML.format(number=0, findings="Clear lungs.", impression="Normal.", codes="")
    archive(folder / "reports/NLMCXR_reports.tgz", {0: report, 1: report.replace("Clear", "Dark")})
    open_i = {"source": "open_i", "path": str(folder / "reports")}
    state = {"weight": torch.zeros(3)}
    save_file(state, folder / "weights.safetensors")
    torch.save(state, folder / "weights.pth")
    return {
        "decoded images": Target(
            folder / "source.npz", lambda: read_source(folder / "source.npz"), exact=True
        ),
        "subsets": Target(
            folder / "subsets.parquet", lambda: read_subsets(folder / "subsets.parquet"), exact=True
        ),
        "pairs": Target(folder / "pairs.npz", lambda: read_pairs(folder / "pairs.npz"), exact=True),
        "sentences of pairs": Target(
            folder / "pairs.parquet", lambda: read_pairs(folder / "pairs.npz"), exact=True
        ),
        "splits": Target(
            folder / "splits.parquet",
            lambda: read_subsets(folder / "splits.parquet"),
            exact=True,
        ),
        "text": Target(
            folder / "text.parquet", lambda: read_table(folder / "text.parquet"), exact=True
        ),
        "chunk of a cache": Target(chunk, lambda: read_chunks(folder / "chunks", ["value"])),
        "user's images in parquet": Target(
            folder / "own/train.parquet", lambda: load_source("parquet", path=folder / "own")
        ),
        "archive": Target(
            folder / "reports/NLMCXR_reports.tgz",
            lambda: prepare_reports(open_i, folder / "of-archive.parquet"),
        ),
        "weights": Target(
            folder / "weights.safetensors",
            lambda: _state_dict("resnet18", folder / "weights.safetensors"),
        ),
        "weights in .pth": Target(
            folder / "weights.pth", lambda: _state_dict("resnet18", folder / "weights.pth")
        ),
        **_run_files(folder),
        **_user_tables(folder),
        **_images(folder),
    }


def _run_files(folder: Path) -> dict[str, Target]:
    """Return the files of a finished run and of an interrupted one."""
    job = new_job(folder / "job", epochs=1, checkpoint_minutes=5)
    train_runs(**job.arguments())
    results, saved, models = folder / "results", folder / "saved", folder / "language_models.json"
    results.mkdir()
    saved.mkdir()
    job.store.path.rename(results / "runs")
    store, manifest = RunStore(results / "runs"), job.folder / "manifest.json"
    (finished,) = store.path.iterdir()
    _fix_times(finished)
    interrupted = store.path / "interrupted"
    interrupted.mkdir()
    (interrupted / "lock").touch()
    progress = {"dataset": "digits", "objective": "CL", "seed": 0, "epoch": 1, "epochs": 3}
    spent = [{"seconds": 1.5, "device": "cpu", "devices": 1}]
    (interrupted / "progress.json").write_text(json.dumps({**progress, "spent": spent}))
    Checkpoint(saved, "digest", minutes=1e-9, about={}).after_update(_Weights(), [{"epoch": 1}])
    model = {"fold": 0, "folder": "hub/name", "revision": None, "checksum": None}
    models.write_text(json.dumps({"folds": 1, "seed": 0, "restricted": False, "models": [model]}))

    def listed() -> None:
        if main(["runs", "--results", str(results)]) or main(
            ["why", finished.name, "--results", str(results)]
        ):
            raise UserError("The command printed what is damaged.")

    return {
        "record of a run": Target(finished / "run.json", listed, is_json=True),
        "progress of a run": Target(interrupted / "progress.json", listed, is_json=True),
        "curves of a run": Target(finished / "training.parquet", listed),
        "manifest": Target(
            manifest,
            lambda: read_manifest(manifest, store),
            is_json=True,
        ),
        "model": Target(finished / "model.safetensors", lambda: read_manifest(manifest, store)),
        "checkpoint": Target(
            saved / "checkpoint.safetensors", lambda: _restored(saved), hidden=True
        ),
        "manifest of language models": Target(
            models, lambda: read_language_models(models), is_json=True
        ),
    }


def _fix_times(finished: Path) -> None:
    """Replace the times in a run's files, so that the same seed damages the same bytes."""
    record, moment, times = (
        json.loads((finished / "run.json").read_text()),
        "2026-01-01 00:00:00 +0000",
        {"seconds": 1.5},
    )
    attempts = [attempt | times | {"began": moment} for attempt in record["attempts"]]
    (finished / "run.json").write_text(
        json.dumps(record | times | {"attempts": attempts, "finished": moment}, indent=1)
    )
    curves = pd.read_parquet(finished / "training.parquet")
    curves.assign(seconds=1.5, views_per_second=1e3).to_parquet(
        finished / "training.parquet", index=False
    )


class _Weights:
    """The smallest run that a checkpoint can save."""

    epoch, epochs, update = 1, 3, 0

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        return {"weights": torch.arange(100.0)}, {"epoch": self.epoch, "update": 0}

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        if not torch.equal(tensors["weights"], torch.arange(100.0)) or values["epoch"] != 1:
            raise AssertionError("a damaged checkpoint was restored")


def _restored(folder: Path) -> None:
    Checkpoint(folder, "digest", minutes=5, about={}).restore(_Weights())


def _user_tables(folder: Path) -> dict[str, Target]:
    pictures = folder / "pictures"
    pictures.mkdir()
    rows = pd.DataFrame(
        {"image": [f"{n}.png" for n in range(4)], "text": [f"Sentence {n}." for n in range(4)]}
    )
    for n, name in enumerate(rows["image"]):
        (pictures / name).write_bytes(picture_bytes(picture(n)))
    rows.to_csv(folder / "pairs.csv", index=False)
    (folder / "pairs.csv.gz").write_bytes(
        gzip.compress((folder / "pairs.csv").read_bytes(), mtime=0)
    )
    rows.to_parquet(folder / "table.parquet")
    columns = {
        "image_column": "image",
        "text_column": "text",
        "patient_column": None,
        "split_sentences": True,
    }

    def pairs(table: Path) -> Callable[[], Any]:
        return lambda: read_image_table({"path": str(pictures), "table": str(table), **columns})

    tables = [folder / name for name in ("pairs.csv", "pairs.csv.gz", "table.parquet")]
    return {f"user's {table.name}": Target(table, pairs(table)) for table in tables}


def _images(folder: Path) -> dict[str, Target]:
    def decoded(path: Path) -> Callable[[], Any]:
        return lambda: np.array(
            cache_images(ImageFiles((path,)), folder / "cache", mode="L", resolution=16)
        )

    paths = {form: folder / f"picture.{form.lower()}" for form in ("PNG", "JPEG")}
    for form, path in paths.items():
        path.write_bytes(picture_bytes(picture(0), form))
    return {f"{form} image": Target(path, decoded(path)) for form, path in paths.items()}
