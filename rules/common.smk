# The configuration, checked, and what the rules ask of it. Nothing here imports torch or looks at this machine's devices: the plan is the
# same on a laptop and on a cluster's login node.

import re
from pathlib import Path

from snakemake.exceptions import WorkflowError

from trueneg.compute.corpora import Corpora
from trueneg.compute.jobs import name_snakemake
from trueneg.compute.readings import Readings
from trueneg.compute.trainings import Trainings
from trueneg.config.reading import load_configuration
from trueneg.config.theory_study import TheoryStudy
from trueneg.errors import UserError
from trueneg.report import catalogue
from trueneg.store import provenance
from trueneg.store.run_store import RunStore

# Priority of the steps that trainings wait for; trainings have 1 to 9, steps that wait for them 0.
BEFORE_TRAINING = 10

# The embedded default is read only where no --configfile is given: otherwise Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: Path(workflow.basedir) / "config" / "config.yaml"


try:
    files = ", ".join(map(str, workflow.configfiles))
    configuration = load_configuration(config, files)
except UserError as error:
    raise WorkflowError(f"The configuration cannot be used.\n{error}")

# What reports, logs and plugins see: every default filled in. Jobs that Snakemake starts in other processes get the files and the
# --config of the command line, and resolve them again.
config.clear()
config.update(configuration.resolved())

name_snakemake()

trainings, corpora = Trainings(configuration), Corpora(configuration)
readings = Readings(trainings, corpora)
STUDIES = configuration.studies
THEORY = [name for name, study in STUDIES.items() if isinstance(study, TheoryStudy)]


def any_of(names):
    """A wildcard's constraint to some names; without any it matches nothing."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


def setting(place, **found):
    """What the configuration sets, such as {study}/training/threads; `found` are functions for names that are no wildcards.

    In place of lookup(), which walks through the whole configuration for every job.
    """
    keys = place.split("/")

    def of_job(wildcards):
        names = {name: function(wildcards) for name, function in found.items()}
        value = config
        for key in keys:
            value = value[key.format(**wildcards, **names)]
        return value

    return of_job


def experiments(wildcards):
    """The settings that the experiments of a study share."""
    return config[wildcards.study]["process"] | config[wildcards.study]["sweeps"]


def growing(section, gpu=False, **found):
    """Memory and time of a job: what a section sets, twice as much for the second attempt, and so on; with its GPUs, if asked."""

    def of_attempt(key):
        first = setting(f"{section}/{key}", **found)

        def asked(wildcards, attempt):
            return first(wildcards) * attempt

        return asked

    asked = {"mem_mb": of_attempt("mem_mb"), "runtime": of_attempt("runtime")}
    return asked | {"gpu": setting(f"{section}/gpu")} if gpu else asked


def when_planned(function, *arguments):
    """A parameter that is computed only when a job is planned; of code: if it is edited, the job runs again."""

    def parameter(wildcards):
        return function(*arguments)

    return parameter


LISTED = {"figures": catalogue.figures_by_name, "tables": catalogue.tables_by_name}
FORMATS = {
    "figures": ["png", "pdf", "svg", "txt", "code"],
    "tables": ["csv", "md", "tex", "txt", "code"],
}


def drawn(kind, studies, names=None):
    """The figures or tables of some studies; those of some names alone, where they are given."""
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
