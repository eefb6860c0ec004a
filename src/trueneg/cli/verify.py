"""Compare every file of the studies with the checksum recorded when it was written, and say how to replace damaged ones."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from trueneg.errors import UserError
from trueneg.io.seals import damage, is_sealed, sealed_files
from trueneg.legible import counted
from trueneg.store.language_models import read_language_models
from trueneg.store.records import Manifest, read_json
from trueneg.store.run_store import RunStore

DATA = ("sources", "pairs", "benchmarks")  # folders of decoded data, which studies share
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


def verify(studies: Iterable[str], results: Path) -> tuple[int, str]:
    """Compare the files of studies, the decoded data and the studies' runs and language models with their checksums.

    Args:
        studies: names of the studies.
        results: the results folder.

    Returns:
        The number of damaged or missing files, and a text with a line for each of them that says how to replace it.
    """
    folders, store = [*DATA, *studies], RunStore(results / "runs")
    files = [path for folder in folders for path in sealed_files(results, f"{folder}/")]
    faults = [f"{path} {problem}. {_remedy(path, results)}" for path in files if (problem := damage(results, path))]
    runs: dict[str, None] = {}
    for path in (path for study in studies for path in sorted((results / study).glob("manifests/*/*/*.json"))):
        if not damage(results, path):
            runs |= {run["id"]: None for run in read_json(path, Manifest)["runs"]}
    faults += [fault for run in runs for fault in _faults_of_run(store, run)]
    for manifest in (path for study in studies for path in (results / study).glob("text/*/language_models/*.json")):
        try:
            read_language_models(manifest)
        except UserError as error:
            faults.append(str(error))
    written = (path for study in studies for form in ("rows/**/*.*", "figures/*.*") for path in (results / study).glob(form))
    unsealed = sum(not is_sealed(results, path) for path in written)
    lines = [f"{counted(len(files), 'file')} and {counted(len(runs), 'run')} verified: {len(faults)} damaged or missing", *faults]
    if unsealed:
        lines.append(f"{counted(unsealed, 'file')} without a recorded checksum: written by an earlier version of TrueNeg")
    return len(faults), "\n  ".join(lines)


def _remedy(path: Path, results: Path) -> str:
    parts = path.relative_to(results).parts
    consequence = next((CONSEQUENCES[part] for part in parts[:2] if part in CONSEQUENCES), "it is made again")
    remove = f"Remove it and run `snakemake {path}`" if path.is_file() else f"Run `snakemake {path}`"
    return f"{remove} with this configuration: {consequence}."


def _faults_of_run(store: RunStore, run: str) -> Iterator[str]:
    if store.state(run) not in RunStore.TRAINED:
        yield f"{store.folder(run)} has no finished run, but manifests list it. {store.removal(run)}"
    elif problem := store.damaged(run):
        yield f"{problem} {store.removal(run)}"
    else:
        try:
            store.checksum(run)
        except UserError as error:
            yield str(error)
