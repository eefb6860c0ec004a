"""Entries of the data: decoding and reading every source from tiny files in its layout, and drawing
subsets.
"""

import dataclasses
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests import questions
from tests.data import (
    image_layouts,
    official_layouts,
    test_beir,
    test_open_i_pairs,
    test_table_pairs,
    test_text_sources,
)
from tests.golden.golden import RTOL, Entry, checksum
from tests.golden.numerics import signs
from tests.textures import texture_source
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.loading import load_source
from trueneg.data.images.sources import cifar10, stl10
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import official_subset, split_pairs
from trueneg.data.pairs.registry import TABLES, prepare_pairs, write_captions
from trueneg.data.phantom.corpus import prepare_phantom
from trueneg.data.reports.prepare import prepare_reports
from trueneg.data.samples import SPLITS, Subset
from trueneg.data.texts.reading import prepare_texts
from trueneg.data.texts.text_source import read_texts
from trueneg.data.texts.text_splits import PARTS
from trueneg.io import privacy
from trueneg.text.sentences import split_reports

Settings = dict[str, Any]
PICTURES = 12  # per file of CIFAR-10 and STL-10
UNSPLIT = ("flickr8k", "flickr30k")  # each caption is a sentence
PHANTOM = {"source": "phantom", "images": None, "resolution": 32, "contrast": 1.0, "seed": 0}


def entries() -> Iterator[tuple[str, Entry]]:
    """Every source of images, of pairs, of reports and of texts, and the subsets."""
    for source, images in DECODED.items():
        yield (
            f"decoding: {source}",
            Entry((f"decoding/{source}",), functools.partial(_in_folder, images)),
        )
    for source, pairs in PAIRS.items():
        parts = (
            f"pairs/{source}",
            f"reports/{source}",
            *(() if source in UNSPLIT else ("splitter",)),
        )
        # a pixel of the phantom that is rounded the other way changes a sum by 2e-4
        rtol = 1e-3 if source == "phantom" else RTOL
        yield f"pairs: {source}", Entry(parts, functools.partial(_in_folder, pairs), rtol)
    for source, reports in REPORTS.items():
        parts = (f"reports/{source}", *(("splitter",) if source == "image_table" else ()))
        yield f"reports: {source}", Entry(parts, functools.partial(_in_folder, reports))
    for source, texts in TEXTS.items():
        yield (
            f"texts: {source}",
            Entry((f"texts/{source}", f"reports/{source}"), functools.partial(_in_folder, texts)),
        )
    yield "subsets: images", Entry(("subsets",), _image_subsets)
    yield "subsets: pairs", Entry(("subsets",), _pair_subsets)
    yield "subsets: texts", Entry(("subsets",), _text_subsets)


def _in_folder(compute: Callable[[Path], Any]) -> Any:
    with tempfile.TemporaryDirectory() as name:
        return compute(Path(name))


def _images(source: ImageSource) -> dict[str, Any]:
    return {
        "images": checksum(source.images),
        "labels": checksum(source.labels, source.is_test),
        "classes": checksum(source.class_names),
        "shape": source.images.shape,
    }


def _archive(archive: Any, folder: Path) -> dict[str, Any]:
    """A published dataset with few images per file; all its files have the official records."""
    files = {name: (PICTURES, kind) for name, (_, kind) in archive.binary_files.items()}
    unlabelled = {name: (PICTURES, kind) for name, (_, kind) in archive.unlabelled_files.items()}
    generator = np.random.default_rng(0)
    for name, (count, kind) in (files | unlabelled).items():
        records = np.zeros(count, kind)
        for field in kind.names:
            last = len(archive.class_names) if field == "label" else 256
            first = archive.first_label if field == "label" else 0
            records[field] = generator.integers(first, first + last, records[field].shape)
        records.tofile(folder / name)
    test = sum(
        count
        for name, (count, kind) in files.items()
        if name.startswith("test") and "label" in kind.names
    )
    total = sum(count for count, kind in files.values() if "label" in kind.names)
    small = dataclasses.replace(
        archive,
        rows={"train": total - test, "test": test},
        binary_files=files,
        unlabelled_files=unlabelled,
    )
    return _images(small.load(folder, resolution=16, unlabelled=5 if unlabelled else 0))


def _image_folder(folder: Path) -> dict[str, Any]:
    image_layouts.write_classes(folder / "train")
    image_layouts.write_classes(folder / "test", images=2, first=100)
    return _images(load_source("image_folder", path=folder, resolution=16))


def _parquet(folder: Path) -> dict[str, Any]:
    images = image_layouts.random_images(7)
    for name, part in (("train", slice(5)), ("test", slice(5, 7))):
        labels = [0, 1, 2, 1, 0, 2, 1][part]
        image_layouts.write_parquet(
            folder / f"{name}.parquet", image_layouts.pngs(images[part]), labels
        )
    return _images(load_source("parquet", path=folder, resolution=3))


DECODED: dict[str, Callable[[Path], Any]] = {
    "digits": lambda _: _images(load_source("digits")),
    "cifar10": functools.partial(_archive, cifar10.ARCHIVE),
    "stl10": functools.partial(_archive, stl10.ARCHIVE),
    "image_folder": _image_folder,
    "parquet": _parquet,
}


