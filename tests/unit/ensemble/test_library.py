"""Running statistics against numpy's, and frames of fields."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

from ensemble.library import frames
from ensemble.library.client import _number
from ensemble.library.moments import Moments
from native.errors import PeerProtocolError


def filled(samples):
    moments = Moments()
    for sample in samples:
        moments.add(sample)
    return moments


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_moments_in_place_are_those_of_all_samples(count):
    samples = np.random.default_rng(1).normal(5, 2, (count, 3, 4))
    moments = filled(samples)
    assert moments.count == count
    np.testing.assert_allclose(moments.mean, samples.mean(0))
    expected = samples.var(0, ddof=1) if count > 1 else np.zeros((3, 4))
    np.testing.assert_allclose(moments.variance, expected, atol=1e-12)
    np.testing.assert_array_equal(moments.least, samples.min(0))
    np.testing.assert_array_equal(moments.most, samples.max(0))


@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.95])
def test_a_quantile_is_near_the_true_one_after_some_thousand_samples(alpha):
    samples = np.random.default_rng(2).uniform(10, 20, (4000, 5))
    estimate = filled(samples).quantile(alpha)
    np.testing.assert_allclose(estimate, 10 + 10 * alpha, atol=0.6)


def test_moments_go_on_from_what_was_saved():
    samples = np.random.default_rng(3).normal(0, 1, (20, 6))
    whole = filled(samples)
    file = io.BytesIO()
    np.savez(file, **filled(samples[:11]).state())
    file.seek(0)
    again = Moments.of_state(np.load(file))
    for sample in samples[11:]:
        again.add(sample)
    for name, value in whole.state().items():
        np.testing.assert_array_equal(again.state()[name], value)


def test_a_field_of_another_shape_is_refused():
    moments = filled([np.zeros(3)])
    with pytest.raises(ValueError, match="shape"):
        moments.add(np.zeros(4))


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_frames_come_whole_in_pieces_of_any_size(size):
    sent = [
        (frames.Kind.HELLO, 3, b"secret"),
        (frames.Kind.FIELD, 3, frames.field("heat", 2, np.arange(5.0).tobytes())),
        (frames.Kind.DONE, 3, b""),
    ]
    data = b"".join(frames.encode(*each) for each in sent)
    reader, found = frames.Reader(), []
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        while (frame := reader.next()) is not None:
            found.append(tuple(frame))
    assert found == sent
    name, step, values = frames.read_field(found[1][2])
    assert (name, step, list(np.frombuffer(values))) == ("heat", 2, [0, 1, 2, 3, 4])


def test_what_is_no_frame_is_refused():
    rng = random.Random(1)
    for _ in range(1000):
        reader = frames.Reader(256)
        reader.feed(rng.randbytes(rng.randrange(40)))
        try:
            while reader.next() is not None:
                pass
        except PeerProtocolError:
            pass
    for payload in (b"", b"\0" * 5, b"\0\0\0\0\1a123", b"\0\0\0\0\1\xff" + b"\0" * 8):
        with pytest.raises(PeerProtocolError):
            frames.read_field(payload)


@pytest.mark.parametrize(
    ("environment", "number"),
    [
        ({"MELISSA_CLIENT_ID": "5"}, 5),
        ({"MELISSA_CLIENT_ID": "5", "YOD_GROUP_SIZE": "4", "YOD_SIMULATION": "3"}, 23),
        ({"MELISSA_CLIENT_ID": "5", "YOD_GROUP_SIZE": "4", "YOD_RANK": "7", "YOD_SIZE": "8"}, 23),
        ({"MELISSA_CLIENT_ID": "5", "YOD_GROUP_SIZE": "4", "YOD_RANK": "4", "YOD_SIZE": "8"}, 22),
    ],
)
def test_a_simulation_knows_its_number(environment, number):
    assert _number(environment) == number
