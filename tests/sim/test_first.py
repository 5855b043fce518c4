from tests.sim.apps import Mix, draw
from tests.sim.launchers import Job
from tests.sim.world import Sim


def test_a_hundred_nodes_run_a_job():
    sim = Sim(1, 100)

    def run():
        sim.boot()
        yod = sim.launch(Job(draw(sim.clock.rng, 100, Mix())))
        sim.finish()
        assert yod.machine.report.exit_status == 0, yod.said
        assert sim.clock.now < 300

    sim.guarded(run)
