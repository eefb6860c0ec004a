# The validated configuration, and functions that the rules share. Nothing here imports torch or
# looks for devices: the plan is the same on a laptop and on the login node of a cluster.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from trueneg.data.user_files import (
    check_own_table,
    compare_files,
    file_parameter,
    is_checked_when_planning,
)
from trueneg.errors import UserError
from trueneg.planning.checkout import quote_python, require_plain_path
from trueneg.planning.corpora import Corpora
from trueneg.planning.data_inputs import DataInputs
from trueneg.planning.folder_lock import describe_lock, record_owner
from trueneg.planning.given import given_configuration
from trueneg.planning.job_settings import JobSettings
from trueneg.planning.options import refuse_unsupported, require_whole_outputs
from trueneg.planning.training_jobs import TrainingJobs
from trueneg.planning.wildcards import any_of
from trueneg.report import findings, registry
from trueneg.report.published import published_numbers
from trueneg.runtime.jobs import SNAKEMAKE
from trueneg.store import versions
from trueneg.store.protocol import committed_protocol
from trueneg.store.run_store import RunStore

BEFORE_TRAINING = 10  # priority; training jobs have 1 to 9, and later steps 0
CHECKOUT = Path(workflow.current_basedir).parent  # workflow.basedir is elsewhere for a module
PUBLISHED = CHECKOUT / "config/published.csv"
# Snakemake refuses an image whose path has a space; a relative path rarely has one.
IMAGE = os.path.relpath(CHECKOUT / "trueneg.sif")
quote_python()
refuse_unsupported(workflow, IMAGE, sys.argv[1:] if workflow.is_main_process else [])

try:
    require_plain_path(CHECKOUT)
    configuration = given_configuration(workflow, config, CHECKOUT)
    trainings, corpora = TrainingJobs(configuration), Corpora(configuration)
    data_inputs = DataInputs(trainings, corpora, file_parameter)
    for data_input in data_inputs.tables() if workflow.is_main_process else ():
        will_be_read = compare_files(data_input, Path("results")).sentences
        if will_be_read and is_checked_when_planning(data_input):
            check_own_table(data_input)
    protocols = {}
    for name, study in trainings.studies.items():
        published_numbers(study, PUBLISHED)  # raises an error for numbers that no paper has
        protocols[name] = committed_protocol(name, study.protocol, checkout=CHECKOUT)
except UserError as error:
    raise WorkflowError(f"The configuration is invalid.\n{error}")

# For reports, logs and plugins; jobs that Snakemake starts in other processes resolve it again.
config = configuration.resolved()
os.environ[SNAKEMAKE] = str(os.getpid())
if workflow.is_main_process:
    print(describe_lock(), end="", file=sys.stderr)

STUDIES = configuration.studies
LISTED = {"figures": registry.figures_by_name, "tables": registry.tables_by_name}
setting = JobSettings(config).setting
growing = JobSettings(config).growing
experiments = {name: study.experiment_settings for name, study in configuration.computed.items()}


def drawn(studies, kinds=registry.FILES, others=False):
    """Return the paths of the studies' figures and tables: their first format, or the others."""
    return [
        f"results/{study}/{kind}/{name}.{ending}"
        for kind in kinds
        for ending in (registry.FILES[kind][1:] if others else registry.FILES[kind][:1])
        for study in studies
        for name in LISTED[kind](STUDIES[study])
    ]


wildcard_constraints:
    **dict.fromkeys(("dataset", "objective", "corpus"), "[^/]+"),
    study=any_of(STUDIES),
    block="seed[0-9+-]+",
    model="[A-Za-z][A-Za-z0-9_.+-]*",
    shard="[0-9]+",
    pairs="[a-z0-9_]+-[0-9]+px-[0-9a-f]+",
    texts="[a-z0-9_]+-[0-9a-f]+",
    features="[a-z_]+-(images|texts)-[0-9a-f]+",
    ranking="(-bm25)?",
