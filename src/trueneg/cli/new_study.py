"""A study that ``trueneg init`` writes, sized to fit a given time."""

import json
import os
import re
import shlex
import shutil
import string
import zlib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trueneg.cli.columns import FEWEST_OF_LABEL, UserTable
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, towers_of
from trueneg.data.user_files import check_own_table
from trueneg.errors import UserError
from trueneg.legible import escape_control_characters
from trueneg.specs.kinds.trained import UNTRAINED, TrainedStudy
from trueneg.specs.sections import Section
from trueneg.store import data_input

TEMPLATES = Path(__file__).parent / "templates"
FEWEST = 200  # rows or images; with fewer, next to none are held out to measure with
FIRST_SEEDS = {"pilots": 900, "seeds": 1000}
# pilot and new ones; the first pair that fits the time is taken, else the last
SEEDS = ((4, 20), (4, 12), (4, 8))
# Processor seconds on a slow Xeon: to start a job, to train and evaluate a run, and to pass a
# sample through the frozen towers.
START = 8.0
RUN = {"text": 4.0, "images": 6.0, "pairs": 8.0}
RUN_ALL = 60.0  # with all layers, and texts of about 16 tokens: 42 updates took 46 on an AMD EPYC
SAMPLE = {"text": 0.004, "images": 0.1, "pairs": 0.04}
FOR_TOWERS = 0.3  # share of the time
HELD_OUT = {"test": 0.2, "validation": 0.1}  # shares of the samples without splits of their own
VARIANTS = 4  # of a tuned objective
UNTUNED = 4  # at most: untrained, a control, and CL at the temperature of both methods
COMPARED = "compared"  # the objective that evaluates the user's own model
# how texts are trained on, by what is trained; all layers: about an epoch of 1,500 texts
TRAINED: dict[str, dict[str, Any]] = {
    "head": {
        "train": "none",
        "head": "residual",
        "updates": 100,
        "batch_size": 64,
        "learning_rate": 3e-4,
        "seeds_per_job": 20,
    },
    "all": {
        "train": "all",
        "head": "none",
        "updates": 50,
        "batch_size": 32,
        "learning_rate": 1e-4,
        "seeds_per_job": 4,
    },
}
# of the user's own model: its library by default, its sections, and the name of the objective
OWN = {
    "text": ("sentence_transformers", ("text_encoder",), UNTRAINED),
    "images": ("timm", ("encoder",), UNTRAINED),
    "pairs": ("open_clip", ("encoder", "text_encoder"), "released"),
}
LIBRARIES = ("sentence_transformers", "timm", "open_clip")
VECTORS = (".npy", ".safetensors", ".parquet")


