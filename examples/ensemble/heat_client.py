#!/usr/bin/env python3
"""One simulation: heat spreads in a plate whose edges and beginning the server has chosen."""

import json
import os
import sys

import numpy as np

from yod.ensemble import Client

with open(os.environ["YOD_ENSEMBLE_CONFIG"]) as file:
    study = json.load(file)["study"]

with Client() as client:
    points, chosen = study["points"], client.parameters
    plate = np.full((points, points), chosen["beginning"])
    plate[0], plate[-1], plate[:, 0], plate[:, -1] = chosen["edges"]
    for step in range(study["steps"]):
        for _ in range(10):
            inner = plate[1:-1, 1:-1]
            around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
            plate[1:-1, 1:-1] += 0.2 * (around - 4 * inner)
        client.send("temperature", step, plate)
        if chosen["fails"] and step == study["steps"] // 2:
            sys.exit("this one fails on purpose")
