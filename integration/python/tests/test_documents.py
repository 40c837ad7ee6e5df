"""What the docstrings and docs/guide/python.md show is so."""

from __future__ import annotations

import asyncio
import datetime
import doctest
import importlib
import json
import os
import pathlib

import pytest

from beadlock import memory
from conftest import Scene

PAGE = pathlib.Path(__file__).parents[3] / "docs/guide/python.md"
README = pathlib.Path(__file__).parents[1] / "README.md"
MODULES = [
    ("", 3),
    (".errors", 4),
    ("._lock", 6),
    ("._cycle", 3),
    ("._file", 8),
    (".memory", 8),
]
OPTIONS = doctest.ELLIPSIS


@pytest.fixture(autouse=True)
def default() -> None:
    """Of the workspace that each test has."""
    memory._default_lock = None


@pytest.mark.parametrize("module, at_least", MODULES)
def test_docstrings(scene: Scene, module: str, at_least: int) -> None:
    failed, attempted = doctest.testmod(
        importlib.import_module("beadlock" + module), optionflags=OPTIONS
    )
    assert failed == 0 and attempted >= at_least


def test_the_readme(scene: Scene) -> None:
    failed, attempted = doctest.testfile(
        str(README), module_relative=False, encoding="utf-8"
    )
    assert failed == 0 and attempted >= 4


def test_the_page(scene: Scene) -> None:
    names = {
        "asyncio": asyncio,
        "json": json,
        "os": os,
        "now": lambda: datetime.datetime.now(datetime.timezone.utc),
    }
    ended = doctest.testfile(
        str(PAGE),
        module_relative=False,
        optionflags=OPTIONS,
        encoding="utf-8",
        globs=names,
    )
    failed, attempted = ended
    assert failed == 0 and attempted >= 24
