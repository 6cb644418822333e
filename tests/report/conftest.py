"""Reports of experiments that are written by hand (made_experiment.py)."""

import pytest

from made_experiment import Made, make_experiment
from page_reader import PageReader, read_page
from smelt.plan.manifest import Manifest


def run_report(results, made: Made, **settings) -> Manifest:
    return results.run(
        "report", "quickstart", {"experiment": "quickstart", "report": settings}, nodes=list(made.nodes.values())
    )


@pytest.fixture(scope="session")
def made(session_results) -> Made:
    return make_experiment(session_results.root)


@pytest.fixture(scope="session")
def report(session_results, made) -> Manifest:
    return run_report(session_results, made)


@pytest.fixture(scope="session")
def html(report) -> str:
    return report.file("report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def page(html) -> PageReader:
    return read_page(html)


@pytest.fixture
def reported(results):
    """Call with an experiment in `results.root` to get its page."""

    def run(made: Made, **settings) -> str:
        return run_report(results, made, **settings).file("report.html").read_text(encoding="utf-8")

    return run
