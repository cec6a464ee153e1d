"""The five phases on the published agent, and their statistics on episodes with a known answer."""

import numpy as np
import pytest

from nmn_keras import zoo
from nmn_keras.analysis import freezing


@pytest.fixture(scope="module")
def played():
    return freezing.play_phases(zoo.load("b3-nmn", "onnx"), 40, seed=77)


def test_z_rests_while_it_is_locked(played):
    starts = played["starts"]
    assert ((starts[:, 2] - starts[:, 1] >= 100) & (starts[:, 2] - starts[:, 1] < 300)).all()
    assert len(np.unique(starts[:, 2])) > 20  # locked at a random step
    for episode, (_, second, third, _, fifth) in enumerate(starts):
        z = played["z"][:, episode]
        for first, last in ((0, second), (third - 1, fifth)):  # locked at what it was at the step before
            assert np.ptp(z[first:last], axis=0).max() < 1e-6
        assert np.ptp(z[second:third], axis=0).max() > 0.1 and np.ptp(z[fifth:], axis=0).max() > 0.1
    np.testing.assert_allclose(played["z"][0], np.tile(played["z"][0, :1], (40, 1)), atol=1e-6)


def test_the_agent_explores_adapts_keeps_errs_and_recovers(played):
    a, b, c, d, e = freezing.describe(played).values()
    assert 0.35 < a["wrong"][0] < 0.65  # near chance
    assert b["settled"]["good"][0] > 8 * b["settled"]["bad"][0] and b["settled"]["good"][0] > 15
    assert c["good"][0] > 5 * c["bad"][0] and c["good"][0] > 15
    assert d["bad"][0] > 5 * d["good"][0] and d["bad"][0] > 15
    assert e["settled"]["good"][0] > 8 * e["settled"]["bad"][0]
    begun = e["onset"]
    assert begun["bad"][0, 5] > 10 > 5 > begun["bad"][0, -1] and begun["good"][0, 5] < 8 < 12 < begun["good"][0, -1]
    assert d["reward"][0] < 0 < c["reward"][0]


def test_hits_are_counted_in_each_episodes_own_phases():
    """Every 10th step hits: the good target before `switch`, the bad one after it, which is where phase d begins."""
    starts = np.array([[0, 200, 300, 500, 700], [0, 200, 450, 650, 850]])
    step = np.arange(1050)[:, np.newaxis]
    rewards = np.where(step % 10 == 9, np.where(step < starts[:, 3], 100.0, -50.0), 0.0)
    found = freezing.describe({"starts": starts, "rewards": rewards})
    for name, good in zip(freezing.PHASES, (10, 10, 10, 0, 0), strict=True):
        assert found[name]["good"].tolist() == [good] * 3
        np.testing.assert_allclose(found[name]["bad"], 10 - good)
        np.testing.assert_allclose(found[name]["entered"], 10 - good)
        np.testing.assert_allclose(found[name]["wrong"], (10 - good) / 10)
        np.testing.assert_allclose(found[name]["settled"]["good"], good)
        np.testing.assert_allclose(found[name]["idle"], 0)
        np.testing.assert_allclose(found[name]["reward"], 10.0 if good else -5.0)
    rewards[50:200, 1] = 0.0  # of two episodes one has no hit from step 50 of phase a on
    a = freezing.describe({"starts": starts, "rewards": rewards})["a"]
    assert a["settled"]["idle"][0] == 0.5 and a["idle"][0] == 0
    onset = found["d"]["onset"]["bad"][0]
    np.testing.assert_allclose(onset[:9], 0)
    np.testing.assert_allclose(onset[9:14], 20.0)  # one hit in five steps
    np.testing.assert_allclose(onset[14:19], 0)
