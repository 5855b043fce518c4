"""What ``api.allocate`` asks ``yodjob alloc`` for."""

from yod.allocation import allocate


def test_each_choice_is_an_option_of_the_command():
    held = allocate(
        node_count=2, ranks_per_node=3, cores_per_rank=4, distribution="cyclic", exclusive=True
    )
    assert held._words == [
        *("-quiet", "-N", "2", "--ranks-per-node", "3", "--cores-per-rank", "4"),
        *("--distribution", "cyclic", "--exclusive"),
    ]
