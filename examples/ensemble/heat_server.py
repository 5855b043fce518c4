#!/usr/bin/env python3
"""The server: draws parameters, keeps running statistics, asks again for what has failed.

It saves itself each time some clients have ended. The first server kills itself at half of the
study, to show that the next one goes on from there.
"""

import json
import os
import pickle
import signal

import figure
import numpy as np

from yod.ensemble import Field, Fields, Moments, Server, State

CHECKPOINT = "checkpoint"
with open(os.environ["YOD_ENSEMBLE_CONFIG"]) as file:
    whole = json.load(file)
study, group = whole["study"], whole["launcher_config"]["group_size"]
clients = study["simulations"] // group
draws = np.random.default_rng(study["seed"]).uniform(0, 100, (study["simulations"], 5))
statistics = [Moments() for _ in range(study["steps"])]
lacking = set(range(clients))  # clients that have not ended well
failed_once: set[int] = set()


def parameters(simulation: int) -> dict:
    """Of one simulation; two fail at their first attempt."""
    fails = simulation % 50 == 13 and simulation // group not in failed_once
    beginning, *edges = draws[simulation]
    return {"beginning": beginning, "edges": edges, "fails": fails}


def save() -> None:
    state = [each.state() for each in statistics], lacking, failed_once, fields.taken
    with open(f"{CHECKPOINT}.part", "wb") as out:
        pickle.dump(state, out)
    os.replace(f"{CHECKPOINT}.part", CHECKPOINT)


with Server() as server:
    fields = Fields(server, parameters)
    if server.goes_on and os.path.exists(CHECKPOINT):
        with open(CHECKPOINT, "rb") as saved:
            states, lacking, failed_once, fields.taken = pickle.load(saved)
        statistics = [Moments.of_state(state) for state in states]
        print(f"goes on: {clients - len(lacking)} of {clients} clients have ended", flush=True)
    for client in sorted(lacking):
        server.submit(client)
    for event in fields.events():
        match event:
            case Field():
                statistics[event.step].add(event.values)
            case (client, State.TERMINATED):
                lacking.discard(client)
                save()
                if not server.goes_on and len(lacking) <= clients // 2:
                    os.kill(os.getpid(), signal.SIGKILL)
            case (client, State.FAILED):
                print(f"client {client} has failed, and is asked for again", flush=True)
                failed_once.add(client)
                server.submit(client)
    last = statistics[-1]
    figure.write(
        "heat.svg", study["points"], last, [float(each.mean.mean()) for each in statistics]
    )
    print(f"{last.count} simulations; mean {last.mean.mean():.4f}, heat.svg", flush=True)
    server.finish()