def _pairs(source: PairSource, path: Path) -> dict[str, Any]:
    """Checksums of a source's arrays, and of each table beside it that is not empty."""
    tables = {
        name: privacy.read_table(path.with_name(f"{path.stem}-{name}.parquet"))[0]
        for name in TABLES
    }
    checksums = {
        "images": checksum(source.images),
        "shape": source.images.shape,
        "names": checksum(source.reports, source.patients, source.label_names),
        "labels": checksum(source.labels, source.shown),
        # Likelihoods are listed since objectives can have their own a and k; no earlier result
        # depends on these columns.
        "sentences": checksum(
            source.sentences.drop(
                columns=["log_likelihood", "log_likelihood permuted", "tokens"], errors="ignore"
            )
        ),
    }
    return checksums | {name: checksum(table) for name, table in tables.items() if not table.empty}


def _prepared(settings: Settings, text: dict[str, Path], folder: Path) -> dict[str, Any]:
    prepare_pairs(settings, text, folder / "pairs.npz", cache=folder / "cache", threads=1)
    return _pairs(read_pairs(folder / "pairs.npz"), folder / "pairs.npz")


def _captioned(write: Callable[[Path], Settings], folder: Path) -> dict[str, Any]:
    """Pairs of a source whose texts belong to named images."""
    settings = write(folder)
    _captions(settings, folder)
    return _prepared(settings, {"sentences": folder / "sentences.parquet"}, folder)


def _captions(settings: Settings, folder: Path) -> dict[str, Any]:
    tables = {name: folder / f"{name}.parquet" for name in ("sentences", "unique")}
    write_captions(settings, **tables, cache=folder / "split")
    return {name: checksum(privacy.read_table(path)[0]) for name, path in tables.items()}


def _written_captions(write: Callable[[Path], Settings], folder: Path) -> dict[str, Any]:
    return _captions(write(folder), folder)


def _flickr8k(folder: Path) -> Settings:
    official_layouts.write_flickr8k(folder / "data", photographs=20)
    return {"source": "flickr8k", "path": folder / "data", "images": None, "resolution": 16}


def _flickr30k(folder: Path) -> Settings:
    (folder / "data").mkdir()
    official_layouts.write_flickr30k(folder / "data")
    return {
        "source": "flickr30k",
        "path": folder / "data",
        "images": None,
        "resolution": 16,
        "split": "reco",
    }


def _image_table(folder: Path) -> Settings:
    official_layouts.write_image_table(folder / "images", folder / "table.csv", count=16)
    return test_table_pairs.settings_of(folder, label_columns=["mass", "fracture"], colour=True)


def _open_i(folder: Path) -> dict[str, Any]:
    official_layouts.write_open_i_reports(folder, test_open_i_pairs.REPORTS)
    official_layouts.write_open_i_images(folder, test_open_i_pairs.FILES)
    test_open_i_pairs.write_text_steps(folder, folder)
    text = {name: folder / f"{name}.parquet" for name in ("sentences", "assigned", "eta")}
    return _prepared(
        {"source": "open_i", "path": folder, "archive": folder, "images": None, "resolution": 16},
        text,
        folder,
    )


def _mimic_cxr(folder: Path) -> dict[str, Any]:
    radiographs = official_layouts.write_mimic_cxr(folder / "jpg", 10)
    official_layouts.write_ms_cxr(folder / "ms-cxr", official_layouts.ms_cxr(radiographs))
    _mimic_reports(folder)
    tables = {name: folder / f"{name}.parquet" for name in ("sentences", "unique")}
    split_reports(folder / "reports.parquet", **tables, cache=folder / "split")
    settings = {
        "source": "mimic_cxr",
        "path": folder / "jpg",
        "images": None,
        "resolution": 32,
        "views": "frontal",
    }
    settings |= {"fit": "crop", "ms_cxr": folder / "ms-cxr"}
    return _prepared(settings, {"sentences": tables["sentences"]}, folder)


def _mimic_reports(folder: Path) -> dict[str, Any]:
    radiographs = official_layouts.mimic_cxr(10)
    official_layouts.write_mimic_reports(
        folder / "reports", radiographs, without=[radiographs[0].study]
    )
    return _reports({"source": "mimic_cxr", "path": folder / "reports"}, folder)


def _reports(settings: Settings, folder: Path) -> dict[str, Any]:
    prepare_reports(settings, folder / "reports.parquet")
    table = privacy.read_table(folder / "reports.parquet")[0]
    return {"reports": checksum(table), "count": len(table)}


def _open_i_reports(folder: Path) -> dict[str, Any]:
    official_layouts.write_open_i_reports(folder, test_open_i_pairs.REPORTS)
    return _reports({"source": "open_i", "path": folder}, folder)


def _phantom_tables(folder: Path) -> dict[str, Path]:
    paths = {name: folder / f"{name}.parquet" for name in ("reports", "assigned", "classes")}
    prepare_phantom({"reports": 12, "exponent": 1.0, "correlation": 0.3}, 0, paths)
    return paths


