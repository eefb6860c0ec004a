"""Compare every file of the studies with the checksum recorded when it was written, and say how to replace damaged ones."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from trueneg.config.trained_study import TrainedStudy
from trueneg.errors import UserError
from trueneg.io.seals import damage, is_sealed, sealed_files
from trueneg.legible import counted
from trueneg.specs.settings import Study
from trueneg.store.blocks import BLOCK, planned_blocks
from trueneg.store.language_models import read_language_models
from trueneg.store.records import Manifest, read_json
from trueneg.store.run_store import RunStore, fault_of_listed

DATA = ("sources", "pairs", "texts", "benchmarks")  # folders of decoded data, which studies share
# What happens after a damaged file was removed, by a folder in its path.
CONSEQUENCES = {
    **dict.fromkeys(DATA, "the data are decoded again from your files"),
    "text": "the texts are processed again; finished language models and cached scores are reused",
    "subsets": "the subsets are drawn again from the decoded data",
    "manifests": "finished runs are listed again without training",
    "rows": "the block's runs are evaluated again",
    "tuning": "the winners are selected again from the pilots' rows",
    "artefacts": "it is computed again from the rows and runs",
    **dict.fromkeys(("figures", "tables"), "it is drawn again from the artefacts"),
}
ON_DEMAND = (*DATA, "text", "subsets")  # Snakemake makes these files again when a job needs them
IMPORTED = "Files of imported studies: import the exported folder again instead."


def verify(studies: Mapping[str, Study], results: Path) -> tuple[int, str]:
    """Compare the files of studies, the decoded data and the studies' runs and language models with their checksums.

    Args:
        studies: the studies by name.
        results: the results folder.

    Returns:
        The number of damaged or missing files, and a text with a line for each of them that says how to replace it.
    """
    places = ("index.html", *(f"{folder}/" for folder in (*DATA, *studies)))
    files = [path for place in places for path in sealed_files(results, place) if _is_wanted(path, studies, results)]
    faults = [f"{path} {problem}. {_remedy(path, results)}" for path in files if (problem := damage(results, path))]
    store, runs = RunStore(results / "runs"), dict[str, str]()
    for path in (path for name in studies for path in sorted((results / name).glob("manifests/*/*/*.json"))):
        try:
            listed = [] if damage(results, path) else read_json(path, Manifest)["runs"]
            runs |= {run["id"]: runs.get(run["id"]) or fault_of_listed(run, path, store) for run in listed}
        except (UserError, OSError) as error:
            faults.append(str(error))
    faults += filter(None, runs.values())
    faults += [fault for name in studies for fault in _faults_of_models(results / name)]
    written = (path for name in studies for folder in CONSEQUENCES for path in _files(results / name / folder))
    unsealed = sum(not is_sealed(results, path) for path in written)
    lines = [f"{counted(len(files), 'file')} and {counted(len(runs), 'run')} verified: {len(faults)} damaged or missing", *faults]
    if unsealed:
        lines.append(f"{counted(unsealed, 'file')} without a recorded checksum, which cannot be verified")
    if faults and any(store.state(run) == "imported" for run in runs):
        lines.append(IMPORTED)
    return len(faults), "\n  ".join(lines)


def _is_wanted(path: Path, studies: Mapping[str, Study], results: Path) -> bool:
    """Return whether a file exists or, if it is missing, whether the configuration still plans it."""
    top, *parts = path.relative_to(results).parts
    if path.is_file() or not parts:
        return True
    if {top, parts[0]}.intersection(ON_DEMAND):
        return False
    study = studies.get(top)
    if not isinstance(study, TrainedStudy) or len(parts) == 2:  # summaries, figures and tables
        return True
    return Path(*parts).as_posix() in {pattern.format(place) for place in planned_blocks(top, study) for pattern in BLOCK}


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that jobs wrote to a folder of a study, without caches."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name[0] != "." and "cache" not in path.parts and not path.name.endswith(".files.json"):
            yield path


def _remedy(path: Path, results: Path) -> str:
    parts = path.relative_to(results).parts
    consequence = next((CONSEQUENCES[part] for part in parts[:2] if part in CONSEQUENCES), "it is made again")
    remove = f"Remove it and run `snakemake {path}`" if path.is_file() else f"Run `snakemake {path}`"
    return f"{remove} with this configuration: {consequence}."


def _faults_of_models(folder: Path) -> Iterator[str]:
    for manifest in sorted(folder.glob("text/*/language_models/*.json")):
        try:
            read_language_models(manifest)
        except (UserError, OSError) as error:
            yield str(error)
