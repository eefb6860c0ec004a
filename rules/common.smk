# The configuration, checked, and what the rules ask of it. Nothing here imports torch or looks at this machine's devices: the plan is the
# same on a laptop and on a cluster's login node.

import re
from pathlib import Path

from snakemake.exceptions import WorkflowError

from trueneg.compute.jobs import name_snakemake
from trueneg.config import runs
from trueneg.config.expansion import Expansion
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.reading import load_configuration
from trueneg.config.theory_study import TheoryStudy
from trueneg.errors import UserError
from trueneg.report import catalogue
from trueneg.specs.pairs import PAIRS
from trueneg.store import provenance, user_files
from trueneg.store.run_store import RunStore

PUBLISHED = Path(workflow.basedir) / "config" / "published.csv"
BEFORE_TRAINING = 10  # priority of what trainings wait for; trainings have 1 to 9, the longest first; what waits for them has 0

# The embedded default is read only where no --configfile is given: otherwise Snakemake would merge the two.
if not workflow.overwrite_configfiles:

    configfile: Path(workflow.basedir) / "config" / "config.yaml"


try:
    configuration = load_configuration(
        config, ", ".join(map(str, workflow.configfiles))
    )
except UserError as error:
    raise WorkflowError(f"The configuration cannot be used.\n{error}")

# What reports, logs and plugins see: every default filled in. Jobs that Snakemake starts in other processes get the files and the
# --config of the command line, and resolve them again.
config.clear()
config.update(configuration.resolved())

name_snakemake()

STUDIES = configuration.studies
IMAGES, IMAGE_TEXT, LIKELIHOOD, THEORY = (
    {name: study for name, study in STUDIES.items() if isinstance(study, kind)}
    for kind in (ImageStudy, ImageTextStudy, LikelihoodStudy, TheoryStudy)
)
TRAINED = {
    name: Expansion(name, study) for name, study in (IMAGES | IMAGE_TEXT).items()
}
CAPTIONED = [name for name, study in LIKELIHOOD.items() if study.reports.captions]
PHANTOM, OPEN_I = (
    [name for name, study in LIKELIHOOD.items() if study.reports.source == source]
    for source in ("phantom", "open_i")
)
RATED = [name for name, study in IMAGE_TEXT.items() if study.dataset.rated]
LONGEST = max((expanded.longest for expanded in TRAINED.values()), default=0.0)


def any_of(names):
    """A wildcard's constraint to some names; without any it matches nothing."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


def setting(place):
    """What the configuration sets, such as {study}/training/threads; in place of lookup(), which walks through all of it for every job."""
    keys = place.split("/")

    def found(wildcards):
        value = config
        for key in keys:
            value = value[key.format(**wildcards)]
        return value

    return found


def growing(place):
    """Memory or time of a job: what is set, twice as much for the second attempt, and so on."""
    first = setting(place)

    def of_attempt(wildcards, attempt):
        return first(wildcards) * attempt

    return of_attempt


def of_devices(key):
    """What a training asks for: what is set for each of its devices."""

    def asked(wildcards):
        training = config[wildcards.study]["training"]
        return training[key] * training["devices"]

    return asked


def code(roots):
    """The fingerprint of the code below these modules, when a job is planned: if it is edited, the job runs again."""

    def fingerprint(wildcards):
        return provenance.fingerprint(roots)

    return fingerprint


LOOKED_AT = {}


def stamped(reading):
    """The user's files that a job reads, with a stamp that changes when their content does. There may be many: each is looked at once."""
    if reading.place not in LOOKED_AT:
        LOOKED_AT[reading.place] = user_files.parameter(reading, Path("results"))
    return LOOKED_AT[reading.place]


# Data sets, objectives and blocks of seeds.


def each_block(pattern):
    """The pattern for every data set, objective and block of every study that trains."""
    return [path for expanded in TRAINED.values() for path in expanded.paths(pattern)]


def blocks_of_study(pattern):
    """The pattern for every data set, objective and block of the study."""

    def paths(wildcards):
        return TRAINED[wildcards.study].paths(pattern)

    return paths


def seeds_of_study(pattern):
    """The pattern for every data set and block of the study."""

    def paths(wildcards):
        expanded = TRAINED[wildcards.study]
        return expand(
            pattern,
            study=wildcards.study,
            dataset=expanded.datasets,
            block=expanded.blocks,
        )

    return paths


def first_block(pattern):
    """The pattern for the block that holds the first seed."""

    def path(wildcards):
        block = next(iter(TRAINED[wildcards.study].blocks))
        return pattern.format(**wildcards, block=block)

    return path


def first_trained(pattern):
    """The pattern for the first objective that trains: all begin with the same networks."""

    def path(wildcards):
        labelled = runs.objectives(STUDIES[wildcards.study]).items()
        objective = next(
            label
            for label, sections in labelled
            if sections["objective"].name != "released"
        )
        return pattern.format(**wildcards, objective=objective)

    return path


def seeds(wildcards):
    return TRAINED[wildcards.study].blocks[wildcards.block]


