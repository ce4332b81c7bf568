import pytest


@pytest.fixture
def directory():
    return "/shop"