class NewStudy:
    """A study to be written for the user's data.

    Args:
        kind: text, images or pairs.
        place: the user's table or folder.
        minutes: approximate time that the study may take on this machine.
        file: the configuration to write.
        trained: what is trained of texts: a head on a frozen network, or all of its layers
            (:data:`TRAINED`).

    Attributes:
        found: sentences about the data, for the user.
        held_out: share of the samples that each seed holds out for testing and for validation;
            without effect where the user did.
        seconds: processor time that is left for the runs.
        beside: files or folders to write for the study, each with the function that writes it,
            given the settings of the data.
        compared: the objective that evaluates the user's own model; empty: there is none.

    Raises:
        UserError: if the file exists, or its folder does not.
    """

    def __init__(self, kind: str, place: Path, minutes: float, file: Path, trained: str = "head"):
        if not 1 <= minutes <= 10_000:
            raise UserError(f"--minutes is {minutes:g}; expected 1 to 10,000.")
        self.kind = kind
        self.place = place
        self.minutes = minutes
        self.file = self.new(file)
        self.found: list[str] = []
        self.beside: dict[Path, Callable[[Section], Any]] = {}
        self.compared: dict[str, Any] = {}
        self.held_out = dict(HELD_OUT)
        self.trained = trained
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

    def sample(self, labels: pd.Series, splits: pd.Series, unit: str) -> pd.Series:
        """Draw the samples to keep: all that are held out, and as many training samples as fit the
        time, the same share of each label but at least five.

        Args:
            labels: label of each sample.
            splits: the user's split of each sample; empty: drawn by each seed.
            unit: rows or images.

        Raises:
            UserError: if there are too few.
        """
        if len(labels) < FEWEST:
            left_out = "".join(f"; {line}" for line in self.found if line.startswith("left out"))
            problem = (
                f"{self.place} has {len(labels):,} usable {unit}{left_out}; expected at least"
                f" {FEWEST}"
            )
            raise UserError(
                f"{problem}, because with fewer, almost none would be held out for evaluation."
            )
        free = labels[~splits.isin(HELD_OUT)]
        undrawn = HELD_OUT.keys() - set(splits)
        drawn = sum(map(HELD_OUT.__getitem__, undrawn)) * len(free)
        most = FOR_TOWERS * self.seconds / SAMPLE[self.kind] - (len(labels) - len(free))
        most = max(most, 2 * drawn, FEWEST)
        if most < len(free):
            shuffled = free.sample(frac=1, random_state=0)
            places = shuffled.groupby(shuffled).cumcount()
            sizes = shuffled.map(shuffled.value_counts())
            is_kept = places < (sizes * most / len(free)).clip(lower=FEWEST_OF_LABEL)
            labels = labels.drop(is_kept.index[~is_kept])
            larger = len(free) / is_kept.sum()
            self.held_out |= {name: round(HELD_OUT[name] * larger, 4) for name in undrawn}
            self.found.append(
                f"left out: {(~is_kept).sum():,} {unit} to train on, drawn at random, to fit the"
                f" time (--minutes); {drawn + splits.isin(HELD_OUT).sum():,.0f} are held out"
            )
        self.seconds -= SAMPLE[self.kind] * len(labels)
        return labels

    def compare(self, model: str | None) -> Path | None:
        """Add the user's own model, ``[LIBRARY:]MODEL[,WEIGHTS]``; return the path of vectors in
        its place, if the name is one of a file.
        """
        if model is None:
            return None
        library, sections, objective = OWN[self.kind]
        prefix, _, rest = model.partition(":")
        if prefix in LIBRARIES:
            library, model = prefix, rest
        name, _, weights = model.partition(",")
        tower = {"name": library, "model": name, "train": "none"}
        if weights:
            tower["weights"] = weights
        is_file = Path(name).suffix in VECTORS and not weights
        if is_file:
            tower = {"name": "vectors", "path": name}
        self.compared = {"name": objective} | dict.fromkeys(sections, tower)
        if not is_file and "text_encoder" in sections:
            self.compared["text_encoder"] = tower | {"truncate": True}
        return Path(name) if is_file else None

    def size(self, tuned: int) -> tuple[int, int, int]:
        """Return the numbers of pilot seeds, of new seeds, and of runs that fit the time; the
        fewest if none do.

        Args:
            tuned: number of tuned objectives; up to four others are not.
        """
        if self.trained == "all":
            self.found.append(
                "all layers are trained: about a minute a run for texts of 16 tokens, longer for"
                " longer ones (trueneg check --time measures it)"
            )
        for pilots, seeds in SEEDS:
            runs = tuned * VARIANTS * pilots + (tuned + UNTUNED + bool(self.compared)) * seeds
            of_run = RUN_ALL if self.trained == "all" else RUN[self.kind]
            needed = of_run * runs + START * 2 * (tuned * VARIANTS + tuned + UNTUNED)
            if needed <= self.seconds:
                break
        else:
            minutes = self.minutes + (needed - self.seconds) / 60 / (os.cpu_count() or 1)
            self.found.append(
                f"the smallest study that can show something takes longer, about {minutes:.0f}"
                " minutes on all cores; to shorten it, reduce training.updates in the file, or"
                " remove an objective"
            )
        return pilots, seeds, runs

    def write(
        self,
        template: str,
        tuned: int,
        shared: Callable[[Section], str] = lambda settings: "",
        **fields: Any,
    ) -> str:
        """Write the configuration and the files beside it; return what was found, and the next
        commands.

        Args:
            template: name of the template.
            tuned: number of its tuned objectives; two others are not tuned.
            shared: returns a sentence about what the user's own splits share, which is then left
                out of training; empty if nothing.
            fields: values of its placeholders.
        """
        pilots, seeds, runs = self.size(tuned)
        for stage, count in (("pilots", pilots), ("seeds", seeds)):
            fields[stage] = list(range(FIRST_SEEDS[stage], FIRST_SEEDS[stage] + count))
        stem = re.sub(r"\W+", "_", self.file.stem, flags=re.ASCII).strip("_").removeprefix("my_")
        # no name of a shipped study
        name = f"my_{stem or format(zlib.crc32(self.file.stem.encode()), '08x')}"
        defaults = TRAINED[self.trained] | {"title": self.place.resolve().stem, "leakage": None}
        text = string.Template((TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8"))
        file = shlex.quote(str(self.file))

        def written() -> str:
            values = {
                key: json.dumps(value, ensure_ascii=False)
                for key, value in (defaults | self.held_out | fields).items()
            }
            about = [f"# {escape_control_characters(line)}" for line in self.found]
            content = text.substitute(values, name=name, file=file, found="\n".join(about))
            return self._with_compared(content, yaml.safe_load(content)[name])

        studies: Any = load_configuration(yaml.safe_load(written()), str(self.file)).studies
        study = _with_libraries(name, studies[name])
        data = data_input.of_dataset(study, study.dataset.model_dump(mode="json"), studies)
        try:
            for write in self.beside.values():
                write(data.settings)
            self.found += filter(None, [check_own_table(data)])
            if sentence := shared(data.settings):
                self.found.append(f"WARNING {sentence}")
                fields["leakage"] = "leave_out"
            self.file.write_text(written(), encoding="utf-8")
        except (UserError, OSError) as error:
            for path in self.beside:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            if isinstance(error, UserError):
                raise
            place = error.filename or self.file
            raise UserError(
                f"{place} cannot be written ({error.strerror}). Choose another file with --output."
            ) from error
        runs_of = (
            f"{runs} short runs: {pilots} pilot seeds tune the temperatures, {seeds} new seeds"
            " compare the methods"
        )
        methods = f"compared: {', '.join(study.objectives)} ({self.file} explains them)"
        return "\n".join(
            [
                *self.found,
                methods,
                runs_of,
                f"Wrote {self.file}. Next, in a clone of TrueNeg:",
                f"    trueneg check {file}",
                f"    snakemake --cores all --configfile {file}",
            ]
        )

    def _with_compared(self, content: str, study: Section) -> str:
        """Add the user's own model to the text of a study, and contrasts with it."""
        if not self.compared:
            return content
        primary = study["primary"]
        contrasts = [(primary[side], COMPARED) for side in ("baseline", "treatment")]
        if UNTRAINED in OWN[self.kind]:
            contrasts.append((COMPARED, UNTRAINED))
        lines = [
            f"    - {{treatment: {treatment}, baseline: {baseline}, family: {COMPARED}}}\n"
            for treatment, baseline in contrasts
        ]
        objective = f"\n    {COMPARED}: {json.dumps(self.compared)} # your own, as it is"
        return content.replace("\n  tuning:", f"{objective}\n  tuning:", 1) + "".join(lines)

    def rows(self, table: UserTable, label: str | None = None, unit: str | None = None) -> str:
        """Return the path of the user's table or, if not all rows are used, of a new one to be
        written.

        Args:
            table: the table, with the rows that can be used.
            label: the column of labels, of which the same share is drawn.
            unit: the column whose values are drawn, with all of their rows; None: rows are drawn.
        """
        usable = table.rows[table.usable]
        splits = table.splits[usable.index]
        splits = splits.groupby(usable[unit] if unit else usable.index, sort=False).first()
        labels = usable[label] if label else pd.Series("", splits.index)
        kept = self.sample(labels, splits[labels.index], "images" if unit else "rows").index
        used = usable[usable[unit].isin(kept)] if unit else usable.loc[kept]
        table.usable = pd.Series(table.rows.index.isin(used.index), table.rows.index)
        self.found.append(f"{len(used):,} of {len(table.rows):,} rows are used")
        if len(used) == len(table.rows) and not table.chosen.get("merge_labels"):
            return str(self.place)
        path = self.new(self.file.with_name(f"{self.file.stem}_rows.csv"))
        # A lone \r in a cell would be written without quotation marks if lines ended otherwise.
        self.beside[path] = lambda _: used.to_csv(path, index=False, lineterminator="\r\n")
        return str(path)


def _with_libraries(name: str, study: TrainedStudy) -> TrainedStudy:
    """Return the study, or refuse one whose towers need a library that is not installed."""
    installed = {*packages_distributions(), "vectors"}
    missing = {
        tower["name"]
        for run in all_runs(name, study)
        for tower in towers_of(run.settings).values()
        if tower["name"] not in installed
    }
    if missing:
        raise UserError(
            f"{' and '.join(sorted(missing))} is not installed, but the study's networks need it;"
            " install it with: pip install 'trueneg[pretrained]'."
        )
    return study