def resolved_runs(wildcards):
    return TRAINED[wildcards.study].runs(
        wildcards.dataset, wildcards.objective, wildcards.block
    )


def row_names(wildcards):
    """What the rows of a data set and an objective are named by."""
    return TRAINED[wildcards.study].row_names[wildcards.dataset, wildcards.objective]


def longest_first(wildcards):
    cost = TRAINED[wildcards.study].cost(
        wildcards.dataset, wildcards.objective, wildcards.block
    )
    return 1 + 8 * cost / LONGEST if LONGEST else 1


def fingerprint_if_retraining(wildcards):
    """Known to a training job only when stale runs are to be trained anew: otherwise it would run again after each edit."""
    if config["retrain_stale"]:
        return provenance.training_fingerprint(
            TRAINED[wildcards.study].settings[wildcards.dataset, wildcards.objective]
        )


# Sources.


def dataset(wildcards):
    return TRAINED[wildcards.study].datasets[wildcards.dataset]


def source(wildcards):
    """The decoded images of a data set, or its images with their sentences."""
    return TRAINED[wildcards.study].sources[wildcards.dataset]


def beside_source(table):
    """A table beside a source of images with sentences; nothing beside one of images."""

    def path(wildcards):
        beside = f"{source(wildcards).removesuffix('.npz')}-{table}.parquet"
        return beside if wildcards.study in IMAGE_TEXT else []

    return path


IMAGE_SOURCES = {
    runs.source_key(data): {
        key: data[key] for key in ("source", "path", "resolution", "download")
    }
    for name in IMAGES
    for data in TRAINED[name].datasets.values()
}
PAIR_SOURCES = {
    runs.pairs_key(data): {
        key: value for key, value in data.items() if key not in ("validation", "test")
    }
    for name in IMAGE_TEXT
    for data in TRAINED[name].datasets.values()
}
CHEXPERT = {
    runs.benchmark_key(lists.model_dump(), data["resolution"]): lists.model_dump()
    | {"resolution": data["resolution"]}
    for name, study in IMAGE_TEXT.items()
    if (lists := study.evaluation.chexpert_8x200) is not None
    for data in TRAINED[name].datasets.values()
}


def image_source(wildcards):
    return IMAGE_SOURCES[wildcards.images]


def image_files(wildcards):
    return stamped(user_files.of_images(IMAGE_SOURCES[wildcards.images]))


def pair_source(wildcards):
    """How to read images with sentences: what their data set sets, over what the reports that they are joined with set."""
    joining = PAIR_SOURCES[wildcards.pairs]
    return dict(user_files.of_pairs(joining, LIKELIHOOD).settings) | {
        "seed": LIKELIHOOD[joining["text"]].seed
    }


def pair_files(wildcards):
    return stamped(user_files.of_pairs(PAIR_SOURCES[wildcards.pairs], LIKELIHOOD))


def of_pair_source(key):
    """What preparing images with sentences asks for, which differs by source."""

    def asked(wildcards):
        name = f"{PAIR_SOURCES[wildcards.pairs]['source']}_pairs"
        return config["resources"][name][key]

    return asked


def growing_with_pair_source(key):
    def of_attempt(wildcards, attempt):
        return of_pair_source(key)(wildcards) * attempt

    return of_attempt


def chexpert(wildcards):
    return CHEXPERT[wildcards.chexpert]


def chexpert_files(wildcards):
    return stamped(user_files.of_benchmark(CHEXPERT[wildcards.chexpert]))


def chexpert_of_study(wildcards):
    """CheXpert 8×200 at the size of the study's images; nothing where it is not measured."""
    lists = (
        STUDIES[wildcards.study].evaluation.chexpert_8x200
        if wildcards.study in IMAGE_TEXT
        else None
    )
    return (
        []
        if lists is None
        else f"results/benchmarks/{runs.benchmark_key(lists.model_dump(), dataset(wildcards)['resolution'])}.npz"
    )


# Texts.


def text_tables(data, names):
    """Tables of the reports that a data set's images are joined with."""
    corpus = data["corpus"] or next(iter(runs.corpora(LIKELIHOOD[data["text"]])))
    return {
        name: f"results/{data['text']}/text/{corpus}/{name}.parquet" for name in names
    }


def text_of_pairs(wildcards):
    data = PAIR_SOURCES[wildcards.pairs]
    return text_tables(data, PAIRS[data["source"]].TEXT_TABLES)


def classes_of_study(wildcards):
    return text_tables(
        next(iter(TRAINED[wildcards.study].datasets.values())), ["classes"]
    )["classes"]


def sentences_of_study(wildcards):
    return f"results/pairs/{runs.pairs_key(next(iter(TRAINED[wildcards.study].datasets.values())))}.parquet"


def each_corpus(pattern):
    """The pattern for every corpus of every likelihood study."""
    return [
        pattern.format(study=name, corpus=corpus)
        for name, study in LIKELIHOOD.items()
        for corpus in runs.corpora(study)
    ]


