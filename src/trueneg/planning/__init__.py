"""What Snakemake needs to plan the jobs: paths and parameters, without torch."""
