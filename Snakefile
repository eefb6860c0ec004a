# TrueNeg: from images to trained encoders, evaluations, figures, tables and one page.
#
#     sources ─ subsets ─ train ─ evaluate ─ compare ─ figures, tables ─ page
#     pairs ────╯                          simulate ─╯
#       ╰───────────────────────────────────╮
#     reports ─ sentences ─ language models ─ score ─ eta, assumption ─ figures, tables
#
# Output paths are results/<study>/<stage>/<dataset>/<objective>/<block of seeds>; trained models are in results/runs.

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/captions/workflow.rst"


container: f"{workflow.basedir}/trueneg.sif"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/text.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/theory.smk"
include: "rules/report.smk"


# The log and the benchmark file (time and memory) of a job are named after its rule and its wildcards. Conda environments and the
# container above are used only with Snakemake's option --software-deployment-method (docs/cluster.md).
for step in workflow.rules:
    if step.output:
        pattern, *_ = getattr(rules, step.name).output
        folder = re.match("results(/[^/]+(?=/))?", pattern)[0]
        names = re.findall(r"{\w+}", pattern.removeprefix(folder))
        place = "/".join([step.name, *names])
        step.log_modifier = step.benchmark_modifier = step.output_modifier
        step.set_log(f"{folder}/logs/{place}.log")
        step.benchmark = f"{folder}/timings/{place}.jsonl"
        step.conda_env = f"{workflow.basedir}/envs/trueneg.yaml"


# The files of every block: Snakemake does not look for missing inputs of files that exist, and deletes those of a failed job.
BLOCKS = [
    path
    for kind in (rules.train.output.manifest, *rules.evaluate.output)
    for path in trainings.each_block(kind)
]


# All results of the configuration, and the page that shows them.
rule all:
    default_target: True
    input:
        BLOCKS,
        "results/index.html",
        drawn("figures", STUDIES),
        drawn("tables", STUDIES),
        corpora.each_corpus("results/{study}/text/{corpus}/eta.parquet"),


for target, wanted in {
    # Train the encoders only.
    "models": trainings.each_block(rules.train.output.manifest),
    # Train and evaluate the encoders; draw nothing.
    "rows": [
        *BLOCKS,
        *collect("results/{study}/artefacts/rows.parquet", study=trainings.studies),
    ],
    # All figures; needs only rows and artefacts, so any machine can draw them.
    "figures": drawn("figures", STUDIES),
    # All tables; needs only rows and artefacts, so any machine can write them.
    "tables": drawn("tables", STUDIES),
    # The class probabilities of all sentences, and their comparison with likelihoods.
    "likelihood": [
        *corpora.each_corpus("results/{study}/text/{corpus}/eta.parquet"),
        *drawn("figures", corpora.studies),
        *drawn("tables", corpora.studies),
    ],
    # Figures of the simulations in the BCL paper and of our extensions.
    "figures_bcl": drawn("figures", THEORY, registry.BCL_FIGURES),
    # All figures of simulations and bounds.
    "figures_theory": drawn("figures", THEORY),
    # All tables of simulations and bounds.
    "tables_theory": drawn("tables", THEORY),
    # Table 1 of the BCL paper, with our results beside it.
    "tables_bcl": drawn("tables", trainings.images, registry.BCL_TABLES),
    # Figs. 2, 3 and 4 of Sample-Specific Debiasing and related figures.
    "figures_ssd": drawn("figures", trainings.studies, registry.SSD_FIGURES),
    # Tables 1, 3, 4 and 5 of Sample-Specific Debiasing.
    "tables_ssd": drawn("tables", trainings.image_text, registry.SSD_TABLES),
    # Figs. 4, 5 and 6 of ReCo.
    "figures_reco": drawn("figures", trainings.image_text, registry.RECO_FIGURES),
    # Tables 1, 2 and 3 of ReCo.
    "tables_reco": drawn("tables", trainings.image_text, registry.RECO_TABLES),
}.items():

    rule:
        name:
            target
        input:
            wanted,


onstart:
    record_owner()
    # Snakemake 9.27 starts a timer in each round of scheduling to limit the jobs per second, which is meant for clusters. While jobs
    # wait, every finished job adds one more round per second: after 366 of 1,210 local jobs, Snakemake itself had used 13 minutes of CPU time.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onerror:
    # At the very end, below Snakemake's own account.
    atexit.register(print, failed_jobs(log), end="", file=sys.stderr)


onsuccess:
    store = RunStore("results/runs")
    print(versions.stale_note(store.records(), store.path), end="")
    print(findings.report("results", STUDIES), end="")