def reports_settings(wildcards):
    return runs.corpora(LIKELIHOOD[wildcards.study])[wildcards.corpus].model_dump(
        mode="json"
    )


def report_files(wildcards):
    return stamped(
        user_files.of_reports(
            wildcards.study, wildcards.corpus, reports_settings(wildcards)
        )
    )


MODELS = "results/{study}/text/{corpus}/language_models/{model}.json"


def models_of_start(start):
    study, corpus, model = start.split("/")
    return MODELS.format(study=study, corpus=corpus, model=model)


def initial_models(wildcards):
    """The models of another study that a training begins with, if there are any."""
    start = LIKELIHOOD[wildcards.study].language_models[wildcards.model].start
    return [] if start is None else models_of_start(start)


def scoring_models(wildcards):
    """The models that score: a study's own, or another's that it does not train further."""
    model = LIKELIHOOD[wildcards.study].language_models[wildcards.model]
    return (
        MODELS.format(**wildcards)
        if model.train or model.start is None
        else models_of_start(model.start)
    )


def scoring(wildcards):
    model = LIKELIHOOD[wildcards.study].language_models[wildcards.model]
    return config[wildcards.study]["scoring"] | {
        "trust_remote_code": model.trust_remote_code
    }


def shards(wildcards):
    """What says that the shards are scored; nothing where one job scores all."""
    count = LIKELIHOOD[wildcards.study].scoring.shards
    pattern = "results/{study}/text/{corpus}/likelihoods/{model}-{shard}.done"
    return expand(pattern, **wildcards, shard=range(count)) if count > 1 else []


def likelihoods(wildcards):
    """Those of every language model on the corpus, in the order of the configuration."""
    models = LIKELIHOOD[wildcards.study].language_models
    return expand(
        "results/{study}/text/{corpus}/likelihoods/{model}.parquet",
        **wildcards,
        model=models,
    )


def likelihoods_of_eta(wildcards):
    """Those that become class probabilities."""
    study = LIKELIHOOD[wildcards.study]
    model = study.eta.language_model or next(iter(study.language_models))
    return (
        f"results/{wildcards.study}/text/{wildcards.corpus}/likelihoods/{model}.parquet"
    )


def folds(wildcards):
    """How many folds simple scorers count on: as many as the first language model that is trained has."""
    models = LIKELIHOOD[wildcards.study].language_models.values()
    return next((model.folds for model in models if model.train), 2)


# Figures and tables.


def drawn(kind, studies, names=None):
    """The figures or tables of some studies; those of some names alone, where they are given."""
    listed, pattern = {
        "figures": (catalogue.figures_of, "results/{}/figures/{}.png"),
        "tables": (catalogue.tables_of, "results/{}/tables/{}.csv"),
    }[kind]
    return [
        pattern.format(study, one)
        for study in studies
        for one in listed(STUDIES[study])
        if names is None or one in names
    ]


# Those that have figures and tables at all.
DRAWN = [name for name, study in STUDIES.items() if catalogue.files_of(study)]


def drawing_code(name):
    """The code of every figure and table of a study, when its job is planned."""

    def of_modules(wildcards):
        modules = catalogue.modules_of(STUDIES[name])
        return [provenance.drawing_code(module) for module in modules]

    return of_modules


def phrases(wildcards):
    """How many phrases have their heatmaps kept."""
    overlays = STUDIES[wildcards.study].figures.overlays
    return 0 if overlays is None else overlays.phrases


def retrieval_examples():
    """What the page shows of retrieval: the objectives of each primary contrast; of a swept one the first variant, as the selected one
    is known only when all have run."""
    found = []
    for name, study in IMAGE_TEXT.items():
        primary, variants = study.primary, runs.candidates(study)
        data = primary.dataset or next(iter(TRAINED[name].datasets))
        asked = dict.fromkeys((primary.baseline, primary.treatment, primary.oracle))
        labels = [next(iter(variants[one])) for one in asked if one is not None]
        pattern = f"results/{name}/artefacts/retrieval/{data}/{{label}}.parquet"
        found += expand(pattern, label=labels)
    return found


def stale_message():
    """A line about the finished runs that were made with other training code than today's; empty if there are none."""
    stale = provenance.stale_runs(RunStore("results/runs"))
    if not stale:
        return ""
    return (
        f"{len(stale)} runs in results/runs were made with other code than today's. `trueneg runs` marks them; "
        "`--config retrain_stale=true` trains them anew.\n"
    )


def process_and_sweeps(wildcards):
    """What the experiments of a theory study share."""
    return config[wildcards.study]["process"] | config[wildcards.study]["sweeps"]


wildcard_constraints:
    study=any_of(STUDIES),
    dataset="[^/]+",
    objective="[^/]+",
    block="seed[0-9+-]+",
    corpus="[^/]+",
    model="[A-Za-z][A-Za-z0-9_.+-]*",
    pairs="[a-z0-9_]+-[0-9]+px-[0-9a-f]+",
