"""The example that `boggn init` writes: it runs as it is, and is there to be changed."""

STUDY = """\
# A study for boggn: `boggn run {name}` runs it, and goes on with it when it was stopped.
# `boggn run {name} --dry-run` checks this file and shows what would be done.

[study]
direction = "minimize"        # or "maximize"
# directions = ["minimize", "maximize"]   # for several objectives, which need [sampler] name = "nsgaii"
# storage = "sqlite:///x.db"  # any storage of Optuna; else a file beside this one
# workers = 4                 # processes at the same time
# seed = 0                    # for the same suggestions again

[objective]
# A command, with {{parameter}} where its value goes. The last line it prints is the value.
command = "{{python}} {script} --learning-rate {{learning_rate}} --layers {{layers}} --activation {{activation}}"
# function = "train:main"     # or a Python function of a dictionary of parameters
# shell = true                # for pipes, && and $VARIABLES in the command
# env = {{ SEED = "1", RATE = "{{learning_rate}}" }}   # more environment variables
# cwd = "trial"               # where it starts: in the trial's own folder, not beside this file
timeout = "10m"               # a trial that takes longer is ended, and has failed
retries = 0                   # how often a failed trial is tried again

[space]
learning_rate = {{ low = 1e-5, high = 1e-1, log = true }}   # log: its magnitude matters
layers = {{ low = 1, high = 6 }}                            # whole numbers
activation = ["relu", "tanh", "gelu"]                     # a choice

[budget]
trials = 20                   # finished trials in all
# time = "8h"                 # no trial begins later than that after the start of a run
# regret = 0.001              # stop when hardly more than this is to be gained
failures = 5                  # stop after so many failures in a row

# [result]                    # if the value is not on the last line:
# read = "regex"              # the last match of a pattern ...
# pattern = 'loss: (\\S+)'
# read = "json"               # ... or a JSON file, whose name the command gets as {{result}}
# key = "validation.loss"
# intermediate = 'epoch (?P<step>\\d+) loss (?P<value>\\S+)'   # lines that the pruner reads
# [result.metrics]            # more numbers to keep with the trial
# accuracy = 'accuracy: (\\S+)'

# [pruner]                    # ends hopeless trials early
# name = "median"

# [sampler]                   # options of BOGGNSampler
# n_startup_trials = 10
"""

SCRIPT = '''\
"""Stands for a training script: prints values on the way, and on its last line the one that counts."""

import argparse
import math

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, required=True)
parser.add_argument("--layers", type=int, required=True)
parser.add_argument("--activation", required=True)
arguments = parser.parse_args()

off = math.log10(arguments.learning_rate) + 3 + 0.2 * arguments.layers
penalty = {"relu": 0.1, "tanh": 0.2, "gelu": 0.0}[arguments.activation]
loss = off**2 + 0.05 * (arguments.layers - 3) ** 2 + penalty
for epoch in range(3):
    print(f"step={epoch} value={loss + 1 / (epoch + 1)}", flush=True)
print(loss)
'''


def study_text(name: str, script: str) -> str:
    """The study file."""
    return STUDY.format(name=name, script=script)
