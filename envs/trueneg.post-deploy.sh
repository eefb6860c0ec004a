#!/bin/sh
# Snakemake runs this in the folder that it was started in, the checkout, with the new environment activated. The installation is editable:
# later edits of the code need no new environment.
python -m pip install --constraint envs/constraints.txt --editable '.[pipeline,bm25,open_i,pretrained]'
