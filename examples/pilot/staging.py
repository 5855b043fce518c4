"""Files that go in and come out: python staging.py"""

from pathlib import Path

import yod.pilot as rp

Path("input.dat").write_text("so many words in one file\n")
Path("shared.dat").write_text("for all\n")

with rp.Session() as session:
    pmgr = rp.PilotManager(session)
    tmgr = rp.TaskManager(session)
    pilot = pmgr.submit_pilots(rp.PilotDescription({"cores": 2, "runtime": 15}))
    tmgr.add_pilots(pilot)

    # Once for the pilot; each task has a link to it.
    pilot.stage_in({"source": "client:///shared.dat", "target": "pilot:///shared.dat"})
    descriptions = []
    for n in range(4):
        description = rp.TaskDescription()
        description.executable = "/bin/sh"
        description.arguments = ["-c", "cat input.dat shared.dat | wc -w > words.txt"]
        description.input_staging = [
            "input.dat",
            {
                "source": "pilot:///shared.dat",
                "target": "task:///shared.dat",
                "action": rp.LINK,
            },
        ]
        description.output_staging = [f"words.txt > words.{n}.txt"]
        descriptions.append(description)
    tasks = tmgr.submit_tasks(descriptions)
    tmgr.wait_tasks()

    print([task.state for task in tasks])
    print([Path(f"words.{n}.txt").read_text().strip() for n in range(4)])
