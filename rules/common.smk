# The validated configuration, and functions that the rules share. Nothing here imports torch or looks for devices: the plan is the
# same on a laptop and on the login node of a cluster.

import atexit
import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from trueneg.planning.corpora import Corpora
from trueneg.planning.folder_lock import describe_lock, record_owner
from trueneg.runtime.jobs import SNAKEMAKE, failed_jobs
from trueneg.planning.readings import Readings
from trueneg.planning.trainings import Trainings
from trueneg.config.reading import load_configuration
from trueneg.config.theory_study import TheoryStudy
from trueneg.errors import UserError
from trueneg.report import registry, findings
from trueneg.report.published import published_numbers
from trueneg.store import versions
from trueneg.store.protocol import committed_protocol
from trueneg.store.run_store import RunStore

# Priority of the steps before training. Training jobs have priorities from 1 to 9, and the steps after training have 0.
BEFORE_TRAINING = 10

PUBLISHED = Path(workflow.basedir) / "config" / "published.csv"

# The default configuration is read only without --configfile: otherwise Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: Path(workflow.basedir) / "config" / "config.yaml"


try:
    files = ", ".join(map(str, workflow.configfiles))
    configuration = load_configuration(config, files)
    trainings, corpora = Trainings(configuration), Corpora(configuration)
    readings = Readings(trainings, corpora)
    for study in trainings.studies.values():
        published_numbers(
            study, PUBLISHED
        )  # raises an error if a study names numbers that are not in the papers
    protocols = {
        name: committed_protocol(
            name, study.protocol, evidence=Path(workflow.basedir) / "evidence"
        )
        for name, study in trainings.studies.items()
    }
except UserError as error:
    raise WorkflowError(f"The configuration is invalid.\n{error}")

# For reports, logs and plugins. Jobs that Snakemake starts in other processes resolve the configuration again.
config.clear()
config.update(configuration.resolved())

os.environ[SNAKEMAKE] = str(os.getpid())

if workflow.is_main_process:
    print(describe_lock(), end="", file=sys.stderr)

STUDIES = configuration.studies
THEORY = [name for name, study in STUDIES.items() if isinstance(study, TheoryStudy)]


def any_of(names):
    """Return a wildcard constraint that matches only the given names, or nothing if there are none."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


def setting(place, **found):
    """Return a function that looks up a setting, such as {study}/training/threads, by the wildcards of a job.

    `found` are functions that return further placeholders of `place`, given the wildcards. Snakemake's lookup() is slower: it searches the whole configuration.
    """

    def of_job(wildcards):
        names = {name: function(wildcards) for name, function in found.items()}
        value = config
        for key in place.split("/"):
            value = value[key.format(**wildcards, **names)]
        return value

    return of_job


def protocol(wildcards):
    """Return the committed protocol of a study, or None."""
    return protocols[wildcards.study]


def experiments(wildcards):
    """Return the settings that the experiments of a study share."""
    return config[wildcards.study]["process"] | config[wildcards.study]["sweeps"]


def growing(section, gpus=None, **found):
    """Return a job's resources from a section of the configuration; memory and time are multiplied by the attempt number.

    `gpus` is a function that returns the number of GPUs; without it, the job uses none. $TRUENEG_GRES, such as gpu:a100, is for clusters
    that take --gres instead of --gpus.
    """

    def of_attempt(key):
        first = setting(f"{section}/{key}", **found)

        def asked(wildcards, attempt):
            return first(wildcards) * attempt

        return asked

    def as_gres(wildcards):
        return f"{gres}:{gpus(wildcards)}" if gpus(wildcards) else None

    gres = os.environ.get("TRUENEG_GRES")
    asked = {"mem_mb": of_attempt("mem_mb"), "runtime": of_attempt("runtime")}
    return asked | ({"gres": as_gres} if gres else {"gpu": gpus}) if gpus else asked


def raised(*names):
    """Return a parameter with the named versions once one of them has been raised, so that the jobs then run again."""
    later = {name: CODE[name] for name in names if CODE[name] > 1}
    return {"version": later} if later else {}


def report_code(wildcards):
    """Return a digest of the files of the report; if it changes, figures, tables and the page are made again."""
    return registry.report_code()


CODE = versions.today()
LISTED = {"figures": registry.figures_by_name, "tables": registry.tables_by_name}
FORMATS = registry.FILES


def drawn(kind, studies, names=None):
    """Return the paths of the given studies' figures or tables, or only of those with the given names."""
    return [
        f"results/{study}/{kind}/{name}.{FORMATS[kind][0]}"
        for study in studies
        for name in LISTED[kind](STUDIES[study])
        if names is None or name in names
    ]


wildcard_constraints:
    study=any_of(STUDIES),
    dataset="[^/]+",
    objective="[^/]+",
    block="seed[0-9+-]+",
    corpus="[^/]+",
    model="[A-Za-z][A-Za-z0-9_.+-]*",
    shard="[0-9]+",
    pairs="[a-z0-9_]+-[0-9]+px-[0-9a-f]+",
