"""Files of every kind that the project reads, damaged or forged, each with what reads it."""

import gzip
import hashlib
import io
import json
import os
import pickle
import random
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from safetensors.torch import save_file

from tests.data.image_layouts import pngs, random_images, write_parquet
from tests.data.pictures import encoded as picture_bytes
from tests.data.pictures import picture
from tests.fuzz.configurations import CONTROL, REPLACEMENTS, changed, leaves
from tests.textures import texture_source
from tests.training.interrupted import new_job
from trueneg.cli.main import main
from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.image_source import read_source, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.official_archive import fetch_archive
from trueneg.data.images.sources.parquet import load as load_parquet
from trueneg.data.images.subsets import make_subset, read_subsets, write_subsets
from trueneg.data.pairs.image_table import read_image_table
from trueneg.data.pairs.pair_source import read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import read_pair_subsets, split_pairs, write_pair_subsets
from trueneg.data.reports.prepare import prepare_reports
from trueneg.errors import UserError
from trueneg.evaluation.evaluate import manifest_names
from trueneg.io.privacy import read_table, write_table
from trueneg.models.spatial_encoders import _state_dict
from trueneg.runtime.checkpoint import Checkpoint
from trueneg.store.language_models import read_language_models
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.text.chunks import append_chunk, read_chunks
from trueneg.training.engine import train_runs


@dataclass(frozen=True)
class Target:
    """A file, and what reads it. In a JSON file single values change, too; in the place of a hidden one nobody puts a folder."""

    path: Path
    read: Callable[[], Any]
    is_json: bool = False
    hidden: bool = False


class Forged:
    """A pickle that makes a folder when it is loaded."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def _flip(content: bytes, draw: random.Random) -> bytes:
    flipped = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def _overwritten(content: bytes, draw: random.Random, byte: int) -> bytes:
    start = draw.randrange(len(content))
    end = min(len(content), start + draw.choice([1, 16, 512, 4096]))
    return content[:start] + bytes([byte]) * (end - start) + content[end:]


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


BEGINNINGS = [b"PAR1", b"PK\x03\x04", b"\x93NUMPY", b"\x1f\x8b", b"{}", b"null", b"a,b\n1"]
DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": lambda content, draw: content[: draw.randrange(len(content))],
    "end only": lambda content, draw: content[draw.randrange(1, len(content)) :],
    "bits flipped": _flip,
    "zeroed": lambda content, draw: _overwritten(content, draw, 0),
    "overwritten": lambda content, draw: _overwritten(content, draw, 255),
    "emptied": lambda content, draw: b"",
    "twice": lambda content, draw: content + content,
    "garbage": lambda content, draw: draw.randbytes(draw.choice([1, 100, 5000])),
    "a pickle": lambda content, draw: pickle.dumps(Forged(), protocol=draw.choice([0, 2, 4])),
    "another kind": lambda content, draw: draw.choice(BEGINNINGS) + content[:20],
    "of depth": lambda content, draw: _nested(100_000).encode(),
    "not UTF-8": lambda content, draw: b'{"a": "\xff\xfe"}' + content[40:],
}  # fmt: skip


def damaged(target: Target, kind: str, draw: random.Random) -> None:
    """Put a damaged file into the target's place."""
    content = target.path.read_bytes()
    if kind == "value changed":
        whole = json.loads(content)
        place = draw.choice(list(leaves(whole)))
        other = changed({"": whole}, ("", *place), draw.choice(list(REPLACEMENTS)), draw)[""] if place else []
        target.path.write_text(json.dumps(other, default=str, skipkeys=True))
    elif kind == "a folder":
        target.path.unlink()
        target.path.mkdir()
    elif kind == "a link to nowhere":
        target.path.unlink()
        target.path.symlink_to("nowhere")
    else:
        target.path.write_bytes(DAMAGE[kind](content, draw))


def kinds(target: Target) -> list[str]:
    return [
        *DAMAGE,
        *([] if target.hidden else ["a folder"]),
        "a link to nowhere",
        *(["value changed"] * 6 if target.is_json else []),
    ]


