"""What is raised on behalf of an owner is told to that owner, and the loop goes on."""

import os

import pytest


class Owner:
    """Remembers what was raised on its behalf."""

    def __init__(self):
        self.told = []

    def __call__(self, error):
        self.told.append(str(error))


def fail(*_arguments):
    raise ValueError("broken")


def test_what_is_raised_for_an_owner_is_told_to_it_and_the_loop_goes_on(reactor):
    owner, seen = Owner(), []
    assert not reactor.run_for(owner, fail)
    assert reactor.run_for(owner, seen.append, "done")
    assert (owner.told, seen) == (["broken"], ["done"])


def test_what_is_asked_of_the_loop_for_an_owner_is_the_owners(reactor, clock, pipes):
    (read, write), owner = pipes(), Owner()

    def ask():
        reactor.watch(read, fail)
        reactor.call_soon(fail)
        reactor.when_idle(fail)
        reactor.timer(fail).set(101.0)

    reactor.run_for(owner, ask)
    os.write(write, b"x")
    reactor.run_once(0)
    assert owner.told == ["broken"] * 2  # the call and the watch
    reactor.run_once(0)
    clock.now = 101.0
    reactor.run_once(0)
    assert owner.told == ["broken"] * 4


def test_a_callback_that_raises_for_its_owner_is_not_called_again(reactor, pipes):
    (read, write), owner = pipes(), Owner()
    reactor.run_for(owner, reactor.watch, read, fail)
    os.write(write, b"x")
    reactor.run_once(0)
    reactor.run_once(0)
    assert owner.told == ["broken"]


def test_what_an_owned_call_asks_for_is_the_owners_too(reactor):
    owner = Owner()
    reactor.run_for(owner, reactor.call_soon, lambda: reactor.call_soon(fail))
    reactor.run_once(0)
    reactor.run_once(0)
    assert owner.told == ["broken"]


def test_the_children_of_one_owner_are_not_the_trouble_of_another(reactor):
    one, other, statuses = Owner(), Owner(), []
    true, false = (os.posix_spawnp(name, [name], os.environ) for name in ("true", "false"))

    def ended(status):
        statuses.append(status)
        if len(statuses) == 2:
            reactor.call_soon(reactor.stop)

    reactor.run_for(one, reactor.on_child, true, lambda status: (ended(status), fail()))
    reactor.run_for(other, reactor.on_child, false, ended)
    reactor.run()
    assert sorted(map(os.waitstatus_to_exitcode, statuses)) == [0, 1]
    assert (one.told, other.told) == (["broken"], [])


def test_what_has_no_owner_raises_through_the_loop(reactor):
    reactor.call_soon(fail)
    with pytest.raises(ValueError, match="broken"):
        reactor.run_once(0)


def test_an_owner_that_contains_nothing_raises_through_the_loop(reactor):
    reactor.run_for(fail, reactor.call_soon, fail)
    with pytest.raises(ValueError, match="broken"):
        reactor.run_once(0)
