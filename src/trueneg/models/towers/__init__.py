"""Towers: pretrained or new networks of other libraries, which map images or texts to vectors; one
module per library.
"""