def targets(folder: Path) -> dict[str, Target]:
    """Small whole files under a folder, by what they are."""
    source = load_source("digits")
    write_source(source, folder / "source.npz")
    write_subsets([make_subset(source, seed=0)], folder / "subsets.parquet")
    pairs = texture_source(patients=12)
    write_pairs(pairs, folder / "pairs.npz")
    write_pair_subsets([split_pairs(pairs, 0)], folder / "pair-subsets.parquet")
    write_table(
        pd.DataFrame({"report": list("abc"), "text": ["No effusion.", "Clear.", "Large heart."]}), folder / "text.parquet", False
    )
    append_chunk(folder / "chunks", pd.DataFrame({"value": [1.0, 2.0]}, index=["a", "b"]), restricted=False)
    (chunk,) = (folder / "chunks").iterdir()
    (folder / "own").mkdir()
    write_parquet(folder / "own/train.parquet", pngs(random_images(20, (8, 8, 3))), [0, 1] * 10)
    found = {
        "decoded images": Target(folder / "source.npz", lambda: read_source(folder / "source.npz")),
        "subsets": Target(folder / "subsets.parquet", lambda: read_subsets(folder / "subsets.parquet")),
        "images with sentences": Target(folder / "pairs.npz", lambda: read_pairs(folder / "pairs.npz")),
        "sentences beside images": Target(folder / "pairs.parquet", lambda: read_pairs(folder / "pairs.npz")),
        "splits by patient": Target(folder / "pair-subsets.parquet", lambda: read_pair_subsets(folder / "pair-subsets.parquet")),
        "table of text": Target(folder / "text.parquet", lambda: read_table(folder / "text.parquet")),
        "part of a cache": Target(chunk, lambda: read_chunks(folder / "chunks", ["value"])),
        "own images in parquet": Target(folder / "own/train.parquet", lambda: load_parquet(folder / "own")),
    }
    return found | _trained(folder) | _own_tables(folder) | _weights(folder) | _pictures(folder) | _archive(folder)


def _trained(folder: Path) -> dict[str, Target]:
    """A finished run and one that is not, as commands and jobs read them."""
    job = new_job(folder / "job", epochs=1, checkpoint_minutes=5)
    train_runs(**job.arguments())
    results = folder / "results"
    results.mkdir()
    job.store.path.rename(results / "runs")
    store, manifest = RunStore(results / "runs"), job.folder / "manifest.json"
    (finished,) = store.path.iterdir()
    _settle_times(finished)
    begun = store.path / "begun"
    begun.mkdir()
    (begun / "lock").touch()
    progress = {
        "dataset": "digits",
        "objective": "CL",
        "seed": 0,
        "epoch": 1,
        "epochs": 3,
        "spent": [{"seconds": 1.5, "device": "cpu", "devices": 1}],
    }
    (begun / "progress.json").write_text(json.dumps(progress))
    run = _Weights()
    saved = folder / "saved"
    saved.mkdir()
    checkpoint = Checkpoint(saved, "digest", minutes=1e-9, about={})
    checkpoint.after_update(run, [{"epoch": 1}])
    models = folder / "language_models.json"
    models.write_text(
        json.dumps(
            {
                "folds": 1,
                "seed": 0,
                "restricted": False,
                "models": [{"fold": 0, "folder": "hub/name", "revision": None, "checksum": None}],
            }
        )
    )

    def listed() -> None:
        code = main(["runs", "--results", str(results)]) or main(["why", finished.name, "--results", str(results)])
        if code:
            raise UserError("told.")

    def restored() -> None:
        Checkpoint(saved, "digest", minutes=5, about={}).restore(_Weights())

    return {
        "record of a run": Target(finished / "run.json", listed, is_json=True),
        "progress of a run": Target(begun / "progress.json", listed, is_json=True),
        "curves of a run": Target(finished / "training.parquet", listed),
        "manifest": Target(manifest, lambda: (read_manifest(manifest, store), manifest_names(manifest)), is_json=True),
        "model": Target(finished / "model.safetensors", lambda: read_manifest(manifest, store)),
        "checkpoint": Target(saved / "checkpoint.safetensors", restored, hidden=True),
        "manifest of language models": Target(models, lambda: read_language_models(models), is_json=True),
    }


def _settle_times(finished: Path) -> None:
    """Give a run the same times whenever it is made: what a damage does depends on every byte."""
    record = json.loads((finished / "run.json").read_text())
    moment, times = "2026-01-01 00:00:00 +0000", {"seconds": 1.5}
    attempts = [attempt | times | {"began": moment} for attempt in record["attempts"]]
    (finished / "run.json").write_text(json.dumps(record | times | {"attempts": attempts, "finished": moment}, indent=1))
    curves = pd.read_parquet(finished / "training.parquet")
    curves.assign(seconds=1.5, views_per_second=1e3).to_parquet(finished / "training.parquet", index=False)


