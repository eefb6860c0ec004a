"""Write a study of the user's own data: what the data show is filled in, and its size fits a given time."""

import json
import os
import re
import shlex
import string
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trueneg.config.reading import load_configuration
from trueneg.data.images.sources import image_folder
from trueneg.data.tables import read_columns
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.text.cleaning import normalised

TEMPLATES = Path(__file__).parent / "templates"
# Names that columns often have; of several possible columns, those are taken first.
TEXTS = ("text", "question", "sentence", "query", "utterance", "anchor", "caption", "report", "title")
LABELS = ("label", "class", "category", "intent", "topic", "target")
GROUPS = ("patient", "patient_id", "subject", "subject_id", "group", "site", "video")
TRUTH = {"0", "1", "0.0", "1.0", "true", "false", "True", "False", ""}  # cells of a label column of images and texts
FEWEST = 200  # rows or images; with fewer, next to none are held out to measure with
FEWEST_OF_LABEL = 5
UNSEEN_FROM = 10  # labels, from which some are kept for the test on labels of no run
FIRST_SEEDS = {"pilots": 900, "seeds": 1000}
SEEDS = ((4, 20), (4, 12), (4, 8), (2, 8), (2, 5))  # pilot and new ones; the first pair that fits the time is taken
# Processor seconds on a slow Xeon: to start a job, to train and evaluate a run, and to pass a sample through the frozen towers.
START, RUN, SAMPLE = 8.0, {"text": 4.0, "images": 10.0, "pairs": 20.0}, {"text": 0.004, "images": 0.1, "pairs": 0.04}
FOR_TOWERS = 0.3  # share of the time
VARIANTS = 4  # of a tuned objective
SMALL, USUAL = 96, 160  # pixels: sides of small and of other images in the frozen tower


