"""From a configuration to runs, and from their results to comparisons."""