class _Weights:
    """The least that a checkpoint is made of."""

    epoch, epochs, update = 1, 3, 0

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        return {"weights": torch.arange(100.0)}, {"epoch": self.epoch, "update": 0}

    def load_state(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        if not torch.equal(tensors["weights"], torch.arange(100.0)) or values["epoch"] != 1:
            raise AssertionError("a damaged checkpoint was taken for whole")


def _own_tables(folder: Path) -> dict[str, Target]:
    pictures = folder / "pictures"
    pictures.mkdir()
    rows = pd.DataFrame({"image": [f"{n}.png" for n in range(4)], "text": [f"Sentence {n}." for n in range(4)]})
    for n, name in enumerate(rows["image"]):
        (pictures / name).write_bytes(picture_bytes(picture(n)))
    rows.to_csv(folder / "own.csv", index=False)
    rows.to_csv(folder / "own.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})
    rows.to_parquet(folder / "own.parquet")
    reports = rows.rename(columns={"image": "report"})
    reports.to_csv(folder / "reports.csv", index=False)
    reports.to_parquet(folder / "reports.parquet")

    def images(table: str) -> Callable[[], Any]:
        columns = {"image_column": "image", "text_column": "text", "patient_column": None, "split_sentences": True}
        return lambda: read_image_table({"path": str(pictures), "table": str(folder / table), **columns})

    def texts(table: str) -> Callable[[], Any]:
        columns = {"id_column": "report", "text_column": "text", "patient_column": None, "restricted": False}
        settings = {"source": "table", "path": str(folder / table), **columns}
        return lambda: prepare_reports(settings, folder / "prepared.parquet")

    return {
        "own table in CSV": Target(folder / "own.csv", images("own.csv")),
        "own table in packed CSV": Target(folder / "own.csv.gz", images("own.csv.gz")),
        "own table in parquet": Target(folder / "own.parquet", images("own.parquet")),
        "own reports in CSV": Target(folder / "reports.csv", texts("reports.csv")),
        "own reports in parquet": Target(folder / "reports.parquet", texts("reports.parquet")),
    }


def _pictures(folder: Path) -> dict[str, Target]:
    paths = []
    for form in ("PNG", "JPEG"):
        path = folder / f"picture.{form.lower()}"
        path.write_bytes(picture_bytes(picture(0), form))
        paths.append(path)
    cache = folder / "image-cache"
    whole = ImageFiles((folder / "whole.png",))
    whole.paths[0].write_bytes(picture_bytes(picture(1)))
    os.utime(whole.paths[0], (0, 0))
    expected = np.array(cache_images(whole, cache, mode="L", resolution=16))

    def cached() -> None:
        if not np.array_equal(cache_images(whole, cache, mode="L", resolution=16), expected):
            raise AssertionError("damaged pixels were taken for whole")

    def decoded(path: Path) -> Callable[[], Any]:
        return lambda: cache_images(ImageFiles((path,)), folder / "other-cache", mode="RGB", resolution=16)

    return {path.suffix[1:].upper() + " image": Target(path, decoded(path)) for path in paths} | {
        "pixels of a cache": Target(cache / "images.u8", cached, hidden=True),
        "description of a cache": Target(next((cache / "shards").iterdir()), cached, is_json=True, hidden=True),
    }


def _weights(folder: Path) -> dict[str, Target]:
    state = {"weight": torch.zeros(3)}
    save_file(state, folder / "weights.safetensors")
    torch.save(state, folder / "weights.pth")

    def loaded(name: str) -> Callable[[], Any]:
        return lambda: _state_dict("resnet18", folder / name)

    return {
        f"weights in {name.split('.')[1]}": Target(folder / name, loaded(name)) for name in ("weights.safetensors", "weights.pth")
    }


def _archive(folder: Path) -> dict[str, Target]:
    path = folder / "NLMCXR_reports.tgz"
    report = "<r><AbstractText Label='FINDINGS'>Clear lungs.</AbstractText></r>"
    pack(path, {f"ecgen-radiology/{n}.xml": report.encode() for n in range(3)})
    path.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    settings = {"source": "open_i", "path": str(path)}
    return {"archive of reports": Target(path, lambda: prepare_reports(settings, folder / "of-archive.parquet"))}


def pack(path: Path, members: dict[str, bytes | tarfile.TarInfo], mode: str = "w") -> None:
    """A tar archive of files, or of members as they are given."""
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def hostile_members() -> Iterator[tuple[str, dict[str, bytes | tarfile.TarInfo]]]:
    """Archives whose members climb out, lead out by links, or are no files."""
    for name in ("../climbed", "/tmp/climbed-absolute", "a/../../climbed", "..\\climbed", "a/./../../../climbed"):
        yield f"member {name}", {name: b"out"}
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        for target in ("/etc/passwd", "../../outside", "inside"):
            link = tarfile.TarInfo("link")
            link.type, link.linkname = kind, target
            yield f"link {kind!r} to {target}", {"link": link, "link/through": b"out"}
    for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE):
        device = tarfile.TarInfo("device")
        device.type, device.devmajor, device.devminor = kind, 1, 3
        yield f"device {kind!r}", {"device": device}
    odd = tarfile.TarInfo("setuid")
    odd.mode = 0o6777
    yield "set-user-id", {"setuid": odd}
    yield "control characters", {CONTROL.replace("\x00", ""): b"x"}
    yield "a long name", {"x" * 300: b"x"}
    yield "twice", {"a": b"1", "./a": b"2"}


def unpacked(members: dict[str, bytes | tarfile.TarInfo], folder: Path) -> None:
    """As a data set is unpacked whose archive lies in the folder already."""
    path = folder / "archive.tar"
    pack(path, members | {"inside/whole": b"whole"})
    md5 = hashlib.md5(path.read_bytes()).hexdigest()
    fetch_archive("https://nowhere.invalid/archive.tar", md5, folder, "inside")
    for found in folder.rglob("*"):
        if not found.resolve().is_relative_to(folder.resolve()) or found.is_fifo() or found.is_char_device():
            raise AssertionError(f"{found} leads out, or is no file")
        if found.is_file() and found.stat().st_mode & 0o6000:
            raise AssertionError(f"{found} runs as somebody else")


def bombs(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Small files that claim to be, or become, huge ones."""
    claimed = io.BytesIO()
    np.lib.format.write_array_header_1_0(claimed, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 1, 8, 8)})
    whole = {
        "name": np.array("x"),
        "labels": np.zeros(1, np.int64),
        "is_test": np.zeros(1, bool),
        "class_names": np.array(["a"]),
        "checksum": np.array("0"),
    }
    for name, data in (("claims to be huge", claimed.getvalue()), ("becomes huge", claimed.getvalue() + b"\0" * 2**26)):
        path = folder / f"{name}.npz"
        np.savez(path, **whole)
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("images.npy", data)
        yield f"npz that {name}", lambda path=path: read_source(path)
    path = folder / "objects.npz"
    np.savez(path, **whole, images=np.array([Forged()], dtype=object))
    yield "npz of pickled objects", lambda path=path: read_source(path)
    forged = pa.table({"img": [{"bytes": picture_bytes(picture(0))}], "label": [2**62]})
    (folder / "huge-label").mkdir()
    pq.write_table(forged, folder / "huge-label/train.parquet")
    yield "parquet with a huge label", lambda: load_parquet(folder / "huge-label")
    big = picture_bytes(Image.new("1", (20_000, 20_000)), "PNG")
    (folder / "bomb.png").write_bytes(big)
    yield (
        "PNG of 400 million pixels",
        lambda: cache_images(ImageFiles((folder / "bomb.png",)), folder / "bombs", mode="L", resolution=16),
    )
    (folder / "big").mkdir()
    pq.write_table(pa.table({"img": [{"bytes": big}], "label": [0]}), folder / "big/train.parquet")
    yield "the same in parquet", lambda: load_parquet(folder / "big", resolution=8)
    entities = "<!DOCTYPE a [<!ENTITY x0 'ha'>" + "".join(f"<!ENTITY x{n + 1} '{f'&x{n};' * 10}'>" for n in range(12)) + "]>"
    for name, text in (
        ("entities", entities + "<a><AbstractText Label='FINDINGS'>&x12;</AbstractText></a>"),
        (
            "a file of the machine",
            "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a><AbstractText Label='FINDINGS'>&x;</AbstractText></a>",
        ),
    ):
        (folder / name).mkdir()
        pack(
            folder / name / "NLMCXR_reports.tgz",
            {"1.xml": text.encode(), "2.xml": b"<r><AbstractText Label='FINDINGS'>Clear.</AbstractText></r>"},
            "w:gz",
        )
        yield (
            f"XML with {name}",
            lambda name=name: prepare_reports({"source": "open_i", "path": str(folder / name)}, folder / name / "out.parquet"),
        )
    (folder / "inflated").mkdir()
    with gzip.open(folder / "inflated/NLMCXR_reports.tgz", "wb", compresslevel=1) as stream:
        header = tarfile.TarInfo("1.xml")
        header.size = 8 * 2**30
        stream.write(header.tobuf())
        for _ in range(64):
            stream.write(b"\0" * 2**20)
    yield (
        "archive with a member of 8 GiB",
        lambda: prepare_reports({"source": "open_i", "path": str(folder / "inflated")}, folder / "inflated/out.parquet"),
    )