class Study:
    """A study to be written for the user's data.

    Args:
        kind: text, images or pairs.
        place: the user's table or folder.
        minutes: how long the study may take on this machine, roughly.
        file: the configuration to write.

    Attributes:
        found: sentences about the data, for the user.

    Raises:
        UserError: if the file exists.
    """

    def __init__(self, kind: str, place: Path, minutes: float, file: Path):
        if not 1 <= minutes <= 10_000:
            raise UserError(f"--minutes is {minutes:g}; expected 1 to 10,000.")
        require_new(file)
        self.kind, self.place, self.minutes, self.file, self.found = kind, place, minutes, file, list[str]()
        self.seconds = 60 * minutes * (os.cpu_count() or 1)

    def sample(self, labels: pd.Series) -> pd.Series:
        """Draw the samples to keep, the same share of each label; all if their number fits the time.

        Raises:
            UserError: if there are too few.
        """
        if len(labels) < FEWEST:
            problem = f"{self.place} has {len(labels):,} usable rows or images; expected at least {FEWEST}"
            raise UserError(f"{problem}, because with fewer, next to none are held out to measure with.")
        most = max(FEWEST, int(FOR_TOWERS * self.seconds / SAMPLE[self.kind]))
        if len(labels) <= most:
            return labels
        kept = labels.groupby(labels).sample(frac=most / len(labels), random_state=0).sort_index()
        self.found.append(f"{len(kept):,} of {len(labels):,}, drawn at random, fit the time; --minutes sets it")
        return kept

    def write(self, template: str, tuned: int, **fields: Any) -> str:
        """Write the configuration; return what was found, and the next two commands.

        Args:
            template: name of the template.
            tuned: number of its tuned objectives; two others are not tuned.
            fields: values of its placeholders.
        """
        for pilots, seeds in SEEDS:
            runs = tuned * VARIANTS * pilots + (tuned + 2) * seeds
            needed = RUN[self.kind] * runs + START * 2 * (tuned * VARIANTS + tuned + 2)
            if needed <= (1 - FOR_TOWERS) * self.seconds:
                break
        else:
            minutes = self.minutes * needed / self.seconds
            self.found.append(f"the smallest study does not fit the time: it takes about {minutes:.0f} minutes")
        for stage, count in (("pilots", pilots), ("seeds", seeds)):
            fields[stage] = list(range(FIRST_SEEDS[stage], FIRST_SEEDS[stage] + count))
        name = re.sub(r"\W+", "_", self.file.stem, flags=re.ASCII).strip("_")
        name = name if name[:1].isalpha() else f"my_{name}"
        values = {key: json.dumps(value, ensure_ascii=False) for key, value in (fields | {"title": self.place.stem}).items()}
        text = string.Template((TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8"))
        written = text.substitute(values, name=name, file=self.file)
        load_configuration(yaml.safe_load(written), str(self.file))
        self.file.write_text(written, encoding="utf-8")
        about = f"{runs} short runs: {pilots} pilot seeds tune each method, {seeds} new seeds compare them"
        file = shlex.quote(str(self.file))
        commands = [f"    trueneg check {file}", f"    snakemake --cores all --configfile {file}"]
        return "\n".join([*self.found, about, f"Wrote {self.file}. Next:", *commands])


def init_text(table: Path, minutes: float, file: Path) -> str:
    """Write a study of the texts in a table, which have labels or come in pairs.

    Args:
        table: the table.
        minutes: how long the study may take on this machine, roughly.
        file: the configuration to write; rows that are kept, if not all of them, are written beside it.

    Returns:
        What was found in the data, and the next two commands.

    Raises:
        UserError: if the data cannot show what a correction gains, or a file exists.
    """
    study, rows = Study("text", table, minutes, file), read_columns(table, None)
    texts = _texts(table, rows)
    text, labels = texts[0], _labels(table, rows.drop(columns=texts))
    study.found.append(f"{text}: {rows[text].map(normalised).nunique():,} different texts in {len(rows):,} rows")
    if not labels and len(texts) == 1:
        problem = f"{table} has texts in {text}, but neither labels nor pairs (columns: {', '.join(map(str, rows))})"
        remedy = "Add a column of labels, or one of texts that belong to them."
        raise UserError(f"{problem}: nothing tells which texts are alike. {remedy}")
    if not labels:
        study.found.append(f"{texts[1]}: their positives")
        path = _kept_rows(study, rows[texts[:2]])
        return study.write("text_pairs", 3, table=path, text=text, positive=texts[1])
    label = labels[0]
    sizes = rows.loc[rows[label] != "", label].value_counts()
    common = sizes.index[sizes >= FEWEST_OF_LABEL]
    others = f" (other columns that may be labels: {', '.join(labels[1:])})" if labels[1:] else ""
    study.found.append(f"{label}: {len(sizes):,} labels of {sizes.min():,} to {sizes.max():,} rows{others}")
    path = _kept_rows(study, rows[[text, label]], label, rare=sizes.index.difference(common))
    unseen = len(common) // 5 if len(common) >= UNSEEN_FROM else 0
    sets = {"train": len(common) - 2 * unseen, "validation_unseen": unseen, "test_unseen": unseen} if unseen else None
    return study.write("text_labels", 4, table=path, text=text, label=label, labels=sets)


def init_images(folder: Path, minutes: float, file: Path) -> str:
    """Write a study of a folder's images, as :func:`init_text`; images that are kept, if not all, are linked beside the file."""
    from trueneg.data.decoding import UnreadableImageError, open_image

    study, listed = Study("images", folder, minutes, file), image_folder.listed(folder)
    split = pd.Series("train", range(len(listed.labels))).mask(listed.is_validation, "val").mask(listed.is_test, "test")
    sizes = pd.Series(listed.labels[~listed.is_test]).value_counts()
    classes = f"{len(listed.class_names):,} classes with {sizes.min():,} to {sizes.max():,} each"
    study.found.append(f"{len(split):,} images of {classes} (without test images)")
    kept = study.sample(split + "/" + pd.Series(listed.labels).map(dict(enumerate(listed.class_names))))
    if len(kept) < len(split):
        folder = require_new(file.with_name(f"{file.stem}_images"))
        for place, where in kept.items():
            link = folder / where / f"{place}{listed.images.paths[place].suffix}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(listed.images.paths[place].resolve())
    try:
        small = max(open_image(listed.images.paths[0].read_bytes()).size) <= SMALL
    except UnreadableImageError:  # the check lists such images
        small = False
    group = "macro" if sizes.max() > 1.5 * sizes.min() else "all"
    return study.write(
        "images",
        4,
        folder=str(folder),
        resolution=SMALL if small else USUAL,
        test=None if listed.is_test.any() else 0.2,
        group=group,
    )


def init_pairs(table: Path, folder: Path, minutes: float, file: Path) -> str:
    """Write a study of the images in a folder and their texts in a table, as :func:`init_text`."""
    study, rows = Study("pairs", table, minutes, file), read_columns(table, None)
    images = [name for name in map(str, rows) if rows[name].str.lower().str.endswith(image_folder.IMAGES).mean() > 0.9]
    if not images:
        expected = "a column of image file names, such as 2024/0017.png"
        raise UserError(f"{table} has the columns {', '.join(map(str, rows))}; expected {expected}. Add one (docs/own-data.md).")
    image, text = images[0], _texts(table, rows.drop(columns=images))[0]
    labels = [name for name in map(str, rows) if set(rows[name]) <= TRUTH and rows[name].nunique() > 1]
    group = next((name for name in map(str, rows) if name.lower() in GROUPS), None)
    study.found.append(f"{image}: {rows[image].nunique():,} images; {text}: {rows[text].nunique():,} different texts")
    study.found.append(f"images with one {group} stay in one split" if group else "each image is its own group")
    path = _kept_rows(study, rows[[*dict.fromkeys(filter(None, [image, text, group])), *labels]], may_be_empty=labels)
    fields = {"table": path, "image": image, "text": text, "patient": group, "labels": labels}
    return study.write("pairs", 3, folder=str(folder), **fields)


def require_new(path: Path) -> Path:
    """Return a path to which nothing has been written yet."""
    if path.exists():
        raise UserError(f"{path} exists, and is not overwritten. Choose another file with --output, or remove it.")
    return path


def _texts(table: Path, rows: pd.DataFrame) -> list[str]:
    """Return the columns of texts, likely ones first."""
    found = [name for name in map(str, rows) if _are_texts(rows[name])]
    if not found:
        values = ", ".join(f"{name}: {rows[name].nunique():,}" for name in rows)
        raise UserError(f"{table} has no column of different texts (different values: {values}); expected one with sentences.")
    return _likely(found, TEXTS)


def _are_texts(cells: pd.Series) -> bool:
    different = cells[cells != ""].drop_duplicates()
    spaced = different.str.contains(r"\w\s+\w|[^\W\d_a-zA-Z]{4}", regex=True)  # or a script that may not separate words
    return len(different) > max(1, len(cells) / FEWEST_OF_LABEL) and spaced.mean() > 0.5


def _labels(table: Path, rows: pd.DataFrame) -> list[str]:
    """Return the columns that may be labels, likely ones first."""
    counts = {name: rows.loc[rows[name] != "", name].nunique() for name in map(str, rows)}
    if one := [name for name in counts if counts[name] == 1 and name.lower() in LABELS]:
        raise UserError(f"{table}: {one[0]} has the same label in all rows; expected at least two labels.")
    found = [name for name in counts if 2 <= counts[name] <= len(rows) / FEWEST_OF_LABEL and (rows[name] != "").mean() > 0.5]
    return _likely(found, LABELS)


def _likely(names: Iterable[str], known: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: known.index(name.lower()) if name.lower() in known else len(known))


def _kept_rows(
    study: Study, rows: pd.DataFrame, label: str = "", rare: Collection[str] = (), may_be_empty: Collection[str] = ()
) -> str:
    """Return the path of the user's table or, if not all rows are used, of a new one beside the configuration.

    Args:
        study: the study.
        rows: the rows, with the columns that the study reads.
        label: the column of labels, of which each keeps the same share of its rows; empty: none.
        rare: labels to leave out.
        may_be_empty: columns that may have empty cells.
    """
    complete = rows[(rows.drop(columns=list(may_be_empty)) != "").all(axis="columns")]
    if len(complete) < len(rows):
        study.found.append(f"left out: {counted(len(rows) - len(complete), 'row')} with empty cells")
    if len(rare):
        study.found.append(f"left out: {counted(len(rare), 'label')} with fewer than {FEWEST_OF_LABEL} rows")
        complete = complete[~complete[label].isin(rare)]
    kept = study.sample(complete[label] if label else pd.Series("", complete.index))
    if len(kept) == len(rows):
        return str(study.place)
    path = require_new(study.file.with_name(f"{study.file.stem}_rows.csv"))
    rows.loc[kept.index].to_csv(path, index=False)
    return str(path)
