"""Train encoders from settings, images and a seed, and save them in the run store."""
