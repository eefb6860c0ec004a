"""Write a study of the user's own data: fill in what the data reveal, and size it to fit a given
time.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import string
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import regex
import yaml

from trueneg.cli.planned_data import DECODED
from trueneg.config.reading import load_configuration
from trueneg.data.image_files import EncodedImages
from trueneg.data.images.image_source import ListedImages
from trueneg.data.images.sources import image_folder
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs import image_table
from trueneg.data.table_formats import SPACE, plain
from trueneg.data.tables import identifier, read_columns
from trueneg.data.user_files import check_own_table
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.store import data_input
from trueneg.text.cleaning import normalised
from trueneg.text.words import UNSPACED, is_mostly_latin

TEMPLATES = Path(__file__).parent / "templates"
# Names that columns often have, likely ones first.
TEXTS = (
    "text",
    "question",
    "sentence",
    "sentence1",
    "query",
    "utterance",
    "anchor",
    "message",
    "caption",
    "report",
)
POSITIVES = (
    "positive",
    "answer",
    "response",
    "reply",
    "passage",
    "document",
    "duplicate",
    "paraphrase",
    "sentence2",
    "text2",
)
LABELS = ("label", "class", "category", "intent", "topic", "target")
GROUPS = ("patient", "patient_id", "subject", "subject_id", "video", "site")
NO_LABELS = ("split", "fold", "language", "lang", "annotator")
# of two letters or more; characters of scripts without spaces
WORDS = regex.compile(rf"\p{{L}}{{2,}}|[{UNSPACED}]")
LOOKED_AT = 500  # texts whose words are counted
FEWEST = 200  # rows or images; with fewer, next to none are held out to measure with
FEWEST_OF_LABEL = 5
FEWEST_GROUPS = 3  # one per split
UNSEEN_FROM = 10  # labels, from which some are kept for the test on labels of no run
FIRST_SEEDS = {"pilots": 900, "seeds": 1000}
# pilot and new ones; the first pair that fits the time is taken, else the last
SEEDS = ((4, 20), (4, 12), (4, 8))
# Processor seconds on a slow Xeon: to start a job, to train and evaluate a run, and to pass a
# sample through the frozen towers.
START = 8.0
RUN = {"text": 4.0, "images": 6.0, "pairs": 8.0}
SAMPLE = {"text": 0.004, "images": 0.1, "pairs": 0.04}
FOR_TOWERS = 0.3  # share of the time
VARIANTS = 4  # of a tuned objective
SMALL = 96  # pixels: side of small images in the frozen tower
USUAL = 160  # of other images


class NewStudy:
    """A study to be written for the user's data.

    Args:
        kind: text, images or pairs.
        place: the user's table or folder.
        minutes: approximate time that the study may take on this machine.
        file: the configuration to write.

    Attributes:
        found: sentences about the data, for the user.
        beside: files or folders of the samples to use, if not all, each with the function that
            writes it.

    Raises:
        UserError: if the file exists, or its folder does not.
    """

    def __init__(self, kind: str, place: Path, minutes: float, file: Path):
        if not 1 <= minutes <= 10_000:
            raise UserError(f"--minutes is {minutes:g}; expected 1 to 10,000.")
        self.kind = kind
        self.place = place
        self.minutes = minutes
        self.file = self.new(file)
        self.found: list[str] = []
        self.beside: dict[Path, Callable[[], Any]] = {}
        self.seconds = 60 * minutes * (os.cpu_count() or 1)

    @staticmethod
    def new(path: Path) -> Path:
        """Return a path to which nothing has been written yet."""
        if not path.parent.is_dir():
            raise UserError(
                f"The folder {path.parent} does not exist. Create it, or choose another file with"
                " --output."
            )
        if path.exists():
            raise UserError(
                f"{path} already exists and is not overwritten. Choose another file with --output,"
                " or remove it."
            )
        return path

    def sample(self, labels: pd.Series, unit: str) -> pd.Series:
        """Draw the samples to keep, the same share of each label but at least five; all if their
        number fits the time.

        Raises:
            UserError: if there are too few.
        """
        if len(labels) < FEWEST:
            left_out = "".join(f"; {said}" for said in self.found if said.startswith("left out"))
            problem = (
                f"{self.place} has {len(labels):,} usable {unit}{left_out}; expected at least"
                f" {FEWEST}"
            )
            raise UserError(
                f"{problem}, because with fewer, almost none would be held out for evaluation."
            )
        most = max(FEWEST, int(FOR_TOWERS * self.seconds / SAMPLE[self.kind]))
        if len(labels) <= most:
            return labels
        shuffled = labels.sample(frac=1, random_state=0)
        places = shuffled.groupby(shuffled).cumcount()
        sizes = shuffled.map(shuffled.value_counts())
        kept = labels[places.lt((sizes * most / len(labels)).clip(lower=FEWEST_OF_LABEL))]
        self.found.append(
            f"{len(kept):,} of {len(labels):,} {unit}, drawn at random, fit the time; --minutes"
            " sets it"
        )
        return kept

    def size(self, tuned: int) -> tuple[int, int, int]:
        """Return the numbers of pilot seeds, of new seeds, and of runs that fit the time; the
        fewest if none do.

        Args:
            tuned: number of tuned objectives; two others are not tuned.
        """
        for pilots, seeds in SEEDS:
            runs = tuned * VARIANTS * pilots + (tuned + 2) * seeds
            needed = RUN[self.kind] * runs + START * 2 * (tuned * VARIANTS + tuned + 2)
            if needed <= (1 - FOR_TOWERS) * self.seconds:
                break
        else:
            minutes = self.minutes * (needed / self.seconds + FOR_TOWERS)
            self.found.append(
                f"the smallest study that can show something takes longer, about {minutes:.0f}"
                " minutes"
            )
        return pilots, seeds, runs

    def write(self, template: str, tuned: int, **fields: Any) -> str:
        """Write the configuration and the files beside it; return what was found, and the next
        commands.

        Args:
            template: name of the template.
            tuned: number of its tuned objectives; two others are not tuned.
            fields: values of its placeholders.
        """
        pilots, seeds, runs = self.size(tuned)
        for stage, count in (("pilots", pilots), ("seeds", seeds)):
            fields[stage] = list(range(FIRST_SEEDS[stage], FIRST_SEEDS[stage] + count))
        stem = re.sub(r"\W+", "_", self.file.stem, flags=re.ASCII).strip("_").removeprefix("my_")
        # no name of a shipped study
        name = f"my_{stem or format(zlib.crc32(self.file.stem.encode()), '08x')}"
        fields["title"] = self.place.resolve().stem
        values = {key: json.dumps(value, ensure_ascii=False) for key, value in fields.items()}
        text = string.Template((TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8"))
        file = shlex.quote(str(self.file))
        written = text.substitute(values, name=name, file=file)
        studies: Any = load_configuration(yaml.safe_load(written), str(self.file)).studies
        study = studies[name]
        try:
            for write in self.beside.values():
                write()
            skipped = check_own_table(
                data_input.of_dataset(study, study.dataset.model_dump(mode="json"), studies)
            )
            self.found += filter(None, [skipped])
            self.file.write_text(written, encoding="utf-8")
        except (UserError, OSError) as error:
            for path in self.beside:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            if isinstance(error, UserError):
                raise
            place = error.filename or self.file
            raise UserError(
                f"{place} cannot be written ({error.strerror}). Choose another file with --output."
            ) from error
        about = (
            f"{runs} short runs: {pilots} pilot seeds tune the temperatures, {seeds} new seeds"
            " compare the methods"
        )
        methods = f"compared: {', '.join(study.objectives)} ({self.file} explains them)"
        commands = [f"    trueneg check {file}", f"    snakemake --cores all --configfile {file}"]
        return "\n".join(
            [
                *self.found,
                methods,
                about,
                f"Wrote {self.file}. Next, in a clone of TrueNeg:",
                *commands,
            ]
        )

    def kept_rows(
        self,
        rows: pd.DataFrame,
        needed: Sequence[str],
        label: str | None = None,
        unit: str | None = None,
        usable: pd.Series | None = None,
    ) -> tuple[str, pd.DataFrame]:
        """Return the path of the user's table or, if not all rows are used, of a new one to be
        written; and these rows.

        Args:
            rows: all rows.
            needed: columns that must not be empty.
            label: the column of labels; those with fewer than five rows are left out.
            unit: the column whose values are sampled, with all of their rows; None: rows are
                sampled.
            usable: bool, whether a row can be used; None: all can.
        """
        complete = rows[(rows[list(needed)].map(plain) != "").all(axis="columns")]
        if len(needed) > 1 and label is None and unit is None:  # pairs of texts
            complete = complete[
                complete[needed[0]].map(normalised) != complete[needed[1]].map(normalised)
            ]
        if len(complete) < len(rows):
            self.found.append(
                f"left out: {counted(len(rows) - len(complete), 'row')} with empty cells or equal"
                " texts"
            )
        complete = complete if usable is None else complete[usable[complete.index]]
        labels = pd.Series("", complete[unit].unique() if unit else complete.index)
        if label:
            labels = complete[label]
            common = labels.value_counts().loc[lambda sizes: sizes >= FEWEST_OF_LABEL].index
            if rare := labels.nunique() - len(common):
                self.found.append(
                    f"left out: {counted(rare, 'label')} with fewer than {FEWEST_OF_LABEL} rows"
                )
            labels = labels[labels.isin(common)]
            if len(common) == 1:
                problem = f"{self.place}: {label} has one label with {FEWEST_OF_LABEL} rows or more"
                raise UserError(f"{problem}; expected at least two.")
        kept = self.sample(labels, "images" if unit else "rows").index
        used = complete[complete[unit].isin(kept)] if unit else complete.loc[kept]
        if len(used) == len(rows):
            return str(self.place), used
        path = self.new(self.file.with_name(f"{self.file.stem}_rows.csv"))
        # A lone \r in a cell would be written without quotation marks if lines ended otherwise.
        self.beside[path] = lambda: used.to_csv(path, index=False, lineterminator="\r\n")
        return str(path), used

    def describe(
        self, rows: pd.DataFrame, column: str, role: str, others: Iterable[str] = ()
    ) -> None:
        """Say which column has a role, with an example, which others could have it, and whether the
        encoder knows its script.
        """
        example = plain(next(iter(rows.loc[rows[column] != "", column]), ""))
        possible = ", ".join(name for name in others if name != column)
        choice = possible and f" (also possible: {possible}; choose with --{role.rstrip('s')})"
        self.found.append(
            f"{role}: {column}, such as {json.dumps(example[:60], ensure_ascii=False)}{choice}"
        )
        if role == "texts" and not is_mostly_latin(rows[column].head(LOOKED_AT)):
            remedy = (
                "set the model of text_encoder to a multilingual one, such as"
                " paraphrase-multilingual-MiniLM-L12-v2"
            )
            self.found.append(
                f"most letters are not Latin, but all-MiniLM-L6-v2 is an English model: {remedy}"
            )


def init_text(
    table: Path,
    minutes: float,
    file: Path,
    text: str | None = None,
    label: str | None = None,
    positive: str | None = None,
) -> str:
    """Write a study of the texts in a table, which have labels or come in pairs.

    Args:
        table: the table.
        minutes: approximate time that the study may take on this machine.
        file: the configuration to write; rows that are kept, if not all of them, are written beside
            it.
        text, label, positive: columns; None: found by their names and contents.

    Returns:
        What was found in the data, and the next commands.

    Raises:
        UserError: if the data cannot show what a correction gains, columns are ambiguous, or a file
            exists.
    """
    if label is not None and positive is not None:
        raise UserError(
            f"--label is {label} and --positive is {positive}; expected one of them: texts with"
            " labels, or pairs."
        )
    study = NewStudy("text", table, minutes, file)
    rows = read_columns(table, None)
    texts = _texts(table, rows, text)
    partners = _known(texts[1:], POSITIVES) if positive is None else []
    named = _known([name for name in _names(rows) if name not in texts], LABELS)
    if label is None and positive is None:
        label = _label(table, rows, texts, partners, named)
    study.describe(
        rows,
        texts[0],
        "texts",
        [] if text else [name for name in texts if name not in (positive, *partners)],
    )
    if label is None:
        positive = positive or partners[0]
        study.describe(rows, _present(table, rows, positive), "positives", partners)
        path, _ = study.kept_rows(rows, [texts[0], positive])
        return study.write("text_pairs", 3, table=path, text=texts[0], positive=positive)
    study.describe(rows, _present(table, rows, label), "labels", named if label in named else [])
    rows[label] = rows[label].map(identifier)  # as the study reads labels
    sizes = rows.loc[rows[label] != "", label].value_counts()
    if len(sizes) < 2:
        raise UserError(
            f"{table}: {label} has the same label in all rows; expected at least two labels."
        )
    study.found.append(f"{len(sizes):,} labels of {sizes.min():,} to {sizes.max():,} rows")
    path, used = study.kept_rows(rows, [texts[0], label], label)
    common = used[label].nunique()
    unseen = common // 5 if common >= UNSEEN_FROM else 0
    sets = (
        {"train": common - 2 * unseen, "validation_unseen": unseen, "test_unseen": unseen}
        if unseen
        else None
    )
    return study.write("text_labels", 4, table=path, text=texts[0], label=label, labels=sets)


def init_images(folder: Path, minutes: float, file: Path) -> str:
    """Write a study of a folder's images, as :func:`init_text`; if only some are kept, they are
    linked in a folder next to it.
    """
    study = NewStudy("images", folder, minutes, file)
    listed = image_folder.listed(folder)
    split = (
        pd.Series("train", range(len(listed.labels)))
        .mask(listed.is_validation, "val")
        .mask(listed.is_test, "test")
    )
    classes = pd.Series(listed.labels).map(dict(enumerate(listed.class_names)))
    sizes = classes[~listed.is_test].value_counts().reindex(listed.class_names, fill_value=0)
    between = f"{sizes.min():,} to {sizes.max():,} each"
    study.found.append(
        f"{len(split):,} images of {len(sizes):,} classes with {between} (without test images)"
    )
    rare = sizes[sizes < FEWEST_OF_LABEL].index
    sizes = sizes[sizes >= FEWEST_OF_LABEL]
    if len(rare):
        few = f"{counted(len(rare), 'class folder')} with fewer than {FEWEST_OF_LABEL} images"
        study.found.append(f"left out: {few}, such as {rare[0]}")
    if len(sizes) == 1:
        raise UserError(
            f"{folder} has one class with {FEWEST_OF_LABEL} images or more; expected at least two."
        )
    kept = study.sample((split + "/" + classes)[~classes.isin(rare)], "images")
    paths = listed.images.places
    sampled = file.with_name(f"{file.stem}_images")

    def link() -> None:
        for place, where in kept.items():
            target = sampled / where / f"{place}{paths[place].suffix}"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(paths[place].resolve())

    if len(kept) < len(split):
        folder = study.new(sampled)
        study.beside[sampled] = link
    resolution = _resolution(listed.images)
    shared = _shared_images(listed.part(kept.index.tolist()), resolution)
    if shared:
        study.found.append(f"WARNING {shared}")
    return study.write(
        "images",
        4,
        folder=str(folder),
        leakage="leave_out" if shared else None,
        group="macro" if sizes.max() > 1.5 * sizes.min() else None,
        resolution=resolution,
        test=None if listed.is_test.any() else 0.2,
    )


def _shared_images(listed: ListedImages, resolution: int) -> str:
    """Return a sentence about images that the folder's own splits share, which are to be left out
    of training; empty if there are none.

    Raises:
        UserError: if a class then has too few images.
    """
    from trueneg.data.images.pixels import decoded_source, undecoded_source

    if not (listed.is_test.any() or listed.is_validation.any()):
        return ""
    source = undecoded_source("images", listed)
    if len(listed.images) <= DECODED:
        with contextlib.suppress(UserError):  # the check lists images that cannot be decoded
            source = decoded_source("images", listed, place=None, resolution=resolution)
    return make_subset(source, seed=0, leakage="leave_out").leakage


def _resolution(images: EncodedImages) -> int:
    """Return the resolution at which a frozen tower sees images of the first one's size."""
    from trueneg.data.decoding import UnreadableImageError, open_image

    try:
        small = max(open_image(next(images.part([0]).read())).size) <= SMALL
    except UnreadableImageError:  # the check lists such images
        return USUAL
    return SMALL if small else USUAL