def _phantom_reports(folder: Path) -> dict[str, Any]:
    return {
        name: checksum(privacy.read_table(path)[0])
        for name, path in _phantom_tables(folder).items()
    }


def _phantom(folder: Path) -> dict[str, Any]:
    """Sums of pixels instead of a checksum, because processors round the floats of the phantom
    differently.
    """
    paths = _phantom_tables(folder)
    tables = {name: folder / f"{name}.parquet" for name in ("sentences", "unique")}
    split_reports(paths["reports"], **tables, cache=folder / "split")
    result = _prepared(PHANTOM, paths | {"sentences": tables["sentences"]}, folder)
    pixels = (
        read_pairs(folder / "pairs.npz").images.reshape(result["shape"][0], -1).astype(np.float64)
    )
    blurred = pixels.reshape(len(pixels), -1, 16).mean(2)
    return result | {"images": [float(row @ signs("phantom", len(row)).numpy()) for row in blurred]}


CAPTIONED = {"flickr8k": _flickr8k, "flickr30k": _flickr30k, "image_table": _image_table}
PAIRS: dict[str, Callable[[Path], Any]] = {
    **{name: functools.partial(_captioned, write) for name, write in CAPTIONED.items()},
    "open_i": _open_i,
    "mimic_cxr": _mimic_cxr,
    "phantom": _phantom,
}
REPORTS: dict[str, Callable[[Path], Any]] = {
    **{name: functools.partial(_written_captions, write) for name, write in CAPTIONED.items()},
    "open_i": _open_i_reports,
    "mimic_cxr": _mimic_reports,
    "phantom": _phantom_reports,
}


def _texts(settings: Settings, folder: Path) -> dict[str, Any]:
    """The source of a text study, and the texts of a likelihood study of the same file."""
    prepare_texts(settings, {}, folder / "texts.npz")
    source = read_texts(folder / "texts.npz")
    tables = {"sentences": checksum(source.sentences), "rated": checksum(source.rated)}
    return (
        tables
        | {"pairs": checksum(source.pairs), "names": source.label_names}
        | _captions(settings | {"labels": None}, folder)
    )


def _text_table(folder: Path) -> dict[str, Any]:
    settings = test_text_sources.write_pairs(folder / "a.csv")
    return _texts(settings, folder)


def _clinc150(folder: Path) -> dict[str, Any]:
    return _texts(test_text_sources.clinc(folder / "data.json", test_text_sources.CLINC), folder)


def _beir(folder: Path) -> dict[str, Any]:
    return _texts(test_beir.write_folder(folder / "beir"), folder)


TEXTS: dict[str, Callable[[Path], Any]] = {
    "text_table": _text_table,
    "clinc150": _clinc150,
    "beir": _beir,
}


def _image_subsets() -> dict[str, Any]:
    """With and without official test images, unlabelled images, imbalance and a cap."""
    labels = np.arange(240) % 6 - (np.arange(240) >= 210) * (1 + np.arange(240) % 6)
    images = np.arange(240, dtype=np.uint8).repeat(64).reshape(240, 1, 8, 8)
    free = ImageSource("free", images, labels, np.zeros(240, bool), tuple("abcdef"))
    official = dataclasses.replace(free, name="official", is_test=np.arange(240) < 60)
    drawn = {
        "imbalanced": make_subset(free, seed=0, fraction=0.2, rare_classes=[4, 5], test=0.25),
        "capped": make_subset(
            free, seed=1, fraction=0.5, rare_classes=["a"], images_per_class=10, validation=0.2
        ),
        "official": make_subset(official, seed=2, fraction=0.3, rare_classes=[0, 3]),
    }
    return {
        name: _indices(subset, ("train", "pool", "validation", "test"))
        | {"eta": [subset.eta_low, subset.eta_high]}
        for name, subset in drawn.items()
    }


def _pair_subsets() -> dict[str, Any]:
    source = texture_source(patients=30)
    splits = pd.DataFrame({"report": np.unique(source.reports)})
    splits = splits.assign(
        split=[
            ("train", "train", "validation", "test")[number // 2 % 4]
            for number in range(len(splits))
        ]
    )
    return {
        "drawn": _indices(split_pairs(source, 3), SPLITS),
        "official": _indices(official_subset(source, splits, 0), SPLITS),
    }


def _text_subsets() -> dict[str, Any]:
    """Drawn and official splits, with and without sets of labels."""
    texts, pairs = questions.question_source(), questions.question_source(given=True, hard=1)
    sets = {
        "train": 4,
        "validation_unseen": 1,
        "test_unseen": 2,
        "seed": 1,
        "per_run": 3,
        "fraction": 0.5,
    }
    limited = questions.settings_of(dataset={"labels": sets})["dataset"]
    drawn = {"drawn": questions.subset_of(texts), "official": questions.subset_of(pairs)}
    return {
        name: _indices(subset, ("train", *PARTS))
        for name, subset in (drawn | {"limited": questions.subset_of(texts, limited, 3)}).items()
    }


def _indices(subset: Subset, parts: Sequence[str]) -> dict[str, str]:
    return {name: checksum(getattr(subset, name)) for name in parts}
