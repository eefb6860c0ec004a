"""Compare every file in the results with the checksum recorded when it was written, and say how to
replace damaged ones.
"""

from pathlib import Path

from trueneg.errors import UserError
from trueneg.io.seals import damage, remedy, sealed_files
from trueneg.legible import counted
from trueneg.store.run_store import RunStore

STORES = ("runs", "language_models")


def verify(results: Path) -> tuple[int, str]:
    """Compare the files of jobs, of runs and of language models with their checksums.

    Args:
        results: the results folder.

    Returns:
        The number of damaged files, and a text with a line for each of them that says how to
            replace it.
    """
    files = [
        path
        for path in sealed_files(results, "")
        if path.is_file() and path.relative_to(results).parts[0] not in STORES
    ]
    faults = [
        f"{path} {problem}. {remedy(path)}" for path in files if (problem := damage(results, path))
    ]
    trained = [
        path.parent
        for store in STORES
        for path in sorted((results / store).glob(f"*/{RunStore.RECORD}"))
    ]
    for folder in trained:
        store = RunStore(folder.parent)
        try:
            store.checksum(folder.name)
            for path in store.sealed(folder.name):  # also rows that can be measured again
                store.require_intact(folder.name, path)
        except (UserError, OSError) as error:
            faults.append(str(error))
    verified = (
        f"{counted(len(files), 'file')} and {counted(len(trained), 'trained model')} verified:"
        f" {len(faults)} damaged"
    )
    return len(faults), "\n  ".join([verified, *faults])