def init_pairs(
    table: Path, folder: Path, minutes: float, file: Path, text: str | None = None
) -> str:
    """Write a study of the images in a folder and their texts in a table, as :func:`init_text`."""
    study = NewStudy("pairs", table, minutes, file)
    rows = read_columns(table, None)
    if not folder.is_dir():
        raise UserError(f"--images is {folder}; expected the folder of the images in {table}.")
    images = _images(table, rows)
    image, *others = images
    # as the study reads names
    rows[image] = rows[image].map(lambda name: image_table.relative(name, folder))
    found = image_table.files_of(folder, filter(None, rows[image].unique()))
    lacking = [name for name, files in found.items() if not files]
    if len(lacking) == len(found):
        raise UserError(
            f"{folder} lacks all {len(found):,} images in {table}, such as"
            f" {next(iter(found), 'none')}; fix --images."
        )
    texts = _texts(table, rows.drop(columns=images), text)
    groups = _known([name for name in _names(rows) if name not in (image, texts[0])], GROUPS)
    for name in groups:
        rows[name] = rows[name].map(identifier)
    group = next((name for name in groups if rows[name].nunique() >= FEWEST_GROUPS), None)
    study.describe(rows, texts[0], "texts", [] if text else texts)
    unused = f" (other columns of images are not used: {', '.join(others)})"
    study.found.append(f"images: {image}, {len(found):,} of them{unused if others else ''}")
    if lacking:
        study.found.append(
            f"left out: {counted(len(lacking), 'image')} that are not in {folder}, such as"
            f" {lacking[0]}"
        )
    repeated = rows[image].ne("") & rows.assign(
        **{texts[0]: rows[texts[0]].str.strip(SPACE)}
    ).duplicated([image, texts[0]])
    if repeated.any():
        study.found.append(
            f"left out: {counted(int(repeated.sum()), 'row')} that repeat an image and its text"
        )
    usable = ~rows[image].isin(["", *lacking]) & ~repeated
    path, used = study.kept_rows(
        rows, [image, texts[0], *([group] if group else [])], unit=image, usable=usable
    )
    few = f", because {groups[0]} has fewer than {FEWEST_GROUPS} groups" if groups else ""
    study.found.append(
        f"{used[group].nunique():,} groups in {group}, none of which is in two splits"
        if group
        else f"each image is its own group{few}"
    )
    labels = [
        name
        for name in _names(rows)
        if name not in (*images, texts[0], group, "")
        and _is_label(used, name, image, group or image)
    ]
    study.found.append(f"labels: {', '.join(labels) or 'none'}")
    return study.write(
        "pairs",
        3,
        folder=str(folder),
        table=path,
        image=image,
        text=texts[0],
        patient=group,
        labels=labels,
    )


