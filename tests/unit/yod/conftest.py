"""Fixtures that several modules of tests share."""

import pytest

from tests.unit.yod.speech_of import Files


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)
