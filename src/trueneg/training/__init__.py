"""From settings, images and a seed to a trained encoder in the run store."""
