# The configuration, checked, and the plan that the rules ask. Nothing here imports torch or looks at this machine's devices.

from pathlib import Path

from snakemake.exceptions import WorkflowError

from trueneg.errors import UserError
from trueneg.compute.jobs import name_snakemake
from trueneg.report import catalogue
from trueneg.store import provenance
from trueneg.workflow import Plan, stale_message
from trueneg.config.reading import load_configuration
from trueneg.store.run_store import RunStore

PUBLISHED = Path(workflow.basedir) / "config" / "published.csv"

# The embedded default is read only where no --configfile is given: otherwise Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: Path(workflow.basedir) / "config" / "config.yaml"


try:
    plan = Plan(load_configuration(config, ", ".join(map(str, workflow.configfiles))))
except UserError as error:
    raise WorkflowError(f"The configuration cannot be used.\n{error}")

# What reports, logs and plugins see: every default filled in. Jobs that Snakemake starts in other processes get the files and the
# --config of the command line, and resolve them again.
config.clear()
config.update(plan.resolved)

name_snakemake()


wildcard_constraints:
    study=plan.pattern(plan.studies),
    dataset="[^/]+",
    objective="[^/]+",
    block="seed[0-9+-]+",
    figure="[a-z_]+",
    table="[a-z_]+",
    corpus="[^/]+",
    model="[A-Za-z][A-Za-z0-9_.+-]*",