def _images(table: Path, rows: pd.DataFrame) -> list[str]:
    """Return the columns of image file names."""
    images = [
        name
        for name in _names(rows)
        if rows[name].str.strip(SPACE).str.lower().str.endswith(image_folder.IMAGES).mean() > 0.9
    ]
    if not images:
        expected = "a column of image file names, such as 2024/0017.png"
        raise UserError(
            f"{table} has the columns {', '.join(_names(rows))}; expected {expected}. Add one"
            " (docs/own-data.md)."
        )
    return images


def _is_label(rows: pd.DataFrame, column: str, image: str, group: str) -> bool:
    """Whether a column has 1, 0 or nothing, the same in all rows of an image, and each of 1 and 0
    in two groups or more.
    """
    cells = rows[column].map(image_table.label)
    groups = rows[group].groupby(cells).nunique()
    differing = cells.groupby(rows[image]).nunique().max() > 1
    return (
        set(cells) <= {"", "0", "1"}
        and not differing
        and min(groups.get("0", 0), groups.get("1", 0)) > 1
    )


def _names(rows: pd.DataFrame) -> list[str]:
    return [str(name) for name in rows]


def _present(table: Path, rows: pd.DataFrame, column: str) -> str:
    if column not in rows:
        raise UserError(
            f"{table} has no column {column}; expected one of: {', '.join(_names(rows))}."
        )
    return column


