"""Only computing and training towers imports their libraries, which takes seconds and up to a
gigabyte.
"""

import json
import os
import subprocess
import sys

import numpy as np
import yaml
from tests.projects import new_project
from tests.studies import first_run, tiny_study, tiny_words, tiny_world
from tests.textures import texture_source

from trueneg.config.runs import features_key, frozen_towers
from trueneg.data.images.image_source import write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_source import distinct_texts, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.data.stored_features import write_features

HEAVY = {"timm", "open_clip", "sentence_transformers"}
EVERYTHING = """
import importlib, pkgutil, trueneg
for module in pkgutil.walk_packages(trueneg.__path__, "trueneg."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
CHECK = "from trueneg.cli.main import main\nassert main(['check', 'study.yaml']) == 0"
PLAN = """
import os, re, runpy
sys.argv = ["snakemake", "all", "--dry-run", "--cores", "1", "--configfile", "study.yaml"]
try:
    runpy.run_module("snakemake", run_name="__main__")
except SystemExit as done:
    assert done.code in (0, None), done.code
"""
TRAIN = """
import json, pathlib
from trueneg.training.engine import train_runs
for job in json.loads(pathlib.Path("jobs.json").read_text()):
    train_runs(**job)
"""
TIMM = {"name": "timm", "model": "vit_tiny_patch16_224", "train": "none"}
TEXTS = {"name": "sentence_transformers", "model": "all-MiniLM-L6-v2", "train": "none"}
CLIP = {"name": "open_clip", "model": "ViT-B-32", "weights": "openai"}
HEAD = {"projection": {"name": "residual", "dimensions": 16, "hidden": 8}}


def guided(study, **towers):
    """Return a study with an objective that these towers guide."""
    guide = {"name": "guided", "margin": 0.1, "guide": {"name": "encoder", **towers}}
    return study | {"objectives": study["objectives"] | {"Guided": guide}}


STUDIES = {
    "tiny": guided(
        tiny_study(
            encoder=TIMM | {"views": 2}, projection={"name": "residual", "dimensions": None}
        ),
        encoder=CLIP,
    ),
    "words": tiny_words(),
    "world": guided(
        tiny_world(encoder=TIMM, text_encoder=TEXTS, figures={}, **HEAD), text_encoder=CLIP
    ),
}


def imported_by(code, folder, environment=os.environ):
    """Run code in a fresh process, and return which of the libraries it imported, with what it
    printed.
    """
    code = f"import sys\n{code}\nprint('imported', *sorted({HEAVY} & set(sys.modules)))"
    run = {"capture_output": True, "text": True, "cwd": folder}
    done = subprocess.run([sys.executable, "-c", code], env=dict(environment), **run)
    assert done.returncode == 0, done.stdout + done.stderr
    *printed, last = done.stdout.splitlines()
    return last, "\n".join(printed) + done.stderr


def test_neither_modules_nor_checks_of_studies_without_towers_import_them(tmp_path):
    studies = {"tiny": tiny_study(), "words": tiny_words(), "world": tiny_world()}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(studies))
    last, printed = imported_by(EVERYTHING + CHECK, tmp_path)
    assert last == "imported"
    assert printed.count("runs to train") == 2
    # would be noticed
    assert imported_by("sys.modules['timm'] = sys", tmp_path)[0] == "imported timm"


def test_planning_studies_with_towers_does_not_import_them(tmp_path):
    project = new_project(tmp_path / "project")
    project.configure(**STUDIES)
    last, printed = imported_by(PLAN, project.path, project.environment)
    assert last == "imported"
    assert "\nfeatures " in printed


def write_job(name, folder):
    """Write the source and the vectors of a run's frozen towers, and the arguments of its
    training.
    """
    run = first_run(name, STUDIES, "Guided")
    folder.mkdir()
    if name == "tiny":
        source = load_source("digits")
        write_source(source, folder / "source.npz")
        subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
        write_subsets([subset], folder / "subsets.parquet")
        samples = {"images": source.images}
    else:
        source = texture_source(patients=40)
        write_pairs(source, folder / "source.npz")
        write_subsets([split_pairs(source, 0)], folder / "subsets.parquet")
        samples = {"images": source.images, "texts": distinct_texts(source)}
    vectors, generator = [], np.random.default_rng(0)
    for made in frozen_towers(run.settings).values():
        count = len(samples[made["samples"]])
        values = generator.standard_normal(
            (count, 1 + (made["tower"].get("views") or 0), 16, 1), np.float32
        )
        vectors.append(f"{folder}/{features_key(made)}.npz")
        made = made | {"weights": "unknown", "data": source.checksum}
        shards = {"compute": values.__getitem__, "grid": None, "at_once": count}
        write_features(vectors[-1], folder / "cache", made, count, restricted=False, **shards)
    assert len(vectors) == {"tiny": 2, "world": 3}[name]
    places = {
        "source": "source.npz",
        "subsets": "subsets.parquet",
        "store": "runs",
        "manifest": "manifest.json",
    }
    return {"runs": [run.to_json()], "vectors": vectors} | {
        key: f"{folder}/{place}" for key, place in places.items()
    }


def test_training_on_stored_vectors_does_not_import_them(tmp_path):
    jobs = [write_job(name, tmp_path / name) for name in ("tiny", "world")]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    assert imported_by(TRAIN, tmp_path)[0] == "imported"
    assert len(list(tmp_path.glob("*/runs/*/model.safetensors"))) == 2
