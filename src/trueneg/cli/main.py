"""Write a study of your own data; show planned and existing runs and where results come from;
export, import and convert.
"""

import argparse
import json
import logging
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from trueneg.cli import check, init, verify, why
from trueneg.cli.new_study import TRAINED
from trueneg.cli.pace import Paces
from trueneg.config.reading import read_configuration
from trueneg.errors import UserError
from trueneg.legible import LegibleFormatter, legible, print_traceback
from trueneg.planning.checkout import require_plain_path
from trueneg.report.run_table import as_text, run_table
from trueneg.store import exchange
from trueneg.store.archive import archives
from trueneg.store.protocol import CHECKOUT

DEFAULT = ["config/config.yaml"]
LINE = 120  # characters per line of a table that is not printed in a terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit code: 1 for a user error or damaged files, otherwise
    0.
    """
    options = _parser().parse_args(arguments)
    sys.excepthook = print_traceback
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(LegibleFormatter())
        logging.lastResort.setLevel(logging.INFO)  # if a logger's level is as low
    try:
        return int(bool(options.command(options)))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of our output, such as `head`, has exited
        sys.stderr.close()
        return 0
    except MemoryError:
        print(
            "Out of memory: a file or a setting needs more memory than this machine has.",
            file=sys.stderr,
        )
        return 1


# argparse has no public name for this type
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trueneg", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_check(commands)
    _add_init(commands)
    _add_audit(commands)
    _add_runs_and_why(commands)
    _add_export(commands)
    _add_refit(commands)
    _add_rows(commands)
    _add_convert(commands)
    return parser


def _add_results(command: argparse.ArgumentParser) -> None:
    command.add_argument("--results", type=Path, default=Path("results"), help="results folder")


def _add_check(commands: Commands) -> None:
    checks = commands.add_parser(
        "check",
        help=(
            "show planned, finished and missing runs of a configuration, and the time still needed"
        ),
    )
    checks.add_argument("config", nargs="*", default=DEFAULT, help="configuration files")
    checks.add_argument(
        "--files",
        action="store_true",
        help="compare every file in the results with its recorded checksum instead",
    )
    checks.add_argument(
        "--images",
        action="store_true",
        help="decode all of your own images, not only open the first 20,000",
    )
    checks.add_argument(
        "--time",
        action="store_true",
        help="measure a few updates of each kind of run that has not finished here, and keep them",
    )
    checks.set_defaults(command=_check)
    _add_results(checks)


def _add_init(commands: Commands) -> None:
    forms = "`trueneg init FORM --help` lists the options of a form: columns, --minutes, --output."
    inits = commands.add_parser(
        "init", help="write a study of your own data, sized for a given time", epilog=forms
    ).add_subparsers(required=True, metavar="FORM")
    texts = inits.add_parser(
        "text", help="texts with labels or pairs, in a table or in BEIR's folder"
    )
    pairs = inits.add_parser("pairs", help="images in a folder with texts in a table")
    pictures = inits.add_parser("images", help="images in class folders or parquet files")
    for form, columns in ((texts, init.TEXT_COLUMNS), (pairs, init.PAIR_COLUMNS)):
        form.add_argument("table", type=Path, help="CSV, TSV, JSON lines or parquet")
        for role, of_what in columns.items():
            form.add_argument(f"--{role}", metavar="COLUMN", help=f"column of {of_what}")
    texts.add_argument(
        "--matches",
        metavar="COLUMN=VALUE",
        help="rows whose texts belong together: those with a value in a column, or at least a"
        " number (COLUMN>=NUMBER, or a number with decimals); or all",
    )
    pairs.add_argument(
        "--images", type=Path, required=True, metavar="FOLDER", help="folder of the images"
    )
    pictures.add_argument(
        "folder",
        type=Path,
        help="folder with a subfolder per class, or with train, val and test of this form; parquet"
        " file, or folder of train*.parquet",
    )
    for form in (texts, pictures):
        form.add_argument(
            "--merge-labels",
            action="store_true",
            help="make one label of its spellings: other case, spaces, punctuation, Unicode form",
        )
        form.add_argument(
            "--leave-out",
            action="append",
            default=[],
            metavar="LABEL",
            help="leave out a label, such as unknown, in any spelling (may be repeated)",
        )
    texts.add_argument(
        "--train",
        choices=[*TRAINED],
        default="head",
        help="train a head on the frozen network, in minutes, or all of its layers, which takes an"
        " hour or more without a GPU (default: head)",
    )
    for form, writes in ((texts, _init_text), (pairs, _init_pairs), (pictures, _init_images)):
        form.add_argument(
            "--compare",
            metavar="MODEL",
            help="your current model, to be compared as it is: [LIBRARY:]MODEL[,WEIGHTS], or a file"
            " of vectors",
        )
        form.add_argument(
            "--minutes",
            type=float,
            default=15.0,
            help="approximate duration on all cores of this machine (default: 15)",
        )
        form.add_argument(
            "--output",
            type=Path,
            default=Path("my_study.yaml"),
            help="file to write (default: my_study.yaml)",
        )
        form.set_defaults(command=writes)


def _add_audit(commands: Commands) -> None:
    audits = commands.add_parser(
        "audit", help="say how many negatives of texts or images are false, before training"
    )
    cleans = commands.add_parser("clean", help="write a file without what is false in it")
    table = "texts: CSV, TSV, JSON lines or parquet"
    others = "a folder as BEIR has it, images by class as for `trueneg init images`, or a table of"
    cleans.add_argument("file", type=Path, help=table)
    audits.add_argument(
        "file", type=Path, help=f"{table}; {others} images with captions (--images)"
    )
    for command in (audits, cleans):
        for role in ("text", "positive", "label"):
            of_what = init.TEXT_COLUMNS[role]
            command.add_argument(f"--{role}", metavar="COLUMN", help=f"column of {of_what}")
        command.add_argument(
            "--negative",
            action="append",
            dest="negatives",
            metavar="COLUMN",
            help="column of hard negatives (may be repeated)",
        )
        command.add_argument("--matches", metavar="COLUMN=VALUE", help="as for `trueneg init text`")
        command.add_argument(
            "--encoder",
            metavar="MODEL",
            help="model of sentence-transformers or, of images by class, of timm, or settings of a"
            " tower, as in docs/encoders.md (default: all-MiniLM-L6-v2; of images by class,"
            " tf_efficientnet_lite0)",
        )
        command.add_argument(
            "--ratings",
            type=Path,
            nargs="+",
            metavar="RATED.csv",
            help="ratings of the sample that an audit of this file wrote",
        )
    audits.add_argument(
        "--images", type=Path, metavar="FOLDER", help="folder of the images in a table of captions"
    )
    audits.add_argument("--image", metavar="COLUMN", help=f"column of {init.PAIR_COLUMNS['image']}")
    audits.add_argument(
        "--split", metavar="COLUMN", help="column of your own splits; none: all rows are audited"
    )
    audits.add_argument("--out", type=Path, metavar="FOLDER", help="new folder to write")
    audits.add_argument(
        "--mine", action="store_true", help="look at hard negatives that would be mined instead"
    )
    audits.add_argument(
        "--pairs", type=int, default=120, metavar="N", help="pairs to be rated (default: 120)"
    )
    audits.add_argument(
        "--judge",
        metavar="COMMAND",
        help="command that rates more pairs: it reads JSON lines with pair, anchor, positive and"
        " negative, and writes JSON lines with pair and false",
    )
    audits.add_argument(
        "--judged", type=int, default=2000, metavar="N", help="pairs for a judge (default: 2000)"
    )
    audits.add_argument(
        "--batch", type=int, default=64, metavar="N", help="size of a batch (default: 64)"
    )
    cleans.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    cleans.add_argument("--audit", type=Path, metavar="FOLDER", help="folder of the rated sample")
    cleans.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="also remove hard negatives by max_score, absolute_margin or relative_margin",
    )
    audits.set_defaults(command=_audit)
    cleans.set_defaults(command=_clean)


def _add_runs_and_why(commands: Commands) -> None:
    runs = commands.add_parser(
        "runs", help="list the runs of each study with their state and metrics"
    )
    runs.add_argument("study", nargs="*", help="list only finished runs of these studies")
    runs.add_argument("--sort", metavar="COLUMN", help="sort by a column of the CSV")
    formats = runs.add_mutually_exclusive_group()
    formats.add_argument(
        "--csv",
        metavar="FILE",
        help="write all columns as CSV to a file instead ('-': standard output)",
    )
    runs.set_defaults(command=_runs)
    whys = commands.add_parser(
        "why", help="show the provenance of a result, and whether it is up to date"
    )
    whys.add_argument(
        "result",
        help="a file under results/, a line of a table as FILE.csv:LINE, or the id of a run",
    )
    whys.set_defaults(command=_why)
    for written in (formats, whys):
        written.add_argument(
            "--json", metavar="FILE", help="write JSON to a file instead ('-': standard output)"
        )
    for command in (runs, whys):
        _add_results(command)


def _add_export(commands: Commands) -> None:
    encoders = commands.add_parser(
        "export", help="write a trained encoder with its projection for use elsewhere"
    )
    encoders.add_argument("run", help="id of a finished run, or its first characters")
    encoders.add_argument(
        "folder",
        type=Path,
        help="new folder; the encoders are written to its subfolders image and text",
    )
    encoders.set_defaults(command=_export_encoders)
    _add_results(encoders)


def _add_refit(commands: Commands) -> None:
    refits = commands.add_parser(
        "refit",
        help="train a finished study's method on all of its data, and export the encoder for use",
    )
    refits.add_argument("study", help="name of the study")
    refits.add_argument("folder", type=Path, help="new folder, as for `trueneg export`")
    refits.add_argument("--method", help="objective to train (default: what the study advises)")
    refits.add_argument("--seeds", type=int, default=1, help="number of seeds (default: 1)")
    refits.set_defaults(command=_refit)
    _add_results(refits)


def _add_rows(commands: Commands) -> None:
    actions = commands.add_parser(
        "rows", help="export finished runs without weights, or import them"
    ).add_subparsers(required=True, metavar="ACTION")
    exports = actions.add_parser(
        "export",
        help=(
            "write rows, curves and records of finished, evaluated runs to a folder, and list"
            " missing ones"
        ),
    )
    exports.add_argument("config", nargs="+", help="configuration files")
    exports.add_argument("folder", type=Path, help="folder of the archives, one per study")
    exports.add_argument(
        "--study", action="append", help="export only this study (may be repeated)"
    )
    exports.set_defaults(command=_export)
    imports = actions.add_parser("import", help="add exported studies to the results")
    imports.add_argument("folder", type=Path, help="folder of archives, or one archive")
    imports.set_defaults(command=_import)
    for command in (exports, imports):
        _add_results(command)


def _add_convert(commands: Commands) -> None:
    converts = commands.add_parser(
        "convert",
        help="convert a state dict saved with torch to safetensors; only tensors are read",
    )
    converts.add_argument(
        "source", metavar="IN.pt", help="a state dict, or a checkpoint with `state_dict`"
    )
    converts.add_argument("target", metavar="OUT.safetensors", help="file to write")
    converts.set_defaults(command=_convert)


def _check(options: argparse.Namespace) -> bool:
    require_plain_path(CHECKOUT)
    studies = read_configuration(options.config).studies
    if options.files:
        if options.time or options.images:
            raise UserError("--files compares files alone; leave out --time and --images.")
        faults, text = verify.verify(options.results, studies)
        print(legible(text))
        return faults > 0
    paces = Paces(options.results, measures=options.time)
    is_ready = True
    for name in studies:
        text = check.describe(name, studies, options.results, paces, options.images)
        print(legible(text))
        is_ready = is_ready and "\n  MISSING " not in text
    chosen = "" if options.config == DEFAULT else f" --configfile {shlex.join(options.config)}"
    if is_ready:
        print(legible(f"Nothing is missing. Next: snakemake --cores all{chosen}"))
    return False


def _init_text(options: argparse.Namespace) -> None:
    written = init.init_text(options.table, options.minutes, options.output, vars(options))
    print(legible(written))


def _init_pairs(options: argparse.Namespace) -> None:
    print(
        legible(
            init.init_pairs(
                options.table, options.images, options.minutes, options.output, vars(options)
            )
        )
    )


def _init_images(options: argparse.Namespace) -> None:
    print(legible(init.init_images(options.folder, options.minutes, options.output, vars(options))))


def _audit(options: argparse.Namespace) -> None:
    from trueneg.cli.audit import audit, rated_audit

    folder = options.out or _audit_folder(options)
    if options.mine and (options.ratings or options.judge):
        raise UserError(
            "Ratings are of a sample that an audit wrote, so its --mine is known; leave it out."
        )
    if options.ratings or options.judge:
        lines = iter(rated_audit(options.file, folder, options.ratings or (), options.judge))
    else:
        lines = audit(options.file, folder, vars(options))
    for line in lines:
        print(legible(line), flush=True)


def _clean(options: argparse.Namespace) -> None:
    from trueneg.cli.clean import clean_file

    folder = options.audit or _audit_folder(options)
    print(legible(clean_file(options.file, options.out, folder, vars(options))))


def _audit_folder(options: argparse.Namespace) -> Path:
    return Path(f"{options.file.stem}_audit")


def _runs(options: argparse.Namespace) -> None:
    table = run_table(options.results, options.study)
    if options.sort is not None:
        if options.sort not in table.columns:
            raise UserError(
                f"--sort is {options.sort!r}; expected one of the columns:"
                f" {', '.join(table.columns)}."
            )
        table = table.sort_values(options.sort, kind="stable")
    if options.csv is not None:
        _write(table.to_csv(index=False).rstrip("\n"), options.csv)
    elif options.json is not None:
        _write(table.to_json(orient="records", indent=2), options.json)
    elif table.empty:
        print(
            f"There are no runs{' of ' * bool(options.study)}{', '.join(options.study)} under"
            f" {options.results}."
        )
    else:
        print(legible(as_text(table, shutil.get_terminal_size((LINE, 0)).columns)))


def _why(options: argparse.Namespace) -> None:
    origin = why.provenance_of(options.result, options.results)
    if options.json is not None:
        _write(json.dumps(origin.to_json(), indent=2), options.json)
    else:
        print(legible(why.as_text(origin)))


def _export_encoders(options: argparse.Namespace) -> None:
    from trueneg.cli.model_card import export

    export(options.run, options.folder, options.results)
    print(*sorted(options.folder.iterdir()), sep="\n")


def _refit(options: argparse.Namespace) -> None:
    from trueneg.cli.refit import refit

    if not sys.stderr.isatty():  # a terminal shows a progress bar
        logging.getLogger("trueneg").setLevel(logging.INFO)
    trained = refit(options.study, options.folder, options.method, options.seeds, options.results)
    print(legible(trained))


def _export(options: argparse.Namespace) -> None:
    studies = read_configuration(options.config).studies
    if unknown := set(options.study or ()) - studies.keys():
        raise UserError(
            f"--study is {', '.join(sorted(unknown))}; expected one of: {', '.join(studies)}."
        )
    if options.folder.is_file():
        raise UserError(f"{options.folder} is a file; expected the folder of the archives.")
    said = [
        exchange.export_study(name, studies, options.results, options.folder)
        for name in options.study or studies
    ]
    if not any(said):
        wanted = ", ".join(options.study or studies)
        raise UserError(
            f"{options.results} contains no evaluated runs of {wanted}; run Snakemake first."
        )
    print("\n".join(filter(None, said)))


def _import(options: argparse.Namespace) -> None:
    found = archives(options.folder)
    if not found:
        raise UserError(
            f"{options.folder} contains no exported study; expected a folder of archives that"
            " `trueneg rows export` wrote, or one of them."
        )
    stamp = time.time_ns()
    for path in found:
        print(exchange.import_study(path, options.results, stamp))


def _convert(options: argparse.Namespace) -> None:
    from trueneg.models.weights import convert

    print(f"{options.target}: {convert(options.source, options.target)} tensors.")


def _write(text: str, place: str) -> None:
    if place == "-":
        print(text)
        return
    try:
        Path(place).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{place} cannot be written ({error.strerror}). Choose another file."
        ) from error