def _texts(table: Path, rows: pd.DataFrame, chosen: str | None) -> list[str]:
    """Return the columns of texts: the chosen one, those with well-known names, and those with more
    words, in this order.
    """
    length: dict[str, float] = {}
    for name in _names(rows):
        cells = rows.loc[rows[name] != "", name].drop_duplicates()
        count = cells.head(LOOKED_AT).map(lambda cell: len(WORDS.findall(cell))).mean()
        if len(cells) > max(1, len(rows) / FEWEST_OF_LABEL) and count >= 2:
            length[name] = count
    longest_first = sorted(length, key=lambda name: -length[name])
    found = list(dict.fromkeys([*_known(longest_first, TEXTS), *longest_first]))
    if chosen is not None:
        return [_present(table, rows, chosen), *(name for name in found if name != chosen)]
    if not found:
        values = ", ".join(f"{name}: {rows[name].nunique():,}" for name in _names(rows))
        problem = (
            f"{table} has no column of different texts with several words each (different values:"
            f" {values})"
        )
        raise UserError(f"{problem}. If a column does contain texts, choose it with --text.")
    return found


def _label(
    table: Path, rows: pd.DataFrame, texts: list[str], partners: list[str], named: list[str]
) -> str | None:
    """Return the column of the labels; None if the texts come in pairs.

    Args:
        table: the table.
        rows: its rows.
        texts: columns of texts.
        partners: those whose names say that they are paired with the first.
        named: columns whose names say that they hold labels.

    Raises:
        UserError: if both are possible, or neither.
    """
    if named and partners:
        problem = (
            f"{table} has labels in {named[0]}, and texts that may be paired with {texts[0]} in"
            f" {partners[0]}"
        )
        raise UserError(
            f"{problem}. Choose what belongs together with --label {named[0]} or --positive"
            f" {partners[0]}."
        )
    if named or partners:
        return next(iter(named), None)
    label = _unnamed_label(table, rows.drop(columns=texts))
    if label is None:
        others = f"; possible columns of positives: {', '.join(texts[1:])}" if texts[1:] else ""
        problem = (
            f"{table} has texts in {texts[0]}, but no labels (columns:"
            f" {', '.join(_names(rows))}{others})"
        )
        raise UserError(
            f"{problem}, so it is unknown which texts belong together. Choose a column with --label"
            " or --positive, or add one."
        )
    return label


def _unnamed_label(table: Path, rows: pd.DataFrame) -> str | None:
    """Return the only column that could hold labels, if any."""
    counts = {
        name: rows.loc[rows[name] != "", name].nunique()
        for name in _names(rows)
        if name.lower() not in NO_LABELS
    }
    numbers = {name for name in counts if rows[name].str.fullmatch(r"[\d\s.,:/+-]*").all()}
    found = [
        name
        for name in counts
        if name not in numbers and 2 <= counts[name] <= len(rows) / FEWEST_OF_LABEL
    ]
    if len(found) > 1:
        raise UserError(
            f"{table} has several columns that may contain labels: {', '.join(found)}. Choose one"
            " with --label."
        )
    return next(iter(found), None)


def _known(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the names that are known, likely ones first."""
    return sorted(
        (name for name in names if name.lower() in known),
        key=lambda name: known.index(name.lower()),
    )
