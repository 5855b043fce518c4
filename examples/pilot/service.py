"""Tasks that use a service, which is ready when it says so: python service.py"""

import yod.pilot as rp

SERVER = """
sleep 0.2; echo hello > ../answer
echo "listening at 4711"
sleep 3600
"""

with rp.Session() as session:
    pmgr = rp.PilotManager(session)
    tmgr = rp.TaskManager(session)
    tmgr.add_pilots(pmgr.submit_pilots(rp.PilotDescription({"cores": 2, "runtime": 15})))

    service = rp.TaskDescription({"uid": "server", "mode": rp.TASK_SERVICE})
    service.executable = "/bin/sh"
    service.arguments = ["-c", SERVER]
    service.info_pattern = "stdout:listening at ([0-9]+)"
    service.startup_timeout = 30
    server = tmgr.submit_tasks(service)

    user = rp.TaskDescription({"executable": "/bin/cat", "arguments": ["../answer"]})
    user.services = [server.uid]
    task = tmgr.submit_tasks(user)
    task.wait()
    print(task.state, task.stdout.strip(), server.state, server.info)
    server.cancel()
    print(server.wait())
